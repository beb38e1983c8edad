"""Reads series over a range of time from chunks and from the steps of the open one. Blocks while it reads files.

A chunk that is damaged or was dropped meanwhile is a gap; how many were damaged is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from services.lagmon.kept.chunks import (
    PREFIX_BYTES,
    Chunk,
    Damaged,
    Header,
    Shard,
    header_size,
    read_columns,
    read_header,
    read_keys,
)
from services.lagmon.kept.downsampling import bucket_starts, summed_up
from services.lagmon.kept.rows import COLUMNS, Columns, KeptRow, KeyTable, Series, SeriesKey, Step, row_of

Read = Callable[[int, int], bytes]
"""Reads so many bytes at an offset of one file."""


class Query(NamedTuple):
    """The rows that a reader wants.

    Attributes:
        group, stream, lane: Names; empty ones match everything.
        since_ms, until_ms: Starts of steps, the second left out.
        step_ms: The length of a row.
    """

    group: str
    stream: str
    lane: str
    since_ms: int
    until_ms: int
    step_ms: int

    def matches(self, key: SeriesKey) -> bool:
        """Whether a series is wanted."""
        return (
            (not self.group or key.group == self.group)
            and (not self.stream or key.stream == self.stream)
            and (not self.lane or key.lane == self.lane)
        )


class Stretch(NamedTuple):
    """Consecutive steps of some series; columns of shape (columns, steps) by series."""

    times_ms: Sequence[int]
    stepped: Sequence[bool]
    columns: dict[SeriesKey, Columns]


class Source(Protocol):
    """A chunk, closed or open, from which series are read."""

    def keys(self, query: Query, after: SeriesKey | None, most: int) -> Sequence[SeriesKey]:
        """Returns the first series that match, sorted, after one."""
        ...

    def read(self, keys: Sequence[SeriesKey]) -> Stretch:
        """Reads those series; one that it does not have is absent in every step."""
        ...


@dataclass(frozen=True)
class OpenSteps:
    """Steps in memory as a source."""

    steps: Sequence[Step]

    def keys(self, query: Query, after: SeriesKey | None, most: int) -> Sequence[SeriesKey]:
        """Returns the first series that match, sorted, after one."""
        tables = {id(step.keys): step.keys for step in self.steps}
        wanted = {
            key for table in tables.values() for key in table if (after is None or key > after) and query.matches(key)
        }
        return sorted(wanted)[:most]

    def read(self, keys: Sequence[SeriesKey]) -> Stretch:
        """Reads those series."""
        times = [step.time_ms for step in self.steps]
        columns = {key: np.zeros((COLUMNS, len(times)), np.int64) for key in keys}
        for number, step in enumerate(self.steps):
            for key in keys:
                at = step.keys.positions.get(key)
                if at is not None:
                    columns[key][:, number] = step.columns[:, at]
        return Stretch(times, [step.stepped for step in self.steps], columns)


class ChunkFile:
    """A chunk's bytes as a source; only the shards that are needed are read."""

    def __init__(self, read: Read) -> None:
        """Reads the header. Raises `Damaged` or `OSError`, as every method does."""
        self._read = read
        prefix = read(0, PREFIX_BYTES)
        self._header: Header = read_header(prefix, read(PREFIX_BYTES, header_size(prefix)))

    @property
    def header(self) -> Header:
        """The steps of the chunk, and where its shards are."""
        return self._header

    def whole(self) -> Chunk:
        """Reads all series."""
        header = self._header
        data = [(shard, self._data(shard)) for shard in header.shards]
        keys = KeyTable(key for shard, part in data for key in read_keys(shard, part))
        none = np.zeros((COLUMNS, 0, len(header.times_ms)), np.int64)
        columns = np.concatenate([none, *(read_columns(header, shard, part) for shard, part in data)], axis=1)
        return Chunk(header.times_ms, header.stepped, header.origins, keys, columns)

    def keys(self, query: Query, after: SeriesKey | None, most: int) -> Sequence[SeriesKey]:
        """Returns the first series that match, sorted, after one."""
        found: list[SeriesKey] = []
        for shard in self._header.shards:
            if (after is not None and shard.last <= after) or (query.group and not _may_hold(shard, query.group)):
                continue
            for key in read_keys(shard, self._data(shard)):
                if (after is None or key > after) and query.matches(key):
                    found.append(key)
            if len(found) >= most:
                break
        return found[:most]

    def read(self, keys: Sequence[SeriesKey]) -> Stretch:
        """Reads those series."""
        absent = np.zeros((COLUMNS, len(self._header.times_ms)), np.int64)
        found = dict.fromkeys(keys, absent)
        for shard in self._header.shards:
            if not any(shard.first <= key <= shard.last for key in keys):
                continue
            data = self._data(shard)
            places = {key: at for at, key in enumerate(read_keys(shard, data))}
            here = [key for key in keys if key in places]
            if here:
                columns = read_columns(self._header, shard, data)
                found |= {key: columns[:, places[key]].copy() for key in here}  # of a shard only what is wanted stays
        return Stretch(self._header.times_ms, self._header.stepped, found)

    def _data(self, shard: Shard) -> bytes:
        return self._read(shard.offset, shard.size)


