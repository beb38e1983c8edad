"""Splits leases that are far behind, so that their new records are worked on beside the backlog. Pure.

This is what an operator does with `braid split`. A split ends by itself, with its backlog, and so does the response.
"""

from collections.abc import Sequence

from braid.kernel.limits.assigner.responses import RESPONSE_SPLIT_HOLD_SECONDS, RESPONSE_SPLIT_RECORDS_MIN
from services.assigner.model.lag.responses import Response, ResponseKind, Responses
from services.assigner.policy.responses.answering import Healed, Need
from services.assigner.policy.responses.facts import ResponseFacts


class SplitBacklogs:
    """Splits the leases of lanes that do not catch up by themselves, the oldest backlog first."""

    kind = ResponseKind.SPLIT_BACKLOG

    def needs(self, facts: ResponseFacts, responses: Responses) -> Sequence[Need]:
        """Returns a need for each lease that is beyond its target; none in a lane where a holder refused a split."""
        refused = {split.lane for split in facts.splits.values() if split.refused}
        lasting = {
            each.lane: each
            for each in facts.late()
            if each.lane not in refused
            and (each.seconds_to_zero is None or each.seconds_to_zero > (each.target_seconds or 0.0))
        }
        found = [
            each
            for each in facts.leases
            if each.lane in lasting and each.name not in facts.splits and each.records >= RESPONSE_SPLIT_RECORDS_MIN
        ]
        needs: list[Need] = []
        for lease in sorted(found, key=lambda each: each.seconds, reverse=True):
            share = responses.policy(self.kind, lease.lane).reach
            behind = f"{lease.records:,} records of {lease.name} wait, the oldest for {lease.seconds:.3g} s"
            reason = f"{lasting[lease.lane].text}, and does not catch up; {behind}"
            after = (("share", share),)
            needs.append(Need(lease.lane, lease.name, (), after, reason, RESPONSE_SPLIT_HOLD_SECONDS))
        return needs

    def healed(self, facts: ResponseFacts, response: Response) -> Healed | None:
        """Returns that a lease is split no more, or why it was not."""
        split = facts.splits.get(response.subject)
        if split is not None and not split.refused:
            return None
        if split is not None:
            return Healed(f"its holder did not split it: {split.refused}", at_once=True)
        if response.proposed and any(each.name == response.subject for each in facts.leases):
            return None
        return Healed("its backlog is done" if not response.proposed else "it caught up by itself", at_once=True)

    def unmet(self, facts: ResponseFacts, response: Response) -> str:
        """Returns nothing: a split goes as far as one can."""
        return ""
