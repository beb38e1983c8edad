"""Asks members for more handlers while a lane is behind its target, within the bounds that they declare. Pure."""

from collections.abc import Sequence

from braid.kernel.limits.assigner.responses import RESPONSE_BUSY_MIN, RESPONSE_LOAD_MAX
from services.assigner.model.lag.responses import Response, ResponseKind, Responses
from services.assigner.policy.responses.answering import Healed, Need
from services.assigner.policy.responses.facts import ResponseFacts


class RaiseConcurrency:
    """Multiplies the handlers of all members that allow it by the factor of its policy, in one step.

    More handlers help where handlers are what lacks, so it needs them to be busy. They are given back once the former
    number would bear the load with head-room.
    """

    kind = ResponseKind.RAISE_CONCURRENCY

    def needs(self, facts: ResponseFacts, responses: Responses) -> Sequence[Need]:
        """Returns the one need, of all lanes together."""
        late = next(facts.late(), None)
        busy_min = RESPONSE_BUSY_MIN * facts.handlers
        if late is None or responses.applied(self.kind) or facts.handlers_max <= facts.handlers:
            return ()
        if facts.busy_per_s < busy_min:
            return ()
        factor = responses.policy(self.kind).reach
        most = min(facts.handlers_max, round(facts.handlers * factor))
        reason = f"{late.text}, with {facts.busy_per_s:.3g} of {facts.handlers} handlers busy: members run up to {most}"
        return [Need("", "", (("factor", 1.0),), (("factor", factor),), reason)]

    def healed(self, facts: ResponseFacts, response: Response) -> Healed | None:
        """Returns why members need no more handlers: lanes are well within their targets, and the load fits."""
        if not facts.handlers:
            return Healed("no member is left that runs more handlers")
        if not all(each.calm for each in facts.lanes) or facts.busy_per_s > RESPONSE_LOAD_MAX * facts.handlers:
            return None
        return Healed(
            f"lanes keep their targets, and {facts.busy_per_s:.3g} of {facts.handlers} handlers would be busy"
        )

    def unmet(self, facts: ResponseFacts, response: Response) -> str:
        """Returns how far a lane is still beyond its target."""
        late = next(facts.late(), None)
        return "" if late is None else late.text