def _may_hold(shard: Shard, group: str) -> bool:
    return shard.first.group <= group <= shard.last.group


class Page(NamedTuple):
    """One page of series with their rows.

    Attributes:
        more: Whether series follow the last one.
        damaged: Chunks that could not be read.
    """

    series: Sequence[Series]
    more: bool
    damaged: int


def read_page(sources: Iterable[Callable[[], Source]], query: Query, after: SeriesKey | None, series_max: int) -> Page:
    """Reads the rows of the first series after one.

    Args:
        sources: Open the chunks that overlap the range, in order.
        query: Which rows.
        after: The last series of the page before.
        series_max: At most so many series.
    """
    opened: list[Source] = []
    damaged = 0
    wanted: set[SeriesKey] = set()
    for open_source in sources:
        try:
            source = open_source()
            wanted.update(source.keys(query, after, series_max + 1))
        except FileNotFoundError:  # it was dropped meanwhile: a gap
            continue
        except (Damaged, OSError):
            damaged += 1
            continue
        opened.append(source)
    keys = sorted(wanted)
    page = keys[:series_max]
    parts: dict[SeriesKey, list[tuple[Sequence[int], Sequence[bool], Columns]]] = {key: [] for key in page}
    for source in opened:
        try:
            stretch = source.read(page)
        except FileNotFoundError:
            continue
        except (Damaged, OSError):
            damaged += 1
            continue
        for key, columns in stretch.columns.items():
            parts[key].append((stretch.times_ms, stretch.stepped, columns))
    series = [Series(key, tuple(_rows(parts[key], query))) for key in page]
    return Page(series, len(keys) > series_max, damaged)


def _rows(parts: Sequence[tuple[Sequence[int], Sequence[bool], Columns]], query: Query) -> Iterator[KeptRow]:
    """Puts the parts of one series together and sums them up to the step that is wanted."""
    if not parts:
        return
    times = [time_ms for each, _, _ in parts for time_ms in each]
    stepped = [flag for _, each, _ in parts for flag in each]
    columns = np.concatenate([each for _, _, each in parts], axis=1)
    inside = [at for at, time_ms in enumerate(times) if query.since_ms <= time_ms < query.until_ms]
    if not inside:
        return
    times = [times[at] for at in inside]
    starts = bucket_starts(times, query.step_ms)
    sums = summed_up(columns[:, np.newaxis, inside], starts)[:, 0, :]
    ends = [*starts[1:], len(times)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        time_ms = times[start] - times[start] % query.step_ms
        row = row_of(time_ms, sums[:, number], any(stepped[at] for at in inside[start:end]))
        if row is not None:
            yield row
