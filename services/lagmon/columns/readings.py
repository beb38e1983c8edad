"""The lag of many rows at once: what `policy.read_lag` says of each, row for row. Pure.

Rows that are not simple are read by `policy` one by one: partitions that are split, whose log lost its start or its end
within claimed ranges, or where offsets hold no record of anybody's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import (
    LAG_GUESS_SECONDS,
    LAG_PROBE_AGAIN_SECONDS,
    LAG_STALE_SECONDS,
    LAG_STALL_SECONDS,
)
from services.lagmon.columns.ends import EndColumns, Written
from services.lagmon.columns.progress import Kind, ProgressColumns
from services.lagmon.model.lag import Source
from services.lagmon.policy import Now, live_seconds, read_lag, wants_probe

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Readings:
    """`policy.PartitionLag` of many rows, as columns.

    Attributes:
        live: Seconds of the live cursor; NaN where a partition is not split.
        probe: Whether the record at the oldest undone offset should be read for its time.
    """

    records: _Ints
    seconds: _Floats
    source: NDArray[np.int8]
    oldest: _Ints
    live: _Floats
    probe: _Flags


def read_rows(known: ProgressColumns, ends: EndColumns, rows: _Ints, drained: _Flags, now: Now) -> Readings:
    """Reads the present lag of rows.

    Args:
        drained: Of each row, whether its channel holds nothing for the group.
    """
    count = len(rows)
    done = drained | _done_rows(known, ends, rows)
    known.decode(rows[~done])
    found = Readings(
        np.zeros(count, np.int64),
        np.zeros(count),
        np.full(count, Source.DONE, np.int8),
        np.full(count, -1, np.int64),
        np.full(count, np.nan),
        np.zeros(count, np.bool_),
    )
    left = np.flatnonzero(~done)
    if len(left):
        rich = _needs_policy(known, ends, rows[left])
        for at in left[rich].tolist():
            _put_one(found, at, known, ends, int(rows[at]), now)
        _put_simple(found, left[~rich], known, ends, rows[left[~rich]], now)
    return found


def costly_rows(known: ProgressColumns, ends: EndColumns, rows: _Ints, drained: _Flags) -> _Flags:
    """Says which rows `read_rows` reads one by one, because an envelope is to be decoded or only the policy knows."""
    costly: _Flags = ~(drained | _done_rows(known, ends, rows))
    left = rows[costly]
    costly[costly] = (known["kind"][left] == Kind.UNDECODED) | _needs_policy(known, ends, left)
    return costly


def _done_rows(known: ProgressColumns, ends: EndColumns, rows: _Ints) -> _Flags:
    """Whether the end of each row's log is known, and committed."""
    end = ends.ends[known["log"][rows]]
    done: _Flags = (known["kind"][rows] != Kind.EXPECTED) & (end >= 0) & (end <= known["committed"][rows])
    return done


def may_want_probe(known: ProgressColumns, ends: EndColumns, rows: _Ints) -> _Flags:
    """Leaves out, at little cost, most of the rows that want no record read: done ones, and those without envelopes."""
    kind, end = known["kind"][rows], ends.ends[known["log"][rows]]
    wanted: _Flags = (kind == Kind.EXPECTED) | ((kind > Kind.PLAIN) & ((end < 0) | (end > known["committed"][rows])))
    return wanted


def stale_rows(known: ProgressColumns, ends: EndColumns, rows: _Ints, now: Now) -> _Flags:
    """Whether the log's end of each row was not observed lately."""
    stale: _Flags = ~(now.elapsed - ends.seen_at[known["log"][rows]] <= LAG_STALE_SECONDS)
    return stale


def _needs_policy(known: ProgressColumns, ends: EndColumns, rows: _Ints) -> _Flags:
    logs = known["log"][rows]
    end, start, beyond = ends.ends[logs], ends.starts[logs], known["beyond"][rows]
    rich: _Flags = known["kind"][rows] == Kind.RICH
    cut = (start > known["first_end"][rows]) | (known["claims_end"][rows] > end)
    rich |= (beyond > 0) & cut & (end >= 0)  # of a log that was never looked at only the envelope says something
    if known.no_records:
        rich |= np.isin(rows, list(known.no_records))
    return rich


def _put_one(found: Readings, at: int, known: ProgressColumns, ends: EndColumns, row: int, now: Now) -> None:
    progress, log = known.progress_of(row), ends.log_ends(int(known["log"][row]))
    reading = read_lag(progress, log, now)
    live = live_seconds(progress, log, now) if reading.records else None
    found.records[at], found.seconds[at] = reading.records, reading.seconds
    found.source[at], found.oldest[at] = reading.source, reading.oldest
    found.live[at] = np.nan if live is None else live
    found.probe[at] = wants_probe(progress, reading, log, now)


