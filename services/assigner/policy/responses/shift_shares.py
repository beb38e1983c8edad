"""Shifts handler shares to a lane that is behind its target while other lanes keep handlers busy. Pure.

Members lend idle handlers to other lanes, so a larger share costs the others nothing while the lane has no records. A
lane that no other lane presses has lent handlers already: there a shift would not help, and none is made.

Another lane presses by its lag, or by the handlers that it keeps busy. A flood that just fits into a lane's share is
seen by the second alone: the lane has no lag, and lends nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from braid.kernel.limits.assigner.responses import RESPONSE_CALM, RESPONSE_FULL
from services.assigner.model.lag.responses import Response, ResponseKind, Responses, Values, part_of, shifted
from services.assigner.policy.responses.answering import Healed, Need
from services.assigner.policy.responses.facts import LaneFacts, ResponseFacts

_GAIN_MIN: Final = 0.05  # of all handlers: less is not worth a change


class ShiftShares:
    """Gives the lane in breach the part of all handlers that its policy allows, in one step."""

    kind = ResponseKind.SHIFT_SHARES

    def needs(self, facts: ResponseFacts, responses: Responses) -> Sequence[Need]:
        """Returns a need for each name of a lane that is behind a target, the farthest first."""
        if not facts.dividable or len(facts.own) < 2:
            return ()
        applied = {each.lane: part_of(each.lane, each.after) for each in responses.applied(self.kind)}
        found: dict[str, Need] = {}
        for late in facts.late():
            if late.lane in applied or late.lane in found or late.lane not in facts.own:
                continue
            part = responses.policy(self.kind, late.lane).reach
            before = _values(responses.division(facts.own).shares or facts.own)
            after = _values(shifted(facts.own, [*applied, late.lane], max([part, *applied.values()])))
            pressing = pressing_lanes(facts, late.lane) or busy_lanes(
                facts, late.lane, after, _running(facts, responses)
            )
            if pressing and part_of(late.lane, after) > part_of(late.lane, before) + _GAIN_MIN:
                others = " and ".join(_pressing_text(each) for each in pressing[:2])
                reason = f"{late.text}, beside {others}: it gets {part_of(late.lane, after):.0%} of the handlers"
                found[late.lane] = Need(late.lane, "", before, after, reason)
        return list(found.values())

    def healed(self, facts: ResponseFacts, response: Response) -> Healed | None:
        """Returns why a lane needs no larger share: it is well within its targets, and would be without.

        By their lag no other lanes press it, and by busy handlers its own share and what is lent would do.
        """
        lanes = [each for each in facts.named(response.lane) if each.target_seconds is not None]
        if not lanes or len(facts.own) < 2:
            return Healed(f"no lag target of lane {response.lane} is left to keep")
        worst = max(lanes, key=lambda each: each.seconds)
        if not all(each.calm for each in lanes) or pressing_lanes(facts, response.lane):
            return None
        if needs_more(facts, response.lane):
            return None
        return Healed(f"{worst.text}, and no other lane is")

    def unmet(self, facts: ResponseFacts, response: Response) -> str:
        """Returns how far the lane is still beyond its target."""
        return next((each.text for each in facts.late() if each.lane == response.lane), "")


def pressing_lanes(facts: ResponseFacts, lane: str) -> Sequence[LaneFacts]:
    """Returns other lanes whose backlogs keep handlers busy, the largest first.

    A lane presses when it is as far behind as would count for its own target, or else for the lane's.
    """
    targets = [each.target_seconds for each in facts.named(lane) if each.target_seconds is not None]
    usual = min(targets, default=0.0)
    found = [
        each
        for each in facts.lanes
        if each.lane != lane
        and each.lane in facts.own
        and not each.stopped
        and each.records > 0
        and each.seconds > RESPONSE_CALM * (usual if each.target_seconds is None else each.target_seconds)
    ]
    return sorted(found, key=lambda each: each.records, reverse=True)


def busy_lanes(facts: ResponseFacts, lane: str, shares: Values, handlers: float) -> Sequence[LaneFacts]:
    """Returns other lanes that keep more handlers busy than shares leave to them, the busiest first.

    None do while handlers are idle: those are lent to the lane already. Where some members do not tell their handlers,
    it is not known whether any are.

    Args:
        facts: What is known of the group.
        lane: The lane that is behind its target.
        shares: The shares as they would be.
        handlers: How many handlers members run now.
    """
    if not _full(facts, handlers):
        return ()
    found = [
        each
        for each in facts.lanes
        if each.lane != lane
        and each.lane in facts.own
        and not each.stopped
        and each.busy_per_s > part_of(each.lane, shares) * handlers
    ]
    return sorted(found, key=lambda each: each.busy_per_s, reverse=True)


def needs_more(facts: ResponseFacts, lane: str) -> bool:
    """Whether a lane keeps more handlers busy than it has by itself, and no others would be idle."""
    busy = sum(each.busy_per_s for each in facts.named(lane))
    own = part_of(lane, _values(facts.own)) * facts.handlers
    return _full(facts, facts.handlers) and busy > own


def _full(facts: ResponseFacts, handlers: float) -> bool:
    """Whether hardly any of so many handlers is idle; False where not all members tell theirs."""
    return len(facts.members) <= facts.dividable and 0 < RESPONSE_FULL * handlers <= facts.busy_per_s


def _running(facts: ResponseFacts, responses: Responses) -> float:
    """Returns how many handlers members run, with those that a response asked for."""
    asked = facts.handlers * responses.division(facts.own).concurrency
    return max(min(asked, facts.handlers_max), facts.handlers)


def _pressing_text(lane: LaneFacts) -> str:
    if lane.records > 0:
        return f"{lane.name} with {lane.records:,} records"
    return f"{lane.name} with {lane.busy_per_s:.3g} busy handlers"


def _values(shares: Mapping[str, int]) -> Values:
    return tuple((lane, float(share)) for lane, share in sorted(shares.items()))
