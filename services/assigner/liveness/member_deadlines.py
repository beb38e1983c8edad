"""When members must be heard of and leases be given back, in one term; and who overran a revoke. Pure.

A term takes the deadlines over from the histories, moves them by heartbeats and events, and looks at them at a steady
interval (`deadlines.py`). What follows from a missed one is the term's.
"""

from typing import Final, NamedTuple

from braid.kernel.limits.assigner.leases import CLOCK_RATE_SLACK, DEADLINE_BEAT_SECONDS, REVOKE_DEADLINE_SECONDS
from services.assigner.liveness.deadlines import Deadlines
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.model.events import LeasesReleased, MemberGone, MemberJoined, RevokesStarted
from services.assigner.model.group import Group

_SLACK: Final = 1 + CLOCK_RATE_SLACK


class RevokeKey(NamedTuple):
    """A lease, and the epoch under which it is revoked."""

    group: str
    lease: str
    epoch: int


class MemberDeadlines:
    """Deadlines of members and of revokes, in seconds on `Clock.elapsed`."""

    def __init__(self, now: float) -> None:
        """Starts at `now`; both looks are to be made every `DEADLINE_BEAT_SECONDS`."""
        self._members: Deadlines[MemberKey] = Deadlines(DEADLINE_BEAT_SECONDS, now)
        self._revokes: Deadlines[RevokeKey] = Deadlines(DEADLINE_BEAT_SECONDS, now)
        self._expelled: set[MemberKey] = set()

    def take_over(self, state: Group, elected_at: float, now_ms: int, least_seconds: float) -> None:
        """Gives a group's members their lease time from the election on, and its revokes at least the rest of theirs.

        Deadlines that are there stay: this term has heard the member, or asked for the lease itself.

        Args:
            state: The group.
            elected_at: When the term began, or later where the group had to wait for its turn.
            now_ms: The wall clock, by which histories say until when a lease is to be given back.
            least_seconds: Time that everybody gets, however short the lease.
        """
        grace = grace_seconds(state, least_seconds)
        for member in state.members:
            if (key := MemberKey(state.name, member)) not in self._members:
                self._members.set(key, elected_at + grace)
        for lease, held in state.revoking():
            left = min((held.deadline_ms - now_ms) / 1000, REVOKE_DEADLINE_SECONDS)
            if (revoke := RevokeKey(state.name, lease, held.epoch)) not in self._revokes:
                self._revokes.set(revoke, elected_at + max(left, grace))

    def begin_anew(self) -> None:
        """Drops all deadlines, because the histories are others; members that overran a revoke keep theirs."""
        self._members.keep(self._expelled)
        self._revokes.keep(())

    def heard(self, key: MemberKey, now: float, lease_seconds: float) -> None:
        """Notes a sign of life: the member's deadline is a lease time from now."""
        self._members.set(key, now + lease_seconds * _SLACK)

    def expect(self, state: Group, member: str, now: float) -> None:
        """Gives a member of a history its lease time to open a stream; others get none."""
        if member in state.members:
            self.heard(MemberKey(state.name, member), now, _lease_seconds(state))

    def follow(self, state: Group, event: object, now: float) -> None:
        """Sets the deadlines that a decided event asks for; `state` includes the event."""
        match event:
            case RevokesStarted(leases):
                for each in leases:
                    self._revokes.set(RevokeKey(state.name, each.lease, each.epoch), now + REVOKE_DEADLINE_SECONDS)
            case LeasesReleased(leases):
                for each in leases:
                    self._revokes.forget(RevokeKey(state.name, each.lease, each.epoch))
            case MemberJoined(member):
                self.expect(state, member, now)
            case MemberGone(member):
                self.forget(MemberKey(state.name, member))

    def expel(self, key: MemberKey) -> None:
        """Notes that a member overran a revoke: its deadline must pass before it may join again."""
        self._expelled.add(key)

    def expelled(self, key: MemberKey) -> bool:
        """Whether the member must let its deadline pass."""
        return key in self._expelled

    def forget(self, key: MemberKey) -> None:
        """Drops what is known of a member that is gone."""
        self._members.forget(key)
        self._expelled.discard(key)

    def missed_members(self, now: float) -> list[MemberKey]:
        """Returns members whose deadlines are missed, and drops those deadlines."""
        return self._members.look(now)

    def missed_revokes(self, now: float) -> list[RevokeKey]:
        """Returns revokes whose deadlines are missed, and drops those deadlines."""
        return self._revokes.look(now)


def grace_seconds(state: Group, least_seconds: float) -> float:
    """Seconds from an election until every lease whose holder has not come back has expired, and at least these."""
    return max(_lease_seconds(state), least_seconds) * _SLACK


def _lease_seconds(state: Group) -> float:
    return state.spec.lease_ms / 1000 if state.spec else 0.0
