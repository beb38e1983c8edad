"""Braid's own classic membership of groups on a real cluster, joined only to lend its generation.

The protocol has a name of its own and empty metadata. So the coordinator reads no subscription from it (and does not
expire offsets of other topics), and lets no consumer of either protocol join beside it.
"""

import asyncio
from typing import Final, NamedTuple

from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from braid.kafka.admin import AioAdmin
from braid.kafka.errors import (
    COORDINATOR_RETRY,
    GROUP_NOT_FOUND,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    check,
    raise_error,
)
from braid.kafka.groups.coordinator import Coordinators
from braid.kafka.groups.offsets import AioOffsets
from braid.kafka.permissions import Need
from braid.kafka.protocol.wire import Wire
from braid.kernel.errors import ClusterUnavailable, GroupOccupied
from braid.kernel.limits.assigner.leases import MEMBERSHIP_REBALANCE_MS, MEMBERSHIP_RESERVED_MS, MEMBERSHIP_SESSION_MS
from braid.kernel.ports import Generation

_PROTOCOL_TYPE: Final = "consumer"  # lets ordinary tools find the group
_PROTOCOL: Final = "braid-1"
_NO_METADATA: Final = b""
_VACANT: Final = ("Empty", "Dead")
_STABLE: Final = "Stable"
_MAX_SESSION: Final = "group.max.session.timeout.ms"
_MIN_SESSION: Final = "group.min.session.timeout.ms"
_MOVED: Final = COORDINATOR_RETRY - {REBALANCE_IN_PROGRESS}


class _Described(NamedTuple):
    state: str
    protocol: str
    members: tuple[str, ...]


class _Sessions(NamedTuple):
    """The shortest and longest session time that a cluster allows."""

    shortest_ms: int
    longest_ms: int


class AioMembership:
    """`KafkaMembership` over the group's coordinator."""

    def __init__(self, wire: Wire) -> None:
        self._coordinators = Coordinators(wire)
        self._admin = AioAdmin(wire)
        self._offsets = AioOffsets(wire)
        self._sessions: _Sessions | None = None
        self._made: dict[str, Generation] = {}  # by group, what its last join made

    async def check_vacant(self, group: str) -> None:
        """See `KafkaMembership.check_vacant`."""
        await self._own_member(group)

    async def reserve(self, group: str) -> str:
        """See `KafkaMembership.reserve`. An id that is not used lapses after the shortest session."""
        if own := await self._own_member(group):
            return own
        request = await self._join_request(group, "")
        answer = await self._coordinators.ask(group, request, _code, "join")
        if answer.error_code != MEMBER_ID_REQUIRED:
            raise_error(answer.error_code, f"group {group}", need=Need("Read", group=group))
        return str(answer.member_id)

    async def join(self, group: str, member_id: str) -> Generation:
        """See `KafkaMembership.join`. A rebalance begun by somebody else meanwhile leaves it to the next attempt.

        A broker answers a connection's requests in their order. So where a member joins again the sync is sent right
        behind, with the generation that comes next: grants wait for one trip then, not two.
        """
        request, made = await self._join_request(group, member_id), self._made.pop(group, None)
        next_one = Generation(made.generation + 1, member_id) if made and made.member_id == member_id else None
        joined, synced = await asyncio.gather(
            self._coordinators.ask(group, request, _code, "join", _MOVED), self._synced_early(group, next_one)
        )
        check(joined.error_code, f"group {group}", need=Need("Read", group=group))
        generation = Generation(joined.generation_id, joined.member_id)
        if [member for member, *_ in joined.members] != [member_id]:
            raise GroupOccupied(
                f"group {group} has other members beside Braid's", field="group", remedy="use another group's name"
            )
        if generation != next_one or not synced:
            check(await self._sync(group, generation), f"group {group}", need=Need("Read", group=group))
        self._made[group] = generation
        return generation

    async def _synced_early(self, group: str, generation: Generation | None) -> bool:
        return generation is not None and await self._sync(group, generation) == 0

    async def _sync(self, group: str, generation: Generation) -> int:
        """Gives the group's only member nothing, which completes the join. Returns the broker's code."""
        assignment = [(generation.member_id, _NO_METADATA)]
        sync = SyncGroupRequest(group, generation.generation, generation.member_id, None, assignment)
        return int((await self._coordinators.ask(group, sync, _code, "sync", _MOVED)).error_code)

    async def renew(self, group: str, generation: Generation) -> None:
        """See `KafkaMembership.renew`."""
        heartbeat = HeartbeatRequest(group, generation.generation, generation.member_id)
        answer = await self._coordinators.ask(group, heartbeat, _code, "heartbeat", _MOVED)
        code = UNKNOWN_MEMBER_ID if answer.error_code == GROUP_NOT_FOUND else answer.error_code
        check(code, f"group {group}", need=Need("Read", group=group))

    async def leave(self, group: str, member_id: str) -> None:
        """See `KafkaMembership.leave`."""
        answer = await self._coordinators.ask(group, LeaveGroupRequest(group, member_id), _code, "leave")
        if answer.error_code not in (UNKNOWN_MEMBER_ID, GROUP_NOT_FOUND):
            check(answer.error_code, f"group {group}", need=Need("Read", group=group))

    async def close(self) -> None:
        """Frees connections."""
        await self._coordinators.close()

    async def _own_member(self, group: str) -> str:
        """Returns the id of Braid's membership; empty if the group has no members. Raises `GroupOccupied`."""
        found = await self._describe(group)
        if found.state == _STABLE and found.protocol == _PROTOCOL and len(found.members) == 1:
            return found.members[0]
        if found.state not in _VACANT:
            raise GroupOccupied(
                f"group {group} has members of other Kafka consumers ({found.state})",
                field="group",
                remedy="stop them, or use another group's name",
            )
        return ""

    async def _join_request(self, group: str, member_id: str) -> JoinGroupRequest:
        """Builds a request to join for the longest session, or to reserve for the shortest that the cluster allows."""
        if self._sessions is None:
            config = (await self._admin.describe_cluster()).default_config
            shortest = int(config.get(_MIN_SESSION, MEMBERSHIP_RESERVED_MS))
            self._sessions = _Sessions(shortest, int(config.get(_MAX_SESSION, MEMBERSHIP_SESSION_MS)))
        session_ms = self._sessions.longest_ms if member_id else self._sessions.shortest_ms
        protocols = [(_PROTOCOL, _NO_METADATA)]
        return JoinGroupRequest(group, session_ms, MEMBERSHIP_REBALANCE_MS, member_id, None, _PROTOCOL_TYPE, protocols)

    async def _describe(self, group: str) -> _Described:
        """Describes the group.

        Raises `ClusterUnavailable` while members join or leave: brokers do not name them then.
        """
        answer = await self._coordinators.ask(
            group, DescribeGroupsRequest([group]), lambda told: [told.groups[0][0]], "describe"
        )
        code, _, state, _, protocol, members, *_ = answer.groups[0]
        if code not in (0, GROUP_NOT_FOUND):
            raise_error(code, f"group {group}", need=Need("Describe", group=group))
        if code or state == "Dead":  # or of a newer protocol, which only a list tells
            return _Described(await self._offsets.group_state(group), "", ())
        if state.endswith("Rebalance"):
            raise ClusterUnavailable(f"group {group} is rebalancing", remedy="try again")
        return _Described(state, protocol, tuple(member for member, *_ in members))


def _code(answer: object) -> list[int]:
    return [getattr(answer, "error_code", 0)]
