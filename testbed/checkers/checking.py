"""Runs checkers: fact by fact as they happen, or over a finished journal. No invariant is defined here."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from testbed.checkers.facts import Fact


class Violation(NamedTuple):
    """A violated invariant, and the number of the fact after which it was (the number of all facts: at the end)."""

    invariant: str
    message: str
    fact: int

    def __str__(self) -> str:
        return f"{self.invariant} violated at fact {self.fact}: {self.message}"


class Checker(Protocol):
    """The checker of one invariant. It stores what it needs of the facts; it uses no other source."""

    @property
    def invariant(self) -> str:
        """The invariant's name in `proof.md`'s table, and in words."""
        ...

    @property
    def heeds(self) -> Sequence[type]:
        """Kinds of facts that it needs; empty means all."""
        ...

    def see(self, fact: Fact) -> Iterator[str]:
        """Takes the next fact; yields new violations."""
        ...

    def finish(self) -> Iterator[str]:
        """Ends a run that came to rest: yields what should have happened and did not."""
        ...


class Instant:
    """A checker of an invariant that holds at every instant: its end checks nothing more."""

    heeds: Sequence[type] = ()

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        yield from ()


class Watch:
    """Runs several checkers over facts as they happen."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = checkers
        self._heeding: dict[type, list[Checker]] = {}
        self.seen = 0

    def see(self, fact: Fact) -> list[Violation]:
        """The violations that the fact causes."""
        index, self.seen = self.seen, self.seen + 1
        kind = type(fact)
        heeding = self._heeding.get(kind)
        if heeding is None:
            heeding = [each for each in self._checkers if not each.heeds or kind in each.heeds]
            self._heeding[kind] = heeding
        return [Violation(checker.invariant, message, index) for checker in heeding for message in checker.see(fact)]

    def finish(self) -> list[Violation]:
        """The violations at the end: what did not happen."""
        return [
            Violation(checker.invariant, message, self.seen)
            for checker in self._checkers
            for message in checker.finish()
        ]


def check(checkers: Sequence[Checker], facts: Iterable[Fact], *, quiescent: bool = True) -> list[Violation]:
    """All violations of a journal; `quiescent` also checks what should have happened by its end."""
    watch = Watch(checkers)
    found = [violation for fact in facts for violation in watch.see(fact)]
    return found + (watch.finish() if quiescent else [])
