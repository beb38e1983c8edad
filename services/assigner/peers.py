"""Follows the registry's channels, on whichever replica leads, and reads lag from lagmon. Decides nothing.

Every replica of the assigner follows them, so that a new leader knows where clusters are even while no registry
answers.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from braid.api.lagmon.v1 import lag_history_pb2, lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1 import route_pb2, stream_pb2
from braid.kernel.errors import BraidError, DeadlineExceeded, Invalid, NotFound, Unavailable
from braid.kernel.lag_targets import target_of, target_seconds
from braid.kernel.limits.assigner.leases import REGISTRY_ANSWER_SECONDS
from braid.kernel.limits.assigner.scaling import (
    SCALING_ANSWER_SECONDS,
    SCALING_LAG_SECONDS,
    SCALING_STALE_SECONDS,
    SCALING_TARGETS_SECONDS,
)
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed
from braid.runtime.channel_stream import follow_channels
from services.assigner.model.channels import (
    Presence,
    SeenChannel,
)
from services.assigner.model.lag.rows import LagRow
from services.assigner.model.lag.scaling import LaneRates
from services.assigner.model.registry_view import ClusterPlace, RegistryView

_STEP_MS: Final = 10_000  # of kept lag: the shortest

_PRESENCES = {
    stream_pb2.CHANNEL_STATE_ACTIVE: Presence.CONSUMABLE,
    stream_pb2.CHANNEL_STATE_DRAINING: Presence.CONSUMABLE,
    stream_pb2.CHANNEL_STATE_RETIRED: Presence.GONE,
}


class RegistryFollower:
    """The registry's channels as last heard; an interruption keeps the last view.

    Attributes:
        trace: `traceparent` of the newest change, where it was traced.
    """

    def __init__(self, host: Host, client: ServiceClient) -> None:
        self._host = host
        self._client = client
        self._view: RegistryView | None = None
        self._changed = asyncio.Event()
        self._subscribers: list[Callable[[Collection[str] | None], None]] = []
        self.trace = ""

    @property
    def view(self) -> RegistryView | None:
        """The newest view; None before the registry was heard for the first time."""
        return self._view

    def subscribe(self, callback: Callable[[Collection[str] | None], None]) -> Callable[[], None]:
        """Registers a callback for every change of the view. Returns the function that ends the subscription.

        The callback gets the streams whose channels changed; None where clusters did, or all is new.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def run(self) -> None:
        """Follows forever."""
        await follow_channels(self._host, self._client, self._take)

    async def view_with(self, streams: Collection[str]) -> RegistryView:
        """Returns a view that has these streams, or one in which the registry itself says they are missing.

        Raises:
            Unavailable: the registry does not answer, or its streams have no channels yet.
        """
        try:
            async with asyncio.timeout(REGISTRY_ANSWER_SECONDS):
                return await self._view_with(streams)
        except TimeoutError:
            raise Unavailable(
                f"the registry reports no channels of {', '.join(streams)}", remedy="try again when it answers"
            ) from None

    def suspects(self, streams: Collection[str]) -> bool:
        """Whether the streams may be deleted: in the newest view, none of their channels carries traffic."""
        return self._view is not None and not self._view.consumable(streams)

    async def deleted(self, streams: Collection[str]) -> bool:
        """Whether the registry says that none of the streams exists; False while it does not answer."""
        if not self.suspects(streams):
            return False
        for stream in streams:
            request = registry.GetStreamRequest(name=stream)
            try:
                await self._client.unary(
                    "GetStream", request, stream_pb2.Stream, timeout_seconds=REGISTRY_ANSWER_SECONDS
                )
            except NotFound:
                continue
            except (Unavailable, DeadlineExceeded):
                return False
            return False
        return True

    async def _view_with(self, streams: Collection[str]) -> RegistryView:
        while self._view is None:
            await self._next()
        for stream in self._view.unknown(streams):
            try:
                await self._client.unary("GetStream", registry.GetStreamRequest(name=stream), stream_pb2.Stream)
            except NotFound:
                return self._view
            while self._view.unknown([stream]):
                await self._next()
        return self._view

    async def _next(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _take(self, message: route_pb2.WatchChannelsResponse) -> None:
        told = RegistryView(
            message.revision,
            {channel.name: _seen(channel) for channel in message.channels},
            {cluster.name: _place(cluster) for cluster in message.clusters},
        )
        before = self._view
        self._view = told if message.full or before is None else before.followed_by(told)
        self.trace = message.traceparent
        self._changed.set()
        changed = self._view.differing(before)
        for callback in tuple(self._subscribers):
            callback(changed)


def _seen(channel: stream_pb2.Channel) -> SeenChannel:
    """Reads a channel; a state that this release does not know counts as one before the channel carries traffic."""
    drained = channel.state == stream_pb2.CHANNEL_STATE_DRAINED
    return SeenChannel(
        channel.name,
        channel.cluster,
        channel.topic,
        channel.partitions,
        _presence(channel),
        draining=channel.state == stream_pb2.CHANNEL_STATE_DRAINING,
        given_up=channel.closed,
        drained_at_ms=channel.state_since_ms if drained else 0,
        left_revision=channel.left_revision,
        in_order=channel.in_order,
    )


def _presence(channel: stream_pb2.Channel) -> Presence:
    if channel.waits_for:
        return Presence.AHEAD
    if channel.state != stream_pb2.CHANNEL_STATE_DRAINED:
        return _PRESENCES.get(channel.state, Presence.AHEAD)
    if channel.retiring:
        return Presence.ENDING
    unsealed = channel.closed and not channel.end_offsets  # given up while its cluster was away
    return Presence.GONE if unsealed else Presence.DRAINED


def _place(cluster: ClusterAddress) -> ClusterPlace:
    return ClusterPlace(cluster.name, cluster.bootstrap, cluster.zone, cluster.security_profile)


class LagPeers:
    """Reads lag of groups from any lagmon replica, and lag targets of streams from the registry."""

    def __init__(self, host: Host, registry_client: ServiceClient, lagmon_client: ServiceClient) -> None:
        self._clock = host.clock
        self._registry = registry_client
        self._lagmon = lagmon_client
        self._targets: dict[str, tuple[float, Mapping[str, float]]] = {}
        self._silent_until = 0.0

    async def targets(self, group: str, lanes: Mapping[str, Collection[str]]) -> Mapping[str, float] | None:
        """Returns a group's declared targets in seconds by `<stream>/<lane>`; None when a stream's are not known.

        Args:
            group: Its name.
            lanes: Those that it consumes, by stream.
        """
        found: dict[str, float] = {}
        for stream, names in lanes.items():
            known = await self._declared(stream)
            if known is None:
                return None
            told = {lane: target_of(known, lane, group) for lane in names}
            found |= {f"{stream}/{lane}": seconds for lane, seconds in told.items() if seconds is not None}
        return found

    async def _declared(self, stream: str) -> Mapping[str, float] | None:
        """Returns the targets that a stream declares; None when the registry does not say.

        What it said within a minute is not asked again.
        """
        read_at, known = self._targets.get(stream, (0.0, {}))
        if stream not in self._targets or self._clock.elapsed() - read_at >= SCALING_TARGETS_SECONDS:
            request = registry.GetStreamRequest(name=stream)
            try:
                found = await self._registry.unary(
                    "GetStream", request, stream_pb2.Stream, timeout_seconds=SCALING_ANSWER_SECONDS
                )
            except BraidError:
                return None
            known = _read_targets(found.spec.lag_target)
            self._targets[stream] = (self._clock.elapsed(), known)
        return known

    def keep(self, streams: Collection[str]) -> None:
        """Forgets targets of other streams."""
        self._targets = {name: known for name, known in self._targets.items() if name in streams}

    async def present(self, group: str, *, partitions: bool) -> Sequence[LagRow] | None:
        """Returns a group's lag at this moment by lane, and also by partition; None where any of it is not known.

        As with `lag`, none is asked for a while after a call without an answer.
        """
        rows: list[LagRow] = []
        for detail in (lag_pb2.LAG_DETAIL_LANE, *((lag_pb2.LAG_DETAIL_PARTITION,) if partitions else ())):
            if self._clock.elapsed() < self._silent_until:
                return None
            request = lagmon.ListLagRequest(filter=lagmon.LagFilter(group=group), detail=detail)
            listing = listed(
                self._lagmon, "ListLag", request, lagmon.ListLagResponse, timeout_seconds=SCALING_ANSWER_SECONDS
            )
            try:
                async for page in listing:
                    read = None if page.catching_up else read_rows(page.lags)
                    if read is None:
                        return None
                    rows += read
            except BraidError:
                self._silent_until = self._clock.elapsed() + SCALING_ANSWER_SECONDS
                return None
        return rows

    async def lag(self, group: str) -> Mapping[str, LaneRates | None] | None:
        """Returns a group's present lag by `<stream>/<lane>`; None for a lane, or for all, where it is not known.

        After a call without an answer none is made for a while, so that looks at many groups do not wait for each.
        """
        if self._clock.elapsed() < self._silent_until:
            return None
        since_ms = self._clock.now_ms() - round(2 * SCALING_LAG_SECONDS * 1000)
        wanted = lagmon.LagHistoryFilter(group=group)

        request = lagmon.ListLagHistoryRequest(filter=wanted, since_ms=since_ms, step_ms=_STEP_MS)
        listing = listed(
            self._lagmon,
            "ListLagHistory",
            request,
            lagmon.ListLagHistoryResponse,
            timeout_seconds=SCALING_ANSWER_SECONDS,
        )
        found: dict[str, LaneRates | None] = {}
        try:
            async for page in listing:
                found |= {f"{each.stream}/{each.lane}": read_lane(each.steps, page.time_ms) for each in page.histories}
        except BraidError:
            self._silent_until = self._clock.elapsed() + SCALING_ANSWER_SECONDS
            return None
        return found


def read_rows(lags: Sequence[lag_pb2.Lag]) -> Sequence[LagRow] | None:
    """Reads rows of lag; None where one is stale or not known, or nobody consumes."""
    if any(each.stale or each.unattended or each.source == lag_pb2.LAG_SOURCE_UNKNOWN for each in lags):
        return None
    return [
        LagRow(
            each.stream,
            each.lane,
            each.topic,
            each.partition,
            each.lag_seconds,
            each.lag_records,
            each.seconds_to_zero if each.HasField("seconds_to_zero") else None,
        )
        for each in lags
        if each.stream
    ]


def read_lane(steps: Sequence[lag_history_pb2.LagStep], now_ms: int) -> LaneRates | None:
    """Reads a lane's newest steps of kept lag.

    Args:
        steps: Oldest first.
        now_ms: The wall clock of the replica that kept them.

    Returns:
        None where the newest step is old, or lag or rates were stale or not known lately.
    """
    newest = [each for each in steps if each.time_ms > now_ms - round(SCALING_LAG_SECONDS * 1000)]
    lately = [each for each in newest if each.time_ms > now_ms - round(SCALING_STALE_SECONDS * 1000)]
    rated = [each for each in newest if each.HasField("produced_per_s") and each.HasField("done_per_s")]
    known = [each for each in lately if each.HasField("lag_seconds") and each.HasField("lag_records")]
    if not rated or not known or any(each.stale or each.unknown or each.unattended for each in lately):
        return None
    produced, done = (sum(getattr(each, name) for each in rated) for name in ("produced_per_s", "done_per_s"))
    last = known[-1]
    return LaneRates(last.lag_seconds, last.lag_records, produced / len(rated), done / len(rated))


def _read_targets(told: Mapping[str, str]) -> Mapping[str, float]:
    """Reads a stream's targets; one that this release cannot read counts as none."""
    targets: dict[str, float] = {}
    for name, text in told.items():
        with contextlib.suppress(Invalid):
            targets[name] = target_seconds(text, name)
    return targets
