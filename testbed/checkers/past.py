"""I19: an answer about a past moment equals the answer given then, or is refused by naming what is not kept.

Runs on virtual time keep answers in `KeptAnswers`, which sees every append and drops answers that a restore or a clock
stepped back has made untrue. Tests with one history keep theirs in `PastAnswers`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import ArchiveDamaged, HistoryHole
from braid.kernel.ports import HistoryId
from braid.runtime.histories.kinds import AnyKind
from testbed.checkers.checking import Instant
from testbed.checkers.facts import BatchAppended, Fact, StoreBackedUp, StoreRestored

INVARIANT: Final = "I19 history"
Ask = Callable[[int], Awaitable[object]]


@dataclass
class PastAnswers:
    """Recorded answers, to be asked for again.

    Attributes:
        refused: Moments that were refused when asked for again, for tests to limit.
    """

    given: list[tuple[int, object]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def record(self, at_ms: int, answer: object) -> None:
        """Records an answer given at a moment about that moment."""
        self.given.append((at_ms, answer))

    async def violations(self, ask: Ask) -> list[str]:
        """Asks for every moment again; returns those whose answers differ now."""
        self.refused = []
        found: list[str] = []
        for at_ms, before in self.given:
            try:
                now = await ask(at_ms)
            except (HistoryHole, ArchiveDamaged):
                self.refused.append(at_ms)
                continue
            if now != before:
                found.append(f"{INVARIANT}: {at_ms} was {before!r} then, and is told as {now!r} now")
        return found


@dataclass(eq=False)
class Answer:
    """An answer about a moment, given when it was the present.

    Attributes:
        service: The service whose histories it is about.
        subject: The question, for people.
        at_ms: The moment.
        ask: Asks a replica of that name again.
        told: The answer; None until it arrives.
    """

    service: str
    subject: str
    at_ms: int
    ask: Callable[[str], Awaitable[object]]
    told: object = None


class KeptAnswers(Instant):
    """All events as they were appended, and the answers that must never change.

    An answer is dropped if a later event has an earlier time, because a moment ends with the last event, in the
    history's order, that is not later. It is also dropped if a restored store has forgotten events from before it was
    given.

    Attributes:
        events: Events of each history, in order, at rest.
        times_ms: When each of them was decided.
        answers: Answers that must still hold.
        dropped: Number of dropped answers.
    """

    invariant = INVARIANT
    heeds = (BatchAppended, StoreBackedUp, StoreRestored)

    def __init__(self, kinds: Mapping[tuple[str, str], AnyKind]) -> None:
        """`kinds` are the services' kinds, by (service, name of the kind)."""
        self.events: dict[HistoryId, list[bytes]] = {}
        self.times_ms: dict[HistoryId, list[int]] = {}
        self.answers: list[Answer] = []
        self.dropped = 0
        self._kinds = kinds
        self._backup: tuple[dict[HistoryId, int], list[Answer]] = {}, []

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case BatchAppended(history=history, events=events):
                codec = self._kinds[history.service, history.kind].erased().codec
                times_ms = [codec.decode(data)[1].now_ms for data in events]
                self.events.setdefault(history, []).extend(events)
                self.times_ms.setdefault(history, []).extend(times_ms)
                earliest_ms = min(times_ms)
                self._keep(
                    [each for each in self.answers if each.service != history.service or each.at_ms < earliest_ms]
                )
            case StoreBackedUp():
                self._backup = {history: len(events) for history, events in self.events.items()}, list(self.answers)
            case StoreRestored():
                lengths, answers = self._backup
                self.events = {history: self.events[history][:length] for history, length in lengths.items()}
                self.times_ms = {history: self.times_ms[history][:length] for history, length in lengths.items()}
                self._keep([each for each in self.answers if each in answers])
            case _:
                pass
        yield from ()

    def forget(self, answer: Answer) -> None:
        """Drops an answer that did not arrive."""
        self.answers = [each for each in self.answers if each is not answer]

    def newest_ms(self, service: str) -> int:
        """The time of the newest event of a service; 0 before its first."""
        return max((times[-1] for history, times in self.times_ms.items() if history.service == service), default=0)

    def _keep(self, answers: list[Answer]) -> None:
        self.dropped += len(self.answers) - len(answers)
        self.answers = answers