def _put_simple(
    found: Readings, places: _Ints, known: ProgressColumns, ends: EndColumns, rows: _Ints, now: Now
) -> None:
    """Reads rows whose undone offsets are those from one on, without the ranges that are done beyond it."""
    logs = known["log"][rows]
    end = ends.ends[logs]
    oldest = np.maximum(known["first_end"][rows], np.maximum(ends.starts[logs], 0))
    _put_unseen(found, places[end < 0], known, rows[end < 0], now)
    undone = oldest < end
    places, rows, logs, oldest, end = places[undone], rows[undone], logs[undone], oldest[undone], end[undone]
    found.oldest[places] = oldest
    found.records[places] = np.maximum(1, end - oldest - known["beyond"][rows] - known["beside"][rows])
    written = ends.written(logs, oldest)
    seconds, source, exact = _ages(known, ends, rows, oldest, written, now)
    found.seconds[places] = np.maximum(seconds, 0.0)
    found.source[places] = source
    found.probe[places] = ~exact & _probe_due(known, rows, oldest, written.by, now)


def _put_unseen(found: Readings, places: _Ints, known: ProgressColumns, rows: _Ints, now: Now) -> None:
    """Reads rows whose logs were never looked at, from their envelopes alone."""
    told = (known["kind"][rows] == Kind.SIMPLE) & (known["oldest_ms"][rows] >= 0)
    found.source[places] = np.where(told, Source.ENVELOPE, Source.UNKNOWN)
    places, rows = places[told], rows[told]
    gaps = known["claims_end"][rows] - known["first_end"][rows] - known["beyond"][rows]
    found.records[places] = np.maximum(1, gaps)
    found.seconds[places] = np.maximum(0.0, (now.wall_ms - known["oldest_ms"][rows]) / 1000)


def _ages(
    known: ProgressColumns, ends: EndColumns, rows: _Ints, oldest: _Ints, written: Written, now: Now
) -> tuple[_Floats, NDArray[np.int8], _Flags]:
    """Returns seconds, sources, and where reading the record would give nothing better; the best known comes last."""
    logs, kind, heard_at = known["log"][rows], known["kind"][rows], known["heard_at"][rows]
    least = np.where(np.isnan(written.by), 0.0, now.elapsed - written.by)
    seconds, source = least.copy(), np.full(len(rows), Source.UNKNOWN, np.int8)
    close = written.by - written.after <= np.where(kind == Kind.PLAIN, np.inf, LAG_GUESS_SECONDS)
    guessed = close & ~np.isnan(written.guessed)
    seconds[guessed], source[guessed] = now.elapsed - written.guessed[guessed], Source.ESTIMATE
    head = (kind == Kind.SIMPLE) & (known["head_ms"][rows] >= 0) & (written.by <= heard_at)
    since_head = (now.wall_ms - known["head_ms"][rows]) / 1000
    most = np.fmin(since_head, now.elapsed - written.after)
    seconds[head], source[head] = np.maximum(least, most)[head], Source.ENVELOPE
    oldest_ms = known["oldest_ms"][rows]
    exact = (kind == Kind.SIMPLE) & (oldest_ms >= 0) & (ends.starts[logs] <= known["base"][rows])
    seconds[exact], source[exact] = ((now.wall_ms - oldest_ms) / 1000)[exact], Source.ENVELOPE
    probed = (known["probe_offset"][rows] == oldest) & (known["probe_ms"][rows] >= 0)
    seconds[probed], source[probed] = ((now.wall_ms - known["probe_ms"][rows]) / 1000)[probed], Source.RECORD
    return seconds, source, exact | probed


def _probe_due(known: ProgressColumns, rows: _Ints, oldest: _Ints, by: _Floats, now: Now) -> _Flags:
    """Whether groups stall for so long that the record should be read, or read again."""
    tried = known["probe_offset"][rows] == oldest
    again = now.elapsed - known["probe_at"][rows] >= LAG_PROBE_AGAIN_SECONDS
    stalls = now.elapsed - np.maximum(by, known["heard_at"][rows]) >= LAG_STALL_SECONDS  # never for NaN
    due: _Flags = (known["kind"][rows] != Kind.PLAIN) & np.where(tried, again, stalls)
    return due
