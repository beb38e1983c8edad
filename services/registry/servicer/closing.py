"""Handlers for drains that cannot end by themselves, and for channels that wait for them.

`CloseChannel` ends a drain, if the request names exactly what is given up. `ReleaseChannel` lets a waiting channel go
on.
"""

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import ClusterUnavailable, Invalid, Refused
from braid.kernel.ids import ChannelId
from braid.kernel.offset_ranges import OPEN, OffsetRanges
from braid.kernel.ports import Caller
from braid.runtime.access.approvals import Destruction
from services.registry.codec.events import range_messages, read_ranges
from services.registry.codec.views import channel_message
from services.registry.histories import STREAMS
from services.registry.kafka import drain
from services.registry.model.channels import Channel, ChannelRef, ChannelState
from services.registry.model.clusters.losses import below, check_accepted
from services.registry.model.stream_commands import CloseChannel, ReleaseChannel
from services.registry.servicer.request_context import RequestContext


class ClosingRequests:
    """The handlers of `CloseChannel` and `ReleaseChannel` in one replica."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def close(self, request: api.CloseChannelRequest, caller: Caller) -> api.CloseChannelResponse:
        """Closes a channel, or in a dry run returns what that would give up.

        Raises:
            NotFound: the stream or channel does not exist.
            Refused: it does not drain, its drain continues without help, or other ranges were named.
            ClusterUnavailable: its cluster is healthy, but did not answer.
        """
        self._context.term()
        name = _parsed(request.channel)
        channel = self._channel(name)
        would: OffsetRanges = ()
        if not channel.closed:
            would = await self._would_give_up(name.stream, channel)
            if not request.dry_run:
                check_accepted(read_ranges(request.accept_loss), would, str(name))
                command = CloseChannel(channel.ref, would, request.reason)
                await self._require_approval(name, request, caller)
                await self._context.execute(STREAMS, name.stream, command, caller)
                channel = self._channel(name)
        return api.CloseChannelResponse(channel=self._message(name), given_up=range_messages(would))

    async def release(self, request: api.ReleaseChannelRequest, caller: Caller) -> stream_pb2.Channel:
        """Lets a channel of an ordered stream be consumed beside older ones.

        Raises:
            NotFound: the stream or channel does not exist.
            Refused: it waits for no other.
        """
        self._context.term()
        name = _parsed(request.channel)
        command = ReleaseChannel(self._channel(name).ref, request.reason)
        await self._context.execute(STREAMS, name.stream, command, caller)
        return self._message(name)

    async def _require_approval(self, name: ChannelId, request: api.CloseChannelRequest, caller: Caller) -> None:
        """Asks for an approval of the loss that the request accepts; generations are never used again."""
        if not request.accept_loss:
            return
        identity = str(self._context.stream(name.stream, "channel").create_time_ms)
        resources = (Resource(ResourceKind.STREAM, name.stream),)
        destruction = Destruction((GuardedVerb.CLOSE_CHANNEL,), resources, identity)
        await self._context.replica.approvals.require("CloseChannel", request, destruction, caller)

    def _message(self, name: ChannelId) -> stream_pb2.Channel:
        return channel_message(self._context.stream(name.stream), self._channel(name))

    def _channel(self, name: ChannelId) -> Channel:
        return self._context.stream(name.stream, "channel").channel(ChannelRef(name.lane, name.generation))

    async def _would_give_up(self, stream: str, channel: Channel) -> OffsetRanges:
        """The offsets that closing gives up: on an unreachable cluster, all not known to be done; else those the
        cluster shows.

        A cluster that answers, but cannot complete the drain, counts as unreachable.
        """
        if channel.state is not ChannelState.DRAINING:
            message = f"channel {channel.ref} is {channel.state.name}: only one that drains can be closed"
            raise Refused(message, field="channel", remedy="move its stream elsewhere first")
        world, term = self._context.world(), self._context.term()
        cluster = world.cluster(channel.cluster)
        if world.lost(channel):
            return below(channel.known_ends)
        if not cluster.reachable:
            return below(channel.end_offsets or (OPEN,) * channel.partitions)
        stuck = term.reconciler.problems.get((stream, channel.ref))
        try:
            found = await drain.given_up(term.access, term.peers, cluster, stream, channel)
        except ClusterUnavailable:
            if stuck is None:
                raise
            found = None
        if found is None and stuck is not None:
            return below(channel.end_offsets or (OPEN,) * channel.partitions)
        if found is None:
            message = f"the drain of channel {channel.ref} goes on by itself: its cluster is well"
            raise Refused(message, field="channel", remedy=f"look again: braid get channels {channel.id(stream)}")
        return found


def _parsed(text: str) -> ChannelId:
    try:
        return ChannelId.parse(text)
    except Invalid as error:
        raise Invalid(f"{text!r} is no channel", field="channel", remedy="write STREAM/LANE/GENERATION") from error
