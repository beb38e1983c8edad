"""A mesh in which one of four members becomes ten times slower, in two groups: one leaves slow members."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from braid.api.assigner.v1 import responses_pb2
from braid.api.registry.v1 import registry_service_pb2, stream_pb2
from braid.client.mesh import Mesh as ClientMesh
from braid.client.records.record import Record
from services.assigner.reconciler.group_loop import GROUPS
from tests.simulation.answering import GROUP, PLAIN, STREAM, TARGET_SECONDS, AnsweringMesh
from tests.support.virtual_time import VirtualProcess

PARTITIONS: Final = 64
RATE: Final = 160.0  # records a second of lane live
HANDLING_SECONDS: Final = 0.05
HANDLERS: Final = 4  # of a member: two of them are busy
SLOW: Final = "4"
SLOWER: Final = 10
LEAVE_SLOW: Final = responses_pb2.ResponsePolicy(
    kind=responses_pb2.RESPONSE_KIND_LEAVE_SLOW_MEMBERS,
    mode=responses_pb2.RESPONSE_MODE_AUTOMATIC,
    cooldown_seconds=5,
    undo_after_seconds=10,
)


class SlowingMesh(AnsweringMesh):
    """Four members of each group, of which one can be made slow.

    Attributes:
        slower: How many times longer the handlers of the slow members take.
    """

    slower: float = 1.0

    async def begin_four(self) -> "SlowingMesh":
        """Starts everything; loads are measured, and leases have come to rest, when this returns."""
        await super(AnsweringMesh, self).start()
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
        for group in (GROUP, PLAIN):
            for number in (1, 2, 3, 4):
                self._spawn(f"{group}-{number}", partial(self._handle, group, slow=str(number) == SLOW))
        self._spawn("sender", partial(self._send, "live"))
        self._spawn("watcher", self._watch)
        await self.host.clock.sleep(5.0)
        await self.set(LEAVE_SLOW)
        await self.host.clock.sleep(50.0)
        return self

    def leases(self, group: str) -> Mapping[str, int]:
        """How many leases each member of a group holds, by the last letter of its name."""
        state = self.replicas["assigner-0"].aggregates.state(GROUPS, group)
        return {each.client_id[-1]: len(state.held_by(id)) for id, each in state.members.items()}

    def lags(self, group: str, since: float) -> list[float]:
        """Lags of a group in lane live since a moment."""
        return [each.seconds for each in self.seen if each.group == group and each.at >= since]

    async def _handle(self, group: str, mesh: ClientMesh, process: VirtualProcess, *, slow: bool) -> None:
        async def handle(record: Record) -> None:
            await process.host.clock.sleep(HANDLING_SECONDS * (self.slower if slow else 1.0))

        async with mesh, mesh.consumer([STREAM], group=group, lanes={"live": 1}, concurrency=HANDLERS) as reader:
            await reader.run(handle)
