"""Follows the registry's channels, on whichever replica leads. Decides nothing.

Every replica of the assigner follows them, so that a new leader knows where clusters are even while no registry
answers.
"""

import asyncio
from collections.abc import Callable, Collection

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1 import route_pb2, stream_pb2
from braid.kernel.errors import DeadlineExceeded, NotFound, Unavailable
from braid.kernel.limits.leases import REGISTRY_ANSWER_SECONDS
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.channel_stream import follow_channels
from services.assigner.model.channels import (
    Presence,
    SeenChannel,
)
from services.assigner.model.registry_view import ClusterPlace, RegistryView

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
        self._subscribers: list[Callable[[], None]] = []
        self.trace = ""

    @property
    def view(self) -> RegistryView | None:
        """The newest view; None before the registry was heard for the first time."""
        return self._view

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers a callback for every change of the view. Returns the function that ends the subscription."""
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
        self._view = told if message.full or self._view is None else self._view.followed_by(told)
        self.trace = message.traceparent
        self._changed.set()
        for callback in tuple(self._subscribers):
            callback()


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
