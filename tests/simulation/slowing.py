"""A mesh in which one of four members becomes ten times slower: real services and members on virtual time."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from braid.api.assigner.v1 import responses_pb2
from braid.api.registry.v1 import registry_service_pb2, stream_pb2
from braid.client.mesh import Mesh as ClientMesh
from braid.client.records.record import Record
from services.assigner.reconciler.group_loop import GROUPS
from tests.simulation.answering import GROUP, STREAM, TARGET_SECONDS, AnsweringMesh
from tests.support.virtual_time import VirtualProcess

PARTITIONS: Final = 64
RATE: Final = 160.0  # records a second of lane live
HANDLING_SECONDS: Final = 0.05
HANDLERS: Final = 4  # of a member: two of them are busy
SLOW: Final = "reader-4"
SLOWER: Final = 10


class SlowingMesh(AnsweringMesh):
    """Four members of one group, of which one can be made slow.

    Attributes:
        slower: By process, how many times longer its handlers take.
    """

    slower: dict[str, float]

    async def begin_four(self, *policies: responses_pb2.ResponsePolicy) -> "SlowingMesh":
        """Starts everything; after some time loads are measured, and stand in their band."""
        self.slower = {}
        await super().start()
        for name in ("assigner-1", "lagmon-0"):
            await self.run_service(name)
        self.rates = {"live": RATE}
        spec = stream_pb2.StreamSpec(
            lanes={"live": stream_pb2.LaneSpec(partitions=PARTITIONS)},
            clusters=("east", "west"),
            replication_factor=1,
            lag_target={"live": f"{TARGET_SECONDS:g}s"},
        )
        request = registry_service_pb2.CreateStreamRequest(name=STREAM, spec=spec)
        await self.client.service("registry").unary("CreateStream", request, stream_pb2.Stream)
        for number in (1, 2, 3, 4):
            self.member(f"reader-{number}")
        self._spawn("sender", partial(self._send, "live"))
        self._spawn("watcher", self._watch)
        await self.host.clock.sleep(5.0)
        if policies:
            await self.set(*policies)
        await self.host.clock.sleep(60.0)
        return self

    def leases(self) -> Mapping[str, int]:
        """How many leases each process holds."""
        state = self.replicas["assigner-0"].aggregates.state(GROUPS, GROUP)
        return {each.client_id: len(state.held_by(id)) for id, each in state.members.items()}

    def worst_lag(self, since: float) -> float:
        """The largest lag of lane live since a moment."""
        return max(each.seconds for each in self.seen if each.at >= since)

    async def _consume(self, mesh: ClientMesh, process: VirtualProcess, **consumer: int) -> None:
        name = next(name for name, each in self.members.items() if each is process)

        async def handle(record: Record) -> None:
            await process.host.clock.sleep(HANDLING_SECONDS * self.slower.get(name, 1))

        async with mesh, mesh.consumer([STREAM], group=GROUP, lanes={"live": 1}, concurrency=HANDLERS) as reader:
            await reader.run(handle)


def leave_slow(mode: "responses_pb2.ResponseMode.ValueType") -> responses_pb2.ResponsePolicy:
    """The policy, with waits as short as they may be."""
    return responses_pb2.ResponsePolicy(
        kind=responses_pb2.RESPONSE_KIND_LEAVE_SLOW_MEMBERS, mode=mode, cooldown_seconds=5, undo_after_seconds=10
    )
