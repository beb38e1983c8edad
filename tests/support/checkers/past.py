"""I19: any answer about a past moment equals what was answered then, or is refused by naming what is not kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import ArchiveDamaged, HistoryHole

INVARIANT: Final = "I19 history"
Ask = Callable[[int], Awaitable[object]]


@dataclass
class PastAnswers:
    """Answers recorded as they were given, to be asked for again.

    Attributes:
        refused: Moments that were refused when they were asked for again, for tests to bound.
    """

    given: list[tuple[int, object]] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def record(self, at_ms: int, answer: object) -> None:
        """Keeps what was answered at a moment about that moment."""
        self.given.append((at_ms, answer))

    async def violations(self, ask: Ask) -> list[str]:
        """Asks for every moment again; returns what is answered differently now."""
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
