"""The registry's requests to the assigner: who consumes a lane, and that nobody will any more.

Requests go to the assigner's leader, because the safety of drains depends on the answers.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from braid.api.assigner.v1.assigner_service_pb2 import (
    CloseChannelRequest,
    CloseChannelResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from braid.api.assigner.v1.group_pb2 import Group
from braid.kernel.limits.registry.resources import DRAIN_GROUPS_PAGE
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed


class Subscription(NamedTuple):
    """A group whose progress holds the drains of a lane.

    Attributes:
        resets: Number of recorded resets of its progress, intents and results; 0 from an older assigner.
        resetting: Channels in which its progress is being reset.
    """

    resets: int = 0
    resetting: Collection[str] = ()


class Peers(Protocol):
    """The facts about consumers that drains and retirements need. Every method raises `Unavailable` if nobody
    answers."""

    async def groups(self, stream: str, lane: str) -> Sequence[str]:
        """Groups subscribed to the lane that hold its drains, sorted."""
        ...

    async def subscriptions(self, stream: str, lane: str) -> Mapping[str, Subscription]:
        """The same groups by name, with their resets of progress."""
        ...

    async def every_group(self) -> Collection[str]:
        """Names of all groups that the assigner knows."""
        ...

    async def close_channel(self, channel: str, registry_revision: int) -> None:
        """Returns once it is recorded that no group will join the channel any more."""
        ...


class AssignerPeers:
    """`Peers` over the assigner's API."""

    def __init__(self, assigner: ServiceClient) -> None:
        self._assigner = assigner

    async def groups(self, stream: str, lane: str) -> Sequence[str]:
        """See `Peers.groups`."""
        return sorted(await self.subscriptions(stream, lane))

    async def subscriptions(self, stream: str, lane: str) -> Mapping[str, Subscription]:
        """See `Peers.subscriptions`. An expired idle group counts only while its progress is being reset."""
        return {
            group.name: Subscription(group.status.resets, tuple(group.status.resetting_channels))
            async for group in self._listed(stream, lane)
            if not group.status.idle_expired or group.status.resetting_channels
        }

    async def every_group(self) -> Collection[str]:
        """See `Peers.every_group`."""
        return {group.name async for group in self._listed("", "")}

    async def _listed(self, stream: str, lane: str) -> AsyncIterator[Group]:
        listing = listed(
            self._assigner,
            "ListGroups",
            ListGroupsRequest(page_size=DRAIN_GROUPS_PAGE, stream=stream, lane=lane),
            ListGroupsResponse,
            timeout_seconds=STORE_CALL_SECONDS,
        )
        async for page in listing:
            for group in page.groups:
                yield group

    async def close_channel(self, channel: str, registry_revision: int) -> None:
        """See `Peers.close_channel`."""
        request = CloseChannelRequest(channel=channel, registry_revision=registry_revision)
        await self._assigner.unary("CloseChannel", request, CloseChannelResponse, timeout_seconds=STORE_CALL_SECONDS)
