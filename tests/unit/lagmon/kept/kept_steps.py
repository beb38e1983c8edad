"""Steps of kept lag made by hand and by hypothesis, and what a reader must find in them, row by row."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

import numpy as np
from hypothesis import strategies as st

from services.lagmon.kept.rows import COLUMNS, Flag, KeptRow, KeyTable, SeriesKey, Step, row_of

START_MS: Final = 1_700_000_100_000  # a multiple of 5 minutes
KEYS: Final = tuple(SeriesKey(group, "logs", lane) for group in ("a", "b", "c") for lane in ("bulk", "live"))


class Values(NamedTuple):
    """One series in one step, as its columns hold it."""

    max_ms: int = 0
    last_ms: int = 0
    records: int = 0
    produced: int = 0
    done: int = 0
    rated_ms: int = 0
    known_ms: int = 0
    flags: int = 0
    min_ms: int = 0


def known(seconds: float, records: int, produced: int = 0, done: int = 0) -> Values:
    """Values of a step in which everything was known."""
    ms = round(seconds * 1000)
    flags = Flag.PRESENT | Flag.SECONDS | Flag.RECORDS | Flag.SMALLEST
    return Values(ms, ms, records, produced, done, 10_000, 10_000, flags, ms)


STALE: Final = Values(flags=Flag.PRESENT | Flag.STALE)


def step_of(time_ms: int, values: Mapping[SeriesKey, Values], *, stepped: bool = False, origin: int = 0) -> Step:
    """Builds a step."""
    keys = KeyTable(sorted(values))
    columns = np.zeros((COLUMNS, len(keys)), np.int64)
    for at, key in enumerate(keys):
        columns[:, at] = values[key]
    return Step(time_ms, keys, columns, stepped, origin)


def steps_of(count: int, *, start_ms: int = START_MS, keys: Sequence[SeriesKey] = KEYS[:2]) -> list[Step]:
    """Builds consecutive fine steps in which everything was known, and no two are alike."""
    return [
        step_of(
            start_ms + at * 10_000,
            {key: known(at + number, at * 7 + number, 100 + at, 90 + number) for number, key in enumerate(keys)},
        )
        for at in range(count)
    ]


def same(one: Step, other: Step) -> bool:
    """Whether two steps say the same."""
    return (one.time_ms, one.stepped, one.origin, one.keys) == (
        other.time_ms,
        other.stepped,
        other.origin,
        other.keys,
    ) and np.array_equal(one.columns, other.columns)


def summed_by_hand(rows: Sequence[Values]) -> Values:
    """Sums consecutive rows up, one at a time."""
    result = Values()
    for row in rows:
        seconds, records = row.flags & Flag.SECONDS, row.flags & Flag.RECORDS
        before = result.flags & Flag.SECONDS
        flags, least = result.flags | row.flags, min(result.min_ms, row.min_ms) if before else row.min_ms
        if not seconds:
            flags, least = flags & ~Flag.SMALLEST | result.flags & Flag.SMALLEST, result.min_ms
        elif not row.flags & Flag.SMALLEST or (before and not result.flags & Flag.SMALLEST):
            flags, least = flags & ~Flag.SMALLEST, 0
        result = Values(
            max(result.max_ms, row.max_ms) if seconds else result.max_ms,
            row.last_ms if seconds else result.last_ms,
            row.records if records else result.records,
            result.produced + row.produced,
            result.done + row.done,
            result.rated_ms + row.rated_ms,
            result.known_ms + row.known_ms,
            flags,
            least,
        )
    return result


def rows_by_hand(
    steps: Iterable[Step], key: SeriesKey, since_ms: int, until_ms: int, step_ms: int
) -> Sequence[KeptRow]:
    """Returns the rows that a reader must find: consecutive steps of one bucket are one row, a gap is none."""
    buckets: list[tuple[int, list[tuple[Values, bool]]]] = []
    for step in steps:
        if not since_ms <= step.time_ms < until_ms:
            continue
        at = step.keys.positions.get(key)
        values = Values() if at is None else Values(*step.columns[:, at].tolist())
        bucket = step.time_ms // step_ms
        if not buckets or buckets[-1][0] != bucket:
            buckets.append((bucket, []))
        buckets[-1][1].append((values, step.stepped))
    found = []
    for bucket, rows in buckets:
        total = np.array(summed_by_hand([values for values, _ in rows]), np.int64)
        row = row_of(bucket * step_ms, total, any(stepped for _, stepped in rows))
        if row is not None:
            found.append(row)
    return tuple(found)


def _random_values(dice: Random) -> Values:
    """One series in one step: known, stale, of unknown age, or with rates after a rewind."""
    flags = Flag.PRESENT | dice.choice([Flag.STALE, Flag.RECORDS, Flag.RECORDS | Flag.SECONDS])
    flags |= dice.choice([Flag(0), Flag.ESTIMATED, Flag.UNATTENDED])
    rated = dice.choice([0, 10_000, 10_013]) if flags & Flag.RECORDS else 0
    last = dice.choice([0, 7, dice.randrange(2**40)]) if flags & Flag.SECONDS else 0
    smallest = bool(flags & Flag.SECONDS) and dice.random() < 0.9
    return Values(
        last + dice.randrange(9) if flags & Flag.SECONDS else 0,
        last,
        dice.choice([0, dice.randrange(2**40)]) if flags & Flag.RECORDS else 0,
        dice.randrange(2**40) if rated else 0,
        dice.randrange(-(2**40), 2**40) if rated else 0,
        rated,
        10_000 if flags & Flag.SECONDS else 0,
        int(flags | (Flag.SMALLEST if smallest else 0)),
        max(0, last - dice.randrange(9)) if smallest else 0,
    )


def _random_history(dice: Random, most: int) -> list[Step]:
    steps: list[Step] = []
    time_ms = START_MS
    for _ in range(dice.randint(1, most)):
        present = dice.sample(KEYS, dice.randint(0, 4))
        steps.append(step_of(time_ms, {key: _random_values(dice) for key in present}))
        time_ms += dice.choice([10_000] * 16 + [50_000, 600_000, -40_000, -700_000, 3_600_000])
    return steps


def rows_of_one_series() -> st.SearchStrategy[list[Values]]:
    """Rows of one series; each seed is another list."""

    def made(seed: int) -> list[Values]:
        dice = Random(seed)
        return [_random_values(dice) for _ in range(dice.randint(2, 40))]

    return st.integers(0, 2**32).map(made)


def histories(most: int = 90) -> st.SearchStrategy[list[Step]]:
    """Steps with gaps, with series that come and go, and with a wall clock that steps either way."""
    return st.integers(0, 2**32).map(lambda seed: _random_history(Random(seed), most))
