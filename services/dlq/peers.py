"""The dlq service's requests to other services: the registry's channels and streams, and the assigner's groups.

Every replica follows the channels, because each keeps its own index.
"""

import asyncio
from collections.abc import Sequence

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import route_pb2, stream_pb2
from braid.kernel.errors import NotFound
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.rpc import UNARY_DEADLINE_SECONDS
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.channel_stream import follow_channels
from services.dlq.model.channels import ChannelView, ClusterPlace, DlqChannel, Presence
from services.dlq.model.group_standing import GroupStanding

_PRESENCES = {
    stream_pb2.CHANNEL_STATE_ACTIVE: Presence.READABLE,
    stream_pb2.CHANNEL_STATE_DRAINING: Presence.READABLE,
    stream_pb2.CHANNEL_STATE_DRAINED: Presence.READABLE,
    stream_pb2.CHANNEL_STATE_RETIRED: Presence.GONE,
}


class ChannelFollower:
    """Follows the registry's channels on whichever replica leads. While the stream is down, the last view stays
    valid."""

    def __init__(self, host: Host, registry: ServiceClient) -> None:
        self._host = host
        self._registry = registry
        self._view: ChannelView | None = None
        self._changed = asyncio.Event()

    @property
    def view(self) -> ChannelView | None:
        """The newest view; None before the registry was first reached."""
        return self._view

    def changed(self) -> asyncio.Event:
        """An event set at the next change. Take it before reading the view, so that no change is missed."""
        return self._changed

    async def run(self) -> None:
        """Follows the channels until cancelled."""
        await follow_channels(self._host, self._registry, self._take)

    def _take(self, message: route_pb2.WatchChannelsResponse) -> None:
        before = ChannelView() if message.full or self._view is None else self._view
        channels = {channel.name: _channel(channel) for channel in message.channels}
        clusters = {each.name: ClusterPlace(each.bootstrap, each.security_profile) for each in message.clusters}
        self._view = ChannelView({**before.channels, **channels}, {**before.clusters, **clusters})
        told, self._changed = self._changed, asyncio.Event()
        told.set()


class Streams:
    """Reads streams from the registry."""

    def __init__(self, registry: ServiceClient) -> None:
        self._registry = registry

    async def lanes(self, stream: str, field: str) -> frozenset[str]:
        """The stream's lanes.

        Raises:
            NotFound: there is no such stream; names the field.
            Unavailable: no registry answers.
        """
        return frozenset({*(await self._get(stream, field)).spec.lanes, DLQ_LANE})

    async def retention_hours(self, stream: str, field: str, timeout_seconds: float = UNARY_DEADLINE_SECONDS) -> int:
        """The stream's retention in hours. Raises like `lanes`."""
        return (await self._get(stream, field, timeout_seconds)).spec.retention_hours

    async def create_time_ms(self, stream: str, field: str) -> int:
        """The time of the stream's creation, which tells it from another of its name. Raises like `lanes`."""
        return (await self._get(stream, field)).create_time_ms

    async def _get(self, stream: str, field: str, timeout_seconds: float = UNARY_DEADLINE_SECONDS) -> stream_pb2.Stream:
        request = registry_api.GetStreamRequest(name=stream)
        try:
            found = await self._registry.unary("GetStream", request, stream_pb2.Stream, timeout_seconds=timeout_seconds)
        except NotFound as error:
            remedy = "list them: braid get streams"
            raise NotFound(f"there is no stream {stream!r}", field=field, remedy=remedy) from error
        return found


class Groups:
    """Groups at the assigner: the service's own, and those whose letters are replayed."""

    def __init__(self, assigner: ServiceClient) -> None:
        self._assigner = assigner

    async def subscribe(self, group: str, streams: Sequence[str]) -> None:
        """Updates the streams of a registered group. An unregistered group is created by its first member instead.

        Raises:
            BraidError: the assigner does not answer, or does not know a stream yet.
        """
        try:
            found = await self._assigner.unary("GetGroup", assigner_api.GetGroupRequest(name=group), group_pb2.Group)
        except NotFound:
            return
        if list(found.spec.streams) == list(streams):
            return
        spec = group_pb2.GroupSpec(streams=streams)
        request = assigner_api.UpdateGroupRequest(name=group, spec=spec)
        await self._assigner.unary("UpdateGroup", request, group_pb2.Group)

    async def standing(self, group: str, timeout_seconds: float) -> GroupStanding | None:
        """A group as the assigner's leader knows it; None if it is not registered.

        Raises:
            BraidError: the assigner does not answer.
        """
        request = assigner_api.GetGroupRequest(name=group)
        try:
            found = await self._assigner.unary("GetGroup", request, group_pb2.Group, timeout_seconds=timeout_seconds)
        except NotFound:
            return None
        fenced = found.spec.fencing == group_pb2.FENCING_GENERATION
        return GroupStanding(fenced, found.status.resets, found.create_time_ms)


def _channel(channel: stream_pb2.Channel) -> DlqChannel:
    presence = _PRESENCES.get(channel.state, Presence.AHEAD)
    return DlqChannel(
        channel.stream,
        channel.lane,
        channel.generation,
        channel.cluster,
        channel.topic,
        channel.partitions,
        presence,
    )
