"""Lagmon's answers about one group while the story goes on, asked several times a second."""

import asyncio
from typing import Final

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.kernel.errors import BraidError
from demo.control import Control

_ASK_SECONDS: Final = 0.5


class LagWatch:
    """The lag of a group as it was and is.

    Attributes:
        rows: The newest answer, by lane and cluster.
        answers: How many there were.
        worst: The row with the longest lag of all answers; None before the first.
        unanswered: Why the last question had no answer; empty when it had one.
    """

    def __init__(self, control: Control, group: str) -> None:
        self._control = control
        self._group = group
        self.rows: list[Lag] = []
        self.answers = 0
        self.worst: Lag | None = None
        self.unanswered = "nobody was asked yet"

    async def run(self) -> None:
        """Asks until cancelled; a service that is away for a moment is asked again."""
        while True:
            try:
                self.take(await self._control.lag(self._group))
            except BraidError as error:
                self.unanswered = error.message
            await asyncio.sleep(_ASK_SECONDS)

    def take(self, rows: list[Lag]) -> None:
        """Notes an answer."""
        self.rows, self.unanswered = rows, ""
        self.answers += 1
        longest = max(rows, key=lambda row: row.lag_seconds, default=None)
        if longest is not None and (self.worst is None or longest.lag_seconds > self.worst.lag_seconds):
            self.worst = longest

    def on(self, cluster: str) -> list[Lag]:
        """The newest rows of one cluster that are behind."""
        return [row for row in self.rows if row.cluster == cluster and row.lag_records]

    @property
    def final_seconds(self) -> float | None:
        """The longest lag of the newest answer, once every row of it is fresh and has nothing undone; None before."""
        behind = any(row.stale or row.lag_records or row.lag_seconds for row in self.rows)
        return None if behind or not self.rows or self.unanswered else 0.0


def worded(rows: list[Lag]) -> str:
    """Rows in a few words: `bulk 6,120 records, 4.2 s`, stale ones said to be."""
    return "; ".join(
        f"{row.lane} {row.lag_records:,} records, {row.lag_seconds:.1f} s{' and growing' if row.stale else ''}"
        for row in sorted(rows, key=lambda row: row.lane)
    )
