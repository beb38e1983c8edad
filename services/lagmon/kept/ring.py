"""One resolution of kept lag: closed chunks, the open chunk's steps, and which chunks go. Pure.

Chunks are numbered in the order in which they were made; that order, not the wall clock, says what came first. A chunk
ends with its stretch of the wall clock, and early where the wall clock steps back. What is kept is bounded by steps and
bytes, not by time: a clock that jumps ahead for a moment drops nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_CHUNK_STEPS, KEPT_LAG_STEPS
from services.lagmon.kept.rows import Step

_NAME_PARTS = 5
_SUFFIX = ".lag"
_JOURNAL = ".journal"


class ChunkName(NamedTuple):
    """A closed chunk, as its file's name says.

    Attributes:
        ring: The resolution (`fine`, `coarse`).
        number: Its place in the order of chunks.
        first_ms, last_ms: The earliest and the latest start of a step.
        steps: How many.
    """

    ring: str
    number: int
    first_ms: int
    last_ms: int
    steps: int

    def __str__(self) -> str:
        return f"{self.ring}-{self.number:012d}-{self.first_ms}-{self.last_ms}-{self.steps}{_SUFFIX}"


def parse_chunk_name(text: str) -> ChunkName | None:
    """Reads the name of a chunk's file; None for any other file."""
    parts = text.removesuffix(_SUFFIX).split("-")
    if not text.endswith(_SUFFIX) or len(parts) != _NAME_PARTS or not all(part.isdecimal() for part in parts[1:]):
        return None
    return ChunkName(parts[0], *map(int, parts[1:]))


def journal_name(ring: str, number: int) -> str:
    """The name of the file with the steps of an open chunk."""
    return f"{ring}-{number:012d}{_JOURNAL}"


def parse_journal_name(text: str) -> tuple[str, int] | None:
    """Reads the name of a journal: the resolution and the chunk's number; None for any other file."""
    ring, _, number = text.removesuffix(_JOURNAL).partition("-")
    return (ring, int(number)) if text.endswith(_JOURNAL) and number.isdecimal() else None


class Closed(NamedTuple):
    """A chunk that has just been closed, and its steps."""

    name: ChunkName
    steps: Sequence[Step]


@dataclass
class Ring:
    """The steps of one resolution.

    Attributes:
        name: Of the resolution.
        step_ms: The length of a step.
        chunks: Closed chunks in order, with their bytes.
        head: Steps of the open chunk.
        number: Of the open chunk.
    """

    name: str
    step_ms: int
    chunks: dict[ChunkName, int] = field(default_factory=dict)
    head: list[Step] = field(default_factory=list)
    number: int = 1

    @property
    def since_ms(self) -> int | None:
        """The start of the oldest step that is kept; None for none."""
        for name in self.chunks:
            return name.first_ms
        return self.head[0].time_ms if self.head else None

    @property
    def size(self) -> int:
        """Bytes of all closed chunks."""
        return sum(self.chunks.values())

    @property
    def steps(self) -> int:
        """Steps of all chunks."""
        return sum(name.steps for name in self.chunks) + len(self.head)

    def fits(self, step: Step) -> bool:
        """Whether a step belongs into the open chunk."""
        if not self.head:
            return True
        stretch = self.step_ms * KEPT_LAG_CHUNK_STEPS
        return step.time_ms > self.head[-1].time_ms and step.time_ms // stretch == self.head[0].time_ms // stretch

    def add(self, step: Step) -> Closed | None:
        """Adds the next step; returns the chunk that it closes."""
        closed = None
        if not self.fits(step):
            if step.time_ms < self.head[-1].time_ms:
                step = replace(step, stepped=True)
            closed = self.close()
        self.head.append(step)
        return closed

    def close(self) -> Closed:
        """Closes the open chunk, which has a step."""
        steps = self.head
        times = [step.time_ms for step in steps]
        name = ChunkName(self.name, self.number, min(times), max(times), len(steps))
        self.chunks[name] = 0
        self.head = []
        self.number += 1
        return Closed(name, steps)

    def restore(
        self, chunks: Iterable[tuple[ChunkName, int]], journals: Iterable[tuple[int, Sequence[Step]]]
    ) -> Sequence[Closed]:
        """Begins with the chunks found. A journal behind all of them is the open chunk; others are closed and returned.

        Args:
            chunks: With their bytes.
            journals: Numbers, ascending, and steps of chunks that were not saved.
        """
        self.chunks = dict(sorted(chunks, key=lambda each: each[0].number))
        newest = max((name.number for name in self.chunks), default=0)
        self.head, self.number = [], newest + 1
        closed: list[Closed] = []
        for number, steps in journals:
            if self.head:
                closed.append(self.close())
            self.head, self.number = list(steps), number
        if self.head and self.number < newest:
            closed.append(self.close())
        self.number = max(self.number, newest + (not self.head))
        self.chunks = dict(sorted(self.chunks.items(), key=lambda each: each[0].number))
        return closed

    def over(self, bytes_max: int) -> Sequence[ChunkName]:
        """Removes the oldest chunks beyond the bounds, and returns their names."""
        steps, size = self.steps, self.size
        gone: list[ChunkName] = []
        for name, taken in self.chunks.items():
            if steps - name.steps < KEPT_LAG_STEPS and size <= bytes_max:
                break
            steps, size = steps - name.steps, size - taken
            gone.append(name)
        for name in gone:
            del self.chunks[name]
        return gone
