"""The SDK on one broker without services: routes and leases are there at once, so that nothing else is measured."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.membership.lease_protocol import LeaseListener
from braid.client.mesh import MeshOfStreams
from braid.client.producing.route_session import Reach, RouteSource
from braid.client.producing.routes import ActiveChannel, RouteTable, cluster_address
from braid.client.records.delivery import OwnedLease
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import BraidError
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.ports import Generation, TopicPartition
from braid.kernel.resumptions import Resumption

STREAM: Final = "logs"
CLUSTER: Final = "east"
CHANNEL: Final = ChannelId(STREAM, "live", 1)
TOPIC: Final = CHANNEL.topic("braid.")
PARTITIONS: Final = 4
BATCH_BYTES: Final = 1 << 20  # a stream's default, and so the bound of a producer's batches


class FixedLeases:
    """`LeaseKeeper` that grants everything at once."""

    member_id = "bench"
    attached = True

    def __init__(self, listener: LeaseListener, bootstrap: str, channels: Sequence[ChannelId]) -> None:
        self._listener = listener
        self._bootstrap = bootstrap
        self._channels = channels

    def may_start(self) -> bool:
        return True

    async def joined(self) -> None:
        return

    async def run(self) -> None:
        address = cluster_address(CLUSTER, self._bootstrap)
        self._listener.granted(
            [
                OwnedLease(LeaseId(channel, number), 1, address, TopicPartition(channel.topic("braid."), number))
                for channel in self._channels
                for number in range(PARTITIONS)
            ]
        )

    async def guard(self) -> None:
        return

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        return

    async def divided(self, splits: Sequence[join_pb2.SplitLease]) -> None:
        return

    async def found(self, findings: join_pb2.RestoreFindings) -> None:
        return

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        return

    async def refused(self, cluster: str, generation: Generation) -> None:
        return

    async def leaving(self) -> None:
        return

    async def leave(self, reason: str) -> None:
        return


class FixedRoute:
    """`RouteSource` that knows one route."""

    def __init__(self, bootstrap: str, on_route: Callable[[RouteTable], None]) -> None:
        self._bootstrap = bootstrap
        self._on_route = on_route

    async def run(self) -> None:
        """Tells the route, then stays."""
        channel = ActiveChannel(CHANNEL, CLUSTER, TOPIC, PARTITIONS, 1.0)
        address = cluster_address(CLUSTER, self._bootstrap)
        self._on_route(RouteTable(STREAM, 1, {"live": (channel,)}, {CLUSTER: address}, BATCH_BYTES, {}))
        await asyncio.Event().wait()

    def asks(self, reach: Callable[[str], Reach]) -> None:
        return

    def left(self, channel: ActiveChannel, next_offsets: Mapping[int, int]) -> None:
        return

    def resumed(self, channel: ActiveChannel, resumption: Resumption) -> None:
        return

    async def told(self) -> None:
        return

    def acknowledge(self, revision: int) -> None:
        return

    def report(self, cluster: str, channel: str, count: int, reason: str) -> None:
        return


class FixedMesh(MeshOfStreams):
    """A mesh of channels that never move."""

    def __init__(self, bootstrap: str, channels: Sequence[ChannelId] = (CHANNEL,)) -> None:
        """Records are consumed from all `channels`, and sent to `CHANNEL` alone."""
        super().__init__(system_host(), AioKafka("bench"), "bench", "")
        self._bootstrap = bootstrap
        self._channels = channels

    def _routes(
        self,
        stream: str,
        lanes: Sequence[str],
        producer_id: str,
        on_route: Callable[[RouteTable], None],
        on_refused: Callable[[BraidError], None],
    ) -> RouteSource:
        return FixedRoute(self._bootstrap, on_route)

    def _leases(
        self,
        settings: ConsumerSettings,
        listener: LeaseListener,
        loads: Callable[[], object],
        capabilities: Sequence[str] = (),
    ) -> FixedLeases:
        return FixedLeases(listener, self._bootstrap, self._channels)
