"""The journal of a run: facts as they happen, each judged at once, each a line of the trace. Nothing decides here."""

from collections.abc import Callable, Sequence

from testbed.checkers.checking import Checker, Violation, Watch
from testbed.checkers.facts import BatchWatched, Fact, Folded, Sent
from tests.support.virtual_time import VirtualTimeLoop

_SILENT = (BatchWatched, Folded, Sent)  # checked, and not worth a line


class InvariantViolated(AssertionError):
    """A checker turned red; the run ends here."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


class Journal:
    """Facts and other lines of one run, in order.

    Attributes:
        violations: What checkers found; the first one ends the run.
        counts: How often each kind of fact was seen.
        faults: How often each kind of fault was made.
        away: Whether the sink that members write to cannot be reached: they are the same.
        mended: Whether their handler digests what was poison to it.
    """

    def __init__(self, loop: VirtualTimeLoop, checkers: Sequence[Checker]) -> None:
        self.violations: list[Violation] = []
        self.counts: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.away = False
        self.mended = False
        self._loop = loop
        self._watch = Watch(checkers)
        self._lines: list[tuple[float, Fact | str | Callable[[], str]]] = []

    def note(self, fact: Fact) -> None:
        """Takes a fact; the run fails in this instant when it violates an invariant."""
        kind = type(fact).__name__
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if not isinstance(fact, _SILENT):
            self._lines.append((self._loop.time(), fact))
        self._judge(self._watch.see(fact))

    def say(self, line: str | Callable[[], str]) -> None:
        """Adds a line to the trace. What makes one is called when somebody reads it: it must tell of values alone."""
        self._lines.append((self._loop.time(), line))

    @property
    def length(self) -> int:
        """The number of lines so far."""
        return len(self._lines)

    def trace(self, last: int = 0) -> list[str]:
        """The last lines of the trace; all of them for 0."""
        return [f"{time:12.6f} {_text(what)}" for time, what in self._lines[-last:]]

    def fail(self, invariant: str, message: str) -> None:
        """Reports a failure that no checker looks for: a crash, a missed deadline."""
        self._judge([Violation(invariant, message, self._watch.seen)])

    def finish(self) -> None:
        """Everything is quiet: what should have happened must have."""
        self._judge(self._watch.finish())

    def _judge(self, violations: Sequence[Violation]) -> None:
        for violation in violations:
            self.say(f"VIOLATION {violation}")
            self.violations.append(violation)
            self._loop.fail(InvariantViolated(violation))


def _text(what: Fact | str | Callable[[], str]) -> str:
    """One line, and a short one: long values are cut."""
    text = what if isinstance(what, str) else what() if callable(what) else repr(what)
    return text if len(text) <= 300 else f"{text[:297]}..."
