"""Callers of one tenant that make more groups at once than its quota lets them, and give up on calls, during faults."""

import asyncio
from collections.abc import Sequence
from typing import Final

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import stream_pb2, tenant_pb2
from braid.kernel.errors import AlreadyExists, BraidError
from braid.kernel.ports import Host
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from tests.simulation.journal import Journal

ADMIN: Final = "spiffe://simulation.local/user/admin"
TENANT: Final = "acme"
GROUPS_MAX: Final = 2
_CALLS_MAX: Final = 6
_CROWD: Final = 5
_STREAM: Final = "crowded"
_LANE: Final = "spare"
_PATIENCE_SECONDS: Final = 4.0
_HASTE_SECONDS: Final = 0.02  # some calls are given up after it, under way
_AGAIN_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 0.1  # between two rounds: without it most of a run's cost are calls that show nothing new


class Crowd:
    """The callers of tenant acme. Each makes a group of its own; then all are deleted, and they begin again."""

    def __init__(self, host: Host, network: MemoryNetwork, journal: Journal, endpoints: tuple[str, ...]) -> None:
        self._host = host
        self._journal = journal
        self._clients: dict[tuple[str, str], ServiceClient] = {}
        for who in (ADMIN, *(f"spiffe://simulation.local/acme/{number}" for number in range(_CROWD))):
            directory = Directory(MemoryTransport(network, f"caller {who}", who), host, endpoints)
            for service in ("registry", "assigner"):
                self._clients[who, service] = ServiceClient(directory, service, host, principal=who)
        self._left: Sequence[str] = ("nobody has asked yet",)

    async def prepare(self, clusters: tuple[str, ...]) -> None:
        """Declares a stream for the groups, and the tenant."""
        lanes = {_LANE: stream_pb2.LaneSpec(partitions=1)}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=clusters, replication_factor=1)
        registry = self._clients[ADMIN, "registry"]
        await self._insist(registry, "CreateStream", registry_api.CreateStreamRequest(name=_STREAM, spec=spec))
        quotas = tenant_pb2.TenantQuotas(groups=GROUPS_MAX, open_calls=_CALLS_MAX)
        tenant = tenant_pb2.TenantSpec(principals=["spiffe://simulation.local/acme/*"], quotas=quotas)
        await self._insist(registry, "SetTenant", tenant_pb2.SetTenantRequest(name=TENANT, spec=tenant))
        await self._host.clock.sleep(1.0)  # every assigner knows

    async def run(self, seconds: float) -> None:
        """Makes and deletes groups for so long, and then asks until the tenant is let in again."""
        until = self._host.clock.elapsed() + seconds
        crowd = [who for who, service in self._clients if service == "assigner" and who != ADMIN]
        while self._host.clock.elapsed() < until:
            names = [f"crowd-{number}" for number in range(_CROWD)]
            await asyncio.gather(*map(self._make, crowd, names))
            await asyncio.gather(*map(self._delete, crowd, names))
            await self._host.clock.sleep(_PAUSE_SECONDS)
        while self._left:
            await self._host.clock.sleep(_AGAIN_SECONDS)
            answers = await asyncio.gather(*(self._call(who, "ListGroups", seconds=_PATIENCE_SECONDS) for who in crowd))
            self._left = [str(each) for each in answers if each is not None]

    def refused(self) -> Sequence[str]:
        """Why callers are refused that have nothing open; empty once all are answered."""
        return self._left

    async def _make(self, who: str, name: str) -> None:
        await self._call(who, "ListGroups", seconds=_HASTE_SECONDS)
        await self._call(who, "CreateGroup", name)

    async def _delete(self, who: str, name: str) -> None:
        await self._call(who, "DeleteGroup", name)

    async def _call(self, who: str, method: str, name: str = "", *, seconds: float = _PATIENCE_SECONDS) -> object:
        """Makes a call; returns its error, or None."""
        client = self._clients[who, "assigner"]
        try:
            if method == "ListGroups":
                request, answer = assigner_api.ListGroupsRequest(), assigner_api.ListGroupsResponse
                await client.unary(method, request, answer, timeout_seconds=seconds)
            elif method == "CreateGroup":
                spec = group_pb2.GroupSpec(streams=[_STREAM], lanes={_LANE: 1})
                made = assigner_api.CreateGroupRequest(name=name, spec=spec)
                await client.unary(method, made, group_pb2.Group, timeout_seconds=seconds)
            else:
                deleted = assigner_api.DeleteGroupRequest(name=name)
                await client.unary(method, deleted, group_pb2.Group, timeout_seconds=seconds)
        except BraidError as error:
            self._journal.say(f"{who} {method} {name}: {error}")
            return error
        return None

    async def _insist(self, registry: ServiceClient, method: str, request: object) -> None:
        answer = stream_pb2.Stream if method == "CreateStream" else tenant_pb2.Tenant
        while True:
            try:
                await registry.unary(method, request, answer)
            except AlreadyExists:
                return
            except BraidError as error:
                self._journal.say(f"{method} again: {error}")
                await self._host.clock.sleep(_AGAIN_SECONDS)
            else:
                return
