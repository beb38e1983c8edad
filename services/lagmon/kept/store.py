"""Both resolutions of kept lag with their files: takes steps, closes chunks, drops the oldest, and begins from files.

`write`, `remove`, `restore` and what `sources` returns block; the rest belongs on the loop. One task at a time keeps.
While the disk refuses writes, closed chunks stay in memory, bounded, and are written when it takes them again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.lagmon.kept_lag import (
    KEPT_LAG_CHUNK_BYTES_MAX,
    KEPT_LAG_COARSE_STEP_MS,
    KEPT_LAG_MEMORY_BYTES,
    KEPT_LAG_ROWS_MAX,
    KEPT_LAG_STEP_MS,
    KEPT_LAG_STEPS,
    KEPT_LAG_SUMMED_AT_START_MAX,
)
from services.lagmon.kept.chunks import Chunk, Damaged, chunk_of, encode_chunk, encode_entry, read_journal
from services.lagmon.kept.downsampling import summed_up
from services.lagmon.kept.files import Files
from services.lagmon.kept.reading import ChunkFile, OpenSteps, Query, Source
from services.lagmon.kept.ring import ChunkName, Closed, Ring, journal_name, parse_chunk_name, parse_journal_name
from services.lagmon.kept.rows import Step

FINE: Final = "fine"
COARSE: Final = "coarse"


@dataclass(slots=True)
class _Journal:
    """The steps and bytes of an open chunk that are known to be in its journal."""

    number: int = 0
    steps: int = 0
    size: int = 0


@dataclass(slots=True)
class Health:
    """The state of keeping, for people and metrics.

    Attributes:
        trouble: Why the disk takes no rows at present; '' if it does.
        failures: Writes that failed.
        dropped: Chunks that went for want of room, before their time.
        damaged: Files that could not be read at the start.
    """

    trouble: str = ""
    failures: int = 0
    dropped: int = 0
    damaged: int = 0


class Resolution(NamedTuple):
    """One resolution at one instant, to be read from a thread.

    Attributes:
        since_ms: The start of its oldest step; None for none.
        step_ms: The length of its steps.
        chunks: Closed chunks in order.
        heads: Steps that are in no closed chunk of it.
    """

    since_ms: int | None
    step_ms: int
    chunks: Sequence[ChunkName]
    heads: Sequence[Sequence[Step]]


@dataclass
class KeptStore:
    """Kept lag of one replica.

    Attributes:
        files: Where it is kept.
        bytes_max: Bound of all files; each resolution may take half.
        health: How that goes.
    """

    files: Files
    bytes_max: int
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        self._rings = {FINE: Ring(FINE, KEPT_LAG_STEP_MS), COARSE: Ring(COARSE, KEPT_LAG_COARSE_STEP_MS)}
        self._journals = {FINE: _Journal(), COARSE: _Journal()}
        self._closed: list[Closed] = []
        self._unsaved: dict[ChunkName, bytes] = {}

    # --- what is asked

    def bytes_kept(self) -> Mapping[str, int]:
        """Returns the bytes of each resolution."""
        return {name: ring.size + self._journals[name].size for name, ring in self._rings.items()}

    def since_ms(self) -> Mapping[str, int | None]:
        """Returns the start of the oldest step of each resolution."""
        return {name: ring.since_ms for name, ring in self._rings.items()}

    def shortest_step(self, since_ms: int, until_ms: int) -> int:
        """Returns the shortest row that is kept since a time, and of which the range has not too many."""
        fine, coarse = self._rings[FINE].since_ms, self._rings[COARSE].since_ms
        if (until_ms - since_ms) // KEPT_LAG_STEP_MS >= KEPT_LAG_ROWS_MAX:
            return KEPT_LAG_COARSE_STEP_MS
        older = fine is not None and coarse is not None and coarse + KEPT_LAG_COARSE_STEP_MS <= fine
        return KEPT_LAG_COARSE_STEP_MS if older and fine is not None and since_ms < fine else KEPT_LAG_STEP_MS

    def resolution(self, step_ms: int, since_ms: int) -> Resolution:
        """Returns the resolution that answers rows of a length from a time on.

        Rows below five minutes come from the fine resolution, and so does everything that it still has.
        """
        fine, coarse = self._rings[FINE], self._rings[COARSE]
        if step_ms < KEPT_LAG_COARSE_STEP_MS or (fine.since_ms is not None and since_ms >= fine.since_ms):
            return Resolution(fine.since_ms, fine.step_ms, tuple(fine.chunks), (tuple(fine.head),))
        since = coarse.since_ms if coarse.since_ms is not None else fine.since_ms
        return Resolution(since, coarse.step_ms, tuple(coarse.chunks), (tuple(coarse.head), tuple(fine.head)))

    def sources(self, kept: Resolution, query: Query) -> Sequence[Callable[[], Source]]:
        """Returns what opens the chunks that overlap a range, in order."""
        chunks = [
            partial(self._open, name)
            for name in kept.chunks
            if name.last_ms + kept.step_ms > query.since_ms and name.first_ms < query.until_ms
        ]
        return [*chunks, *(partial(OpenSteps, steps) for steps in kept.heads if steps)]

    # --- what is kept

    def add(self, step: Step) -> Closed | None:
        """Takes the next fine step; returns the chunk that it closes, which `add_sum` wants summed up."""
        closed = self._rings[FINE].add(step)
        if closed is not None:
            self._closed.append(closed)
        return closed

    def add_sum(self, step: Step) -> None:
        """Takes the coarse step that sums up a fine chunk."""
        closed = self._rings[COARSE].add(step)
        if closed is not None:
            self._closed.append(closed)

    def write(self) -> Mapping[ChunkName, int]:
        """Writes what was taken; returns the chunks written, with their bytes."""
        written: dict[ChunkName, int] = {}
        while self._closed:
            closed = self._closed[0]
            self._unsaved[closed.name] = encode_chunk(chunk_of(closed.steps))
            del self._closed[0]
        try:
            for name, data in list(self._unsaved.items()):
                self.files.write(str(name), data)
                del self._unsaved[name]
                written[name] = len(data)
                self.files.remove(journal_name(name.ring, name.number))
            for ring in self._rings.values():
                self._write_journal(ring)
            self.health.trouble = ""
        except OSError as error:
            self._failed(error)
        return written

    def settle(self, written: Mapping[ChunkName, int]) -> Sequence[ChunkName]:
        """Notes what was written; returns chunks beyond the bounds, which `remove` wants."""
        gone: list[ChunkName] = []
        for ring in self._rings.values():
            ring.chunks.update((name, size) for name, size in written.items() if name in ring.chunks)
            over = ring.over(self.bytes_max // 2)
            if over and ring.steps < KEPT_LAG_STEPS:
                self.health.dropped += len(over)
            gone += over
        while sum(map(len, self._unsaved.values())) > KEPT_LAG_MEMORY_BYTES:
            oldest = next(iter(self._unsaved))
            self._rings[oldest.ring].chunks.pop(oldest, None)
            del self._unsaved[oldest]
            self.health.dropped += 1
        return gone

    def remove(self, names: Sequence[ChunkName]) -> None:
        """Removes the files of dropped chunks."""
        try:
            for name in names:
                self._unsaved.pop(name, None)
                self.files.remove(str(name))
        except OSError as error:
            self._failed(error)

    def restore(self, now_ms: int) -> None:
        """Begins with what the files hold: reads their names, the journals, and chunks that were not summed up.

        Where they cannot be read, chunks are numbered from the time in seconds: behind all that the files may hold.
        """
        try:
            names = self.files.names()
            closed = {name: self._restore(ring, names) for name, ring in self._rings.items()}
            self._closed += [each for found in closed.values() for each in found]
            for chunk in self._not_summed():
                self._sum_file(chunk)
            for each in closed[FINE]:
                self.add_sum(sum_of(each.name, chunk_of(each.steps)))
        except OSError as error:
            self._failed(error)
            for ring in self._rings.values():
                ring.number = max(ring.number, now_ms // 1000)

    # --- how

    def _restore(self, ring: Ring, names: Mapping[str, int]) -> Sequence[Closed]:
        chunks = [(name, size) for text, size in names.items() if (name := parse_chunk_name(text)) is not None]
        own = [each for each in chunks if each[0].ring == ring.name]
        saved = {name.number for name, _ in own}
        journals: list[tuple[int, Sequence[Step]]] = []
        for text, size in sorted(names.items()):
            parsed = parse_journal_name(text)
            if parsed is None or parsed[0] != ring.name:
                continue
            if parsed[1] in saved:  # its chunk was saved, and the process was killed before it removed this
                self.files.remove(text)
                continue
            steps, whole = read_journal(self.files.read(text, 0, min(size, KEPT_LAG_CHUNK_BYTES_MAX)))
            self.health.damaged += whole < size
            if steps:
                journals.append((parsed[1], steps))
                self._journals[ring.name] = _Journal(parsed[1], len(steps), whole)
        return ring.restore(own, journals)

    def _not_summed(self) -> Sequence[ChunkName]:
        """Returns fine chunks whose sum is not among the coarse steps: the process was killed in between."""
        coarse = self._rings[COARSE]
        last = 0
        if coarse.head:
            last = coarse.head[-1].origin
        elif coarse.chunks:
            try:
                last = self._file(next(reversed(coarse.chunks))).header.origins[-1]
            except Damaged:
                self.health.damaged += 1
                return ()
        names = [name for name in self._rings[FINE].chunks if name.number > last and self._rings[FINE].chunks[name]]
        return names[-KEPT_LAG_SUMMED_AT_START_MAX:]

    def _sum_file(self, name: ChunkName) -> None:
        try:
            self.add_sum(sum_of(name, self._file(name).whole()))
        except Damaged:
            self.health.damaged += 1

    def _open(self, name: ChunkName) -> Source:
        for closed in tuple(self._closed):
            if closed.name == name:
                return OpenSteps(closed.steps)
        data = self._unsaved.get(name)
        if data is not None:
            return ChunkFile(lambda offset, size: data[offset : offset + size])
        return self._file(name)

    def _file(self, name: ChunkName) -> ChunkFile:
        return ChunkFile(partial(self.files.read, str(name)))

    def _write_journal(self, ring: Ring) -> None:
        journal = self._journals[ring.name]
        if journal.number != ring.number:
            journal = self._journals[ring.name] = _Journal(ring.number)
        steps = ring.head
        if journal.steps >= len(steps):
            return
        entries = [encode_entry(steps[at], steps[at - 1] if at else None) for at in range(journal.steps, len(steps))]
        data = b"".join(entries)
        try:
            self.files.append(journal_name(ring.name, ring.number), journal.size, data)
        except FileNotFoundError:  # somebody removed it: all of it is written the next time
            journal.steps = journal.size = 0
            raise
        journal.steps, journal.size = len(steps), journal.size + len(data)

    def _failed(self, error: OSError) -> None:
        self.health.failures += 1
        self.health.trouble = f"lag is kept in memory only: {error.strerror or error}"


def sum_of(name: ChunkName, chunk: Chunk) -> Step:
    """Sums a fine chunk up to one coarse step. Work for a thread: a large mesh's chunk has tens of megabytes."""
    columns = np.ascontiguousarray(summed_up(chunk.columns, [0])[:, :, 0])
    time_ms = name.first_ms - name.first_ms % KEPT_LAG_COARSE_STEP_MS
    return Step(time_ms, chunk.keys, columns, any(chunk.stepped), name.number)
