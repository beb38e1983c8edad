"""Leaves slow members and hosts: they count as having less capacity, so leases move away from them. Pure.

How slow a member is says `policy.slowness`. It keeps a lease all the same, because only what it does with that shows
when it has recovered.
"""

from collections.abc import Sequence

from braid.kernel.limits.assigner.placement import SLOW_HOLD_SECONDS, SLOW_MEMBERS_MIN, SLOW_RATIO, SLOW_RECOVERED_RATIO
from services.assigner.model.lag.responses import Response, ResponseKind, Responses
from services.assigner.policy.responses.answering import Healed, Need
from services.assigner.policy.responses.facts import MemberFacts, ResponseFacts


class LeaveSlowMembers:
    """Counts a slow member with the part of its capacity that its speed is of the others'.

    The policy's `reach` is the least part. A member that works less than the average one is left alone: what it is slow
    with keeps nobody waiting.
    """

    kind = ResponseKind.LEAVE_SLOW_MEMBERS

    def needs(self, facts: ResponseFacts, responses: Responses) -> Sequence[Need]:
        """Returns a need for each slow member, the slowest first; none once every second member would be slow."""
        slow = sorted(
            ((id, each) for id, each in facts.members.items() if each.ratio >= SLOW_RATIO and each.part >= 1),
            key=lambda item: -item[1].ratio,
        )
        room = (len(facts.members) - 1) // 2 - len(responses.applied(self.kind))
        least = responses.policy(self.kind).reach
        return [_need(id, each, least) for id, each in slow[: max(room, 0)]]

    def healed(self, facts: ResponseFacts, response: Response) -> Healed | None:
        """Returns why a member counts in full again; None while it is slow, or while nothing tells that it is not."""
        member = facts.members.get(response.subject)
        if member is None:
            return Healed("the member is gone", at_once=True)
        if len(facts.members) < SLOW_MEMBERS_MIN:
            return Healed("too few members are left to compare it with", at_once=True)
        return Healed(_text(member)) if 0 < member.ratio <= SLOW_RECOVERED_RATIO else None

    def unmet(self, facts: ResponseFacts, response: Response) -> str:
        """Returns nothing: less than its part of the work is all that can be taken from a member."""
        return ""


def _need(id: str, member: MemberFacts, least: float) -> Need:
    part = round(max(1 / member.ratio, least), 2)
    return Need("", id, (("capacity", 1.0),), (("capacity", part),), _text(member), SLOW_HOLD_SECONDS)


def _text(member: MemberFacts) -> str:
    own, usual = _time(member.seconds), _time(member.usual_seconds)
    return f"a record of {member.lane} takes {own} at {member.name}, {usual} at the others"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
