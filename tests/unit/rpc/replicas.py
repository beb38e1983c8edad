"""Replicas on a network in memory, on virtual time, and clients that look for their leader."""

from collections.abc import Coroutine
from typing import Any

from google.protobuf.wrappers_pb2 import StringValue

from braid.api.mesh.v1.endpoint_pb2 import Endpoint, ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import ClusterUnavailable, Invalid, NotLeader, QuotaExceeded
from braid.kernel.ports import Caller, DuplexServing, RpcService
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import duplex, method_path, unary
from tests.support.virtual_time import run_virtual, running_loop, virtual_host


class World:
    """Two replicas of the assigner, one of the registry; `leader` says who leads the assigner, as all know."""

    def __init__(self) -> None:
        self.host = virtual_host(running_loop(), 1)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.leader = "assigner-0"
        self.addresses = {"assigner-0": "a0:1", "assigner-1": "a1:1", "registry-0": "r0:1"}
        self.asked: list[str] = []  # for endpoints
        self.answered: list[tuple[str, str]] = []
        self.stale: dict[str, str] = {}  # whom a replica still takes for the leader
        self.cut_off: set[str] = set()  # whom the store does not answer: they tell what was, as it was then
        self.full_until = 0.0  # a tenant's quota of calls is used up
        self.patient = ""  # the service whose leader replicas wait for as long as they are asked to
        self.directory = Directory(MemoryTransport(self.network, "client"), self.host, ["r0:1"])
        self.client = ServiceClient(self.directory, "assigner", self.host, principal="me", tenant="acme")

    async def start(self) -> "World":
        for instance in self.addresses:
            await self.start_one(instance)
        return self

    async def start_one(self, instance: str) -> None:
        service = instance.partition("-")[0]

        async def list_endpoints(request: ListEndpointsRequest, caller: Caller) -> ListEndpointsResponse:
            self.asked.append(instance)
            if request.leader_of and request.leader_of == self.patient:
                await self.host.clock.sleep(request.wait_ms / 1000)
            leader = self.stale.get(instance, self.leader)
            return ListEndpointsResponse(
                endpoints=[
                    Endpoint(service=each.partition("-")[0], instance=each, address=address, leader=each == leader)
                    for each, address in self.addresses.items()
                ],
                stale=instance in self.cut_off,
            )

        async def do(request: StringValue, caller: Caller) -> StringValue:
            self._check(instance)
            if request.value == "bad":
                raise Invalid("bad", field="value")
            self.answered.append((instance, caller.request_id))
            if request.value == "cluster":
                raise ClusterUnavailable("east does not answer")
            if request.value == "often" and self.host.clock.elapsed() < self.full_until:
                raise QuotaExceeded("too often", metadata={"retry_ms": "700"})
            if request.value == "many":
                raise QuotaExceeded("too many")
            if request.value == "slow":
                await self.host.clock.sleep(1.0)
            return StringValue(value=f"{instance} for {caller.principal} of {caller.tenant}")

        async def talk(stream: DuplexServing) -> None:
            self._check(instance)
            await stream.send(StringValue(value=instance))

        rpc = RpcService(
            instance,
            {
                method_path(service, "ListEndpoints"): unary(ListEndpointsRequest, list_endpoints),
                method_path(service, "Do"): unary(StringValue, do),
                method_path(service, "Read"): unary(StringValue, self._read(instance)),
            },
            {},
            {method_path(service, "Talk"): duplex(StringValue, talk)},
        )
        await MemoryTransport(self.network, instance).serve(self.addresses[instance], rpc)

    async def do(self, value: str = "", timeout_seconds: float = 5.0) -> str:
        answer = await self.client.unary("Do", StringValue(value=value), StringValue, timeout_seconds=timeout_seconds)
        return answer.value

    async def asked_by_a_refresh(self) -> list[str]:
        """The addresses that the directory asks when it looks for the assigner's leader."""
        self.asked.clear()
        await self.directory.refresh("assigner")
        return list(self.asked)

    def _read(self, instance: str) -> Any:
        async def read(request: StringValue, caller: Caller) -> StringValue:
            return StringValue(value=instance)

        return read

    def _check(self, instance: str) -> None:
        if instance != self.leader:
            raise NotLeader("not here", metadata={"leader": self.addresses.get(self.leader, "")})


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)
