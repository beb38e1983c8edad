"""`WatchChannels`: sends all channels, then changes. Each message is true at a revision of the registry's store.

While nothing changes, empty messages serve as heartbeats.
"""

from collections.abc import AsyncIterator

from braid.api.registry.v1.route_pb2 import WatchChannelsRequest, WatchChannelsResponse
from braid.kernel.errors import Unsupported
from braid.kernel.limits.registry.resources import RECONCILE_SECONDS, WATCH_ALIVE_SECONDS
from braid.runtime.replica import Replica
from braid.runtime.traces.newest import NewestTrace
from services.registry.codec.views import channel_message, cluster_addresses
from services.registry.histories import STREAMS, read_world
from services.registry.term_tasks import Signal, wait_for

PROTOCOL_VERSION = 1


async def watch_channels(
    replica: Replica, changed: Signal, request: WatchChannelsRequest
) -> AsyncIterator[WatchChannelsResponse]:
    """Yields the full list first, then changes, until leadership ends.

    Raises:
        NotLeader: this replica does not lead, or no longer.
    """
    if request.protocol_version != PROTOCOL_VERSION:
        remedy = f"this registry speaks version {PROTOCOL_VERSION}"
        raise Unsupported(f"protocol version {request.protocol_version} is unknown", remedy=remedy)
    newest = NewestTrace(replica.aggregates, (STREAMS.name,))
    try:
        async for message in _messages(replica, changed, newest):
            yield message
    finally:
        newest.close()


async def _messages(replica: Replica, changed: Signal, newest: NewestTrace) -> AsyncIterator[WatchChannelsResponse]:
    told = WatchChannelsResponse()
    spoke = -WATCH_ALIVE_SECONDS
    while True:
        event = changed.next()
        replica.require_leader()
        known = told.full and replica.aggregates.revision == told.revision
        now = told if known else _everything(replica)
        message = _changes(told, now) if told.full else now
        elapsed = replica.host.clock.elapsed()
        if message is None and elapsed - spoke >= WATCH_ALIVE_SECONDS:
            message = WatchChannelsResponse(revision=now.revision)
        if message is not None:
            spoke = elapsed
            yield _traced(message, newest.take())
        told = now
        await wait_for(event, RECONCILE_SECONDS)


def _everything(replica: Replica) -> WatchChannelsResponse:
    world = read_world(replica.aggregates, replica.host.clock.now_ms())
    pairs = [(stream, channel) for stream in world.streams.values() for channel in stream.channels]
    return WatchChannelsResponse(
        revision=replica.aggregates.revision,
        channels=[channel_message(stream, channel) for stream, channel in pairs],
        clusters=cluster_addresses(world, [channel.cluster for _, channel in pairs]),
        full=True,
    )


def _traced(message: WatchChannelsResponse, traceparent: str) -> WatchChannelsResponse:
    """The message with its trace. What it is compared with later must not have one, so it is a copy."""
    if not traceparent or message.full:
        return message
    traced = WatchChannelsResponse(traceparent=traceparent)
    traced.MergeFrom(message)
    return traced


def _changes(told: WatchChannelsResponse, now: WatchChannelsResponse) -> WatchChannelsResponse | None:
    """The changes since the last message; None if there are none. A forgotten channel was reported as retired
    before."""
    if now.revision == told.revision:
        return None
    known = {channel.name: channel for channel in told.channels}
    changed = [channel for channel in now.channels if known.get(channel.name) != channel]
    if not changed and list(now.clusters) == list(told.clusters):
        return None
    return WatchChannelsResponse(revision=now.revision, channels=changed, clusters=now.clusters)
