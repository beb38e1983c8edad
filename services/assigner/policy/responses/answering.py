"""When a response to lag is taken, exhausted and undone, whatever its kind. Pure; the caller gives the time.

A kind says what the facts of one moment call for. Time is here:

- A need is answered once it has held at every look for its hold time.
- After a change nothing else is changed for the cool-down, so that its effect is seen first.
- No more responses of a policy are in force at once than its budget.
- A response is undone once it was not needed at any look for its undo time.
- What was undone is not done again for an hour. If its need comes back meanwhile, it is kept for an hour the next time.
- A response that does not help is told to be exhausted, once.

This is a leader's memory. The next leader begins all waits anew, which delays a change and never makes one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from braid.kernel.limits.assigner.responses import (
    RESPONSE_AGAIN_SECONDS,
    RESPONSE_GAIN_SECONDS,
    RESPONSE_HOLD_SECONDS,
    RESPONSE_LOOKS_APART_SECONDS,
)
from services.assigner.model.lag.responses import (
    Response,
    ResponseKey,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    Responses,
    ResponseState,
    Values,
)
from services.assigner.policy.responses.facts import ResponseFacts


class Need(NamedTuple):
    """A response that the facts of a moment call for.

    Attributes:
        lane: Name of the lane; empty where it is about all lanes.
        subject: The lease or the member; empty for the lane.
        before: What would be changed, as it is.
        after: What it would be changed to.
        reason: Why, for people.
        hold_seconds: So long it must be called for before it is taken.
    """

    lane: str
    subject: str
    before: Values
    after: Values
    reason: str
    hold_seconds: float = RESPONSE_HOLD_SECONDS


class Healed(NamedTuple):
    """Why a response is not needed any more.

    Attributes:
        reason: For people.
        at_once: It has ended by itself, so no time need pass.
    """

    reason: str
    at_once: bool = False


class KindOfResponse(Protocol):
    """One kind of response: says what the facts of one moment mean for it. Without memory."""

    @property
    def kind(self) -> ResponseKind:
        """The kind."""
        ...

    def needs(self, facts: ResponseFacts, responses: Responses) -> Sequence[Need]:
        """Returns what is called for beyond what is in force, the most urgent first; `responses` has the policies."""
        ...

    def healed(self, facts: ResponseFacts, response: Response) -> Healed | None:
        """Returns why a response is not needed; None while it is."""
        ...

    def unmet(self, facts: ResponseFacts, response: Response) -> str:
        """Returns why a response in force is not enough; empty while it is."""
        ...


class Take(NamedTuple):
    """A response to record; see `TakeResponse`."""

    key: ResponseKey
    state: ResponseState
    before: Values
    after: Values
    reason: str


class Undo(NamedTuple):
    """A response to undo; see `UndoResponse`."""

    key: ResponseKey
    reason: str


class ResponseMemory:
    """One group's looks during a term: since when what is needed, and what is not needed any more."""

    def __init__(self, kinds: Sequence[KindOfResponse], now: float) -> None:
        """Begins at `now`, in seconds on a clock that never falls. `kinds` in the order in which they are tried."""
        self._kinds = kinds
        self._looked_at = self._changed_at = now
        self._seen: Responses | None = None
        self._since: dict[tuple[str, ResponseKey], float] = {}  # by `needed`, `healed` or `unmet`
        self._undone: dict[ResponseKey, tuple[int, float]] = {}  # when by the history, and when that was seen
        self._returned: set[ResponseKey] = set()  # needed again within the hour

    def look(self, responses: Responses, facts: ResponseFacts | None, now: float) -> Take | Undo | None:
        """Returns the one change that this moment calls for, None for none.

        Args:
            responses: The group's policies and responses.
            facts: What is measured; None when lag is stale or not known, which changes nothing.
            now: As in `__init__`.
        """
        if responses != self._seen:
            self._follow(responses, now)
        if facts is None or now - self._looked_at > RESPONSE_LOOKS_APART_SECONDS:
            self._since.clear()
        self._looked_at = now
        if facts is None:
            return None
        told: dict[tuple[str, ResponseKey], float] = {}  # what holds at this look, and since when
        found = [*self._undos(responses, facts, now, told), *self._takes(responses, facts, now, told)]
        self._since = told
        return found[0] if found else None

    def _follow(self, responses: Responses, now: float) -> None:
        """Takes over what was changed: the cool-down begins, and needs count anew."""
        if self._seen is not None and responses.policies != self._seen.policies:
            self._returned.clear()
        if self._seen is not None:
            self._changed_at = now
        self._seen = responses
        self._since = {name: since for name, since in self._since.items() if name[0] == "healed"}
        before = self._undone
        self._undone = {
            key: before[key] if key in before and before[key][0] == at_ms else (at_ms, now)
            for key, at_ms in responses.undone.items()
        }
        self._returned &= {*responses.undone, *responses.taken}

    def _undos(
        self, responses: Responses, facts: ResponseFacts, now: float, told: dict[tuple[str, ResponseKey], float]
    ) -> Iterable[Take | Undo]:
        """Yields the undos and reports that are due, the newest response first."""
        kinds = {each.kind: each for each in self._kinds}
        for response in reversed([*responses.taken.values()]):
            kind = kinds.get(response.kind)
            if kind is None:
                continue
            policy = responses.policy(response.kind, response.lane)
            healed = kind.healed(facts, response)
            if healed is not None:
                seconds = self._held(("healed", response.key), now, told)
                if healed.at_once or (seconds >= self._undo_after(policy, response) and self._cool(policy, now)):
                    yield Undo(response.key, healed.reason)
            elif why := kind.unmet(facts, response):
                seconds = self._held(("unmet", response.key), now, told)
                if response.state is ResponseState.APPLIED and seconds >= RESPONSE_GAIN_SECONDS:
                    text = f"{why}: it has not helped within {RESPONSE_GAIN_SECONDS:g} s, and goes no farther"
                    yield Take(response.key, ResponseState.EXHAUSTED, response.before, response.after, text)

    def _undo_after(self, policy: ResponsePolicy, response: Response) -> float:
        long = RESPONSE_AGAIN_SECONDS if response.key in self._returned else 0.0
        return max(policy.undo_after_seconds, long)

    def _takes(
        self, responses: Responses, facts: ResponseFacts, now: float, told: dict[tuple[str, ResponseKey], float]
    ) -> Iterable[Take | Undo]:
        """Yields the responses that are due, by kind and urgency."""
        for kind in self._kinds:
            for need in kind.needs(facts, responses):
                key = ResponseKey(kind.kind, need.lane, need.subject)
                policy = responses.policy(kind.kind, need.lane)
                automatic = policy.mode is ResponseMode.AUTOMATIC
                known = responses.taken.get(key)
                if policy.mode is ResponseMode.OFF or (known and not (automatic and known.proposed)):
                    continue
                held = self._held(("needed", key), now, told) >= need.hold_seconds
                if held and self._held_off(key, now):
                    self._returned.add(key)
                elif held and self._cool(policy, now) and (known or _room(responses, policy)):
                    state = ResponseState.APPLIED if automatic else ResponseState.PROPOSED
                    yield Take(key, state, need.before, need.after, need.reason)

    def _held(self, name: tuple[str, ResponseKey], now: float, told: dict[tuple[str, ResponseKey], float]) -> float:
        """Notes that something holds at this look; returns for how long it has."""
        told[name] = self._since.get(name, now)
        return now - told[name]

    def _held_off(self, key: ResponseKey, now: float) -> bool:
        """Whether a response was undone too lately to be done again."""
        return key in self._undone and now - self._undone[key][1] < RESPONSE_AGAIN_SECONDS

    def _cool(self, policy: ResponsePolicy, now: float) -> bool:
        return now - self._changed_at >= policy.cooldown_seconds


def _room(responses: Responses, policy: ResponsePolicy) -> bool:
    """Whether the policy's budget allows another response."""
    taken: Mapping[ResponseKey, Response] = responses.taken
    alike = [each for each in taken.values() if responses.policy(each.kind, each.lane) == policy]
    return len(alike) < policy.budget
