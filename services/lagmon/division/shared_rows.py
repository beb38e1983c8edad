"""Rows of lag as replicas share them: numbers that stay the same while nothing happens. Pure.

An age grows by itself, so what is shared is the time since which a row is that old, in milliseconds on the clock of the
replica that reads the cluster. Its end's observation is shared only where it is stale: for all others the oldest one of
the reading stands.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.division import LAG_SHARE_DRIFT_MS, LAG_SHARED_STALE_SECONDS
from services.lagmon.columns.lags import Lags
from services.lagmon.policy import Now

_Ints = NDArray[np.int64]
NOTHING: Final = -(1 << 41)  # no time: nothing is undone; and of an end, never seen
NOT_SPLIT: Final = NOTHING - 1
SEEN: Final = 1 << 41  # an end that was seen with all others
_SOURCE: Final = 7
_FOREIGN, _UNATTENDED, _COMMITTED = 8, 16, 32


class SharedNumbers(NamedTuple):
    """Columns of numbers, by row.

    Attributes:
        records: Undone records.
        since_ms: Since when the oldest of them waits; `NOTHING` for none.
        live_ms: The same of the live cursor; `NOT_SPLIT` where there is none.
        seen_ms: When a stale end was seen last; `SEEN` for ends that are not stale.
        marks: The source of the age, and flags.
        committed, end, commit_time_ms: As `Lags` has them.
    """

    records: _Ints
    since_ms: _Ints
    live_ms: _Ints
    seen_ms: _Ints
    marks: _Ints
    committed: _Ints
    end: _Ints
    commit_time_ms: _Ints


class Seen(NamedTuple):
    """When ends of logs were seen, on the reading replica's clock, milliseconds.

    Attributes:
        oldest_ms: The oldest of those that are not stale.
        newest_ms: The newest of all.
    """

    oldest_ms: int
    newest_ms: int


def shared_numbers(lags: Lags, now: Now) -> tuple[SharedNumbers, Seen]:
    """Writes rows as they are shared, and says when their logs' ends were seen."""
    now_ms = round(now.elapsed * 1_000)
    seen = np.where(lags.as_of_ms > 0, now_ms - (now.wall_ms - lags.as_of_ms), NOTHING)
    fresh = seen[~lags.stale]
    oldest = int(fresh.min()) if len(fresh) else now_ms
    newest = int(seen.max()) if len(seen) else now_ms
    marks = lags.source.astype(np.int64) | lags.foreign * _FOREIGN | lags.unattended * _UNATTENDED
    split = ~np.isnan(lags.live_seconds)
    live = np.where(split, lags.live_seconds, 0.0)
    numbers = SharedNumbers(
        lags.records,
        _since(now_ms, lags.seconds, lags.records > 0),
        np.where(split, _since(now_ms, live, live > 0), NOT_SPLIT),
        np.where(lags.stale, seen, SEEN),
        marks | lags.has_commit * _COMMITTED,
        lags.committed,
        lags.end,
        lags.commit_time_ms,
    )
    return numbers, Seen(oldest, newest)


def changed_rows(before: SharedNumbers, after: SharedNumbers) -> NDArray[np.bool_]:
    """Says which rows are to be shared again; ages may be wrong by a little."""
    found = np.zeros(len(before.records), np.bool_)
    for name, old, new in zip(SharedNumbers._fields, before, after, strict=True):
        if name in ("since_ms", "live_ms"):
            found |= np.abs(new - old) > LAG_SHARE_DRIFT_MS
        else:
            found |= new != old
    return found


def lags_of(
    pair: _Ints,
    partition: _Ints,
    numbers: SharedNumbers,
    metadata: NDArray[np.object_],
    seen: Seen,
    theirs: Now,
) -> Lags:
    """Makes rows of shared ones.

    Args:
        pair, partition: The subject of each row.
        numbers, metadata: What is shared of it.
        seen: When ends were seen.
        theirs: Now, by the clock of the replica that reads; the wall clock is this replica's.
    """
    now_ms = theirs.elapsed * 1_000
    at = np.where(numbers.seen_ms == SEEN, seen.oldest_ms, numbers.seen_ms)
    age_ms = np.maximum(now_ms - at, 0.0)
    never = at <= NOTHING
    return Lags(
        pair=pair,
        partition=partition,
        records=numbers.records,
        seconds=_age(now_ms, numbers.since_ms),
        live_seconds=np.where(numbers.live_ms == NOT_SPLIT, np.nan, _age(now_ms, numbers.live_ms)),
        source=(numbers.marks & _SOURCE).astype(np.int8),
        foreign=(numbers.marks & _FOREIGN) > 0,
        stale=(numbers.seen_ms != SEEN) | (age_ms > LAG_SHARED_STALE_SECONDS * 1_000),
        unattended=(numbers.marks & _UNATTENDED) > 0,
        as_of_ms=np.where(never, 0, theirs.wall_ms - np.rint(age_ms).astype(np.int64)),
        committed=numbers.committed,
        end=numbers.end,
        commit_time_ms=numbers.commit_time_ms,
        has_commit=(numbers.marks & _COMMITTED) > 0,
        metadata=metadata,
    )


def _since(now_ms: int, seconds: NDArray[np.float64], some: NDArray[np.bool_]) -> _Ints:
    since: _Ints = np.where(some, now_ms - np.rint(seconds * 1_000).astype(np.int64), NOTHING)
    return np.where(some, np.maximum(since, NOTHING + 1), since)


def _age(now_ms: float, since_ms: _Ints) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.where(since_ms <= NOTHING, 0.0, np.maximum(now_ms - since_ms, 0.0) / 1_000)
    return found
