"""What the registry asks of the assigner: who consumes a lane, and that nobody will.

Always of its leader, for the safety of drains hangs on the answers.
"""

from collections.abc import Sequence
from typing import Protocol

from braid.api.assigner.v1.assigner_service_pb2 import (
    CloseChannelRequest,
    CloseChannelResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from braid.kernel.limits import DRAIN_GROUPS_PAGE, STORE_CALL_SECONDS
from braid.rpc.mesh_client import ServiceClient


class Peers(Protocol):
    """What draining and retiring need to know of consumers. Every method raises `Unavailable` when nobody answers."""

    async def groups(self, stream: str, lane: str) -> Sequence[str]:
        """Groups subscribed to the lane that hold its drains, sorted."""
        ...

    async def close_channel(self, channel: str, registry_revision: int) -> None:
        """Returns once it is recorded that no group will join the channel any more."""
        ...


class AssignerPeers:
    """`Peers` over the assigner's API."""

    def __init__(self, assigner: ServiceClient) -> None:
        self._assigner = assigner

    async def groups(self, stream: str, lane: str) -> Sequence[str]:
        """See `Peers.groups`; a group idle for so long that it expired does not count."""
        found: list[str] = []
        token = ""
        while True:
            request = ListGroupsRequest(page_size=DRAIN_GROUPS_PAGE, page_token=token, stream=stream, lane=lane)
            answer = await self._assigner.unary(
                "ListGroups", request, ListGroupsResponse, timeout_seconds=STORE_CALL_SECONDS
            )
            found += [group.name for group in answer.groups if not group.status.idle_expired]
            token = answer.next_page_token
            if not token:
                return sorted(found)

    async def close_channel(self, channel: str, registry_revision: int) -> None:
        """See `Peers.close_channel`."""
        request = CloseChannelRequest(channel=channel, registry_revision=registry_revision)
        await self._assigner.unary("CloseChannel", request, CloseChannelResponse, timeout_seconds=STORE_CALL_SECONDS)
