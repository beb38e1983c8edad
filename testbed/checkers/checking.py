"""How checkers run: fact by fact as they happen, or over a finished journal. No invariant lives here."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from testbed.checkers.facts import Fact


class Violation(NamedTuple):
    """An invariant that did not hold, after the fact of this number (as many as there are: at the end)."""

    invariant: str
    message: str
    fact: int

    def __str__(self) -> str:
        return f"{self.invariant} violated at fact {self.fact}: {self.message}"


class Checker(Protocol):
    """One invariant. It keeps what it needs of the facts seen; it never looks anywhere else."""

    @property
    def invariant(self) -> str:
        """Its name in `proof.md`'s table, and in words."""
        ...

    @property
    def heeds(self) -> Sequence[type]:
        """Kinds of facts it wants to see; none means all."""
        ...

    def see(self, fact: Fact) -> Iterator[str]:
        """Takes the next fact; yields what is wrong from now on."""
        ...

    def finish(self) -> Iterator[str]:
        """Everything is quiet: yields what should have happened and did not."""
        ...


class Instant:
    """A checker of what must hold at every instant: the end asks nothing more."""

    heeds: Sequence[type] = ()

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        yield from ()


class Watch:
    """Runs checkers over facts as they happen."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = checkers
        self._heeding: dict[type, list[Checker]] = {}
        self.seen = 0

    def see(self, fact: Fact) -> list[Violation]:
        """What the fact violates."""
        index, self.seen = self.seen, self.seen + 1
        kind = type(fact)
        heeding = self._heeding.get(kind)
        if heeding is None:
            heeding = [each for each in self._checkers if not each.heeds or kind in each.heeds]
            self._heeding[kind] = heeding
        return [Violation(checker.invariant, message, index) for checker in heeding for message in checker.see(fact)]

    def finish(self) -> list[Violation]:
        """What is missing at the end."""
        return [
            Violation(checker.invariant, message, self.seen)
            for checker in self._checkers
            for message in checker.finish()
        ]


def check(checkers: Sequence[Checker], facts: Iterable[Fact], *, quiescent: bool = True) -> list[Violation]:
    """All violations of a journal; `quiescent` asks also for what should have happened by its end."""
    watch = Watch(checkers)
    found = [violation for fact in facts for violation in watch.see(fact)]
    return found + (watch.finish() if quiescent else [])
