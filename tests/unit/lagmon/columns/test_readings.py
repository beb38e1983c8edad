"""Columns say of every row what the policy says of it alone."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import encode
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import Cursor, EnvelopeFields, SpillPointer
from braid.kernel.progress.ranges import Ranges
from services.lagmon.columns.readings import read_rows, stale_rows
from services.lagmon.domain import ClusterModel
from services.lagmon.policy import LONG_AGO, Now, is_stale, live_seconds, read_lag, wants_probe
from tests.unit.lagmon.columns.rows import Said, commits

WALL_MS = 1_700_000_000_000
offsets = st.integers(0, 12)
ages = st.none() | st.integers(WALL_MS - 9_000, WALL_MS + 2_000)


@st.composite
def envelopes(draw: st.DrawFn) -> tuple[int, str]:
    """A member's commit: in order, with ranges done beyond it, with most of it elsewhere, or split."""
    base = draw(offsets)
    done = Ranges((start, start + 2) for start in draw(st.lists(st.integers(base + 1, base + 9), max_size=2)))
    cursors = (Cursor(base + 20, base + 21),) if draw(st.booleans()) else ()
    fields = EnvelopeFields(
        base,
        done,
        until=base + 20 if cursors else None,
        cursors=cursors,
        oldest_ingested_at_ms=draw(ages),
        head_ingested_at_ms=draw(ages),
    )
    spill = SpillPointer(0, 5, 0, 10, 77, 0) if draw(st.booleans()) and not cursors else None
    encoded = encode(fields, spill=spill)
    return encoded.offset, encoded.metadata


commit_values: st.SearchStrategy[Said] = st.one_of(
    envelopes(), st.tuples(st.integers(-1, 12), st.sampled_from(["", "b", "x1", "b9:later", "b1:damaged"]))
)
looks = st.lists(st.tuples(st.floats(0.0, 30.0, width=16), st.integers(0, 24)), max_size=6)


@given(
    said=st.dictionaries(st.integers(0, 3), commit_values, min_size=1),
    looked=st.lists(looks, min_size=4, max_size=4),
    starts=st.lists(st.integers(-1, 8), min_size=4, max_size=4),
    heard_at=st.just(LONG_AGO) | st.floats(0.0, 40.0, width=16),
    probed=st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(WALL_MS - 9_000, WALL_MS))),
    nobodys=st.sets(st.integers(0, 3)),
)
def test_columns_read_each_row_as_the_policy_reads_it_alone(
    said: dict[int, Said],
    looked: list[list[tuple[float, int]]],
    starts: list[int],
    heard_at: float,
    probed: list[tuple[int, int | None]],
    nobodys: set[int],
) -> None:
    model, now = ClusterModel("east"), Now(40.0, WALL_MS)
    model.take(0, commits({("g", "t", number): value for number, value in said.items()}), heard_at)
    logs = [TopicPartition("t", number) for number in range(4)]
    for name, seen, start in zip(logs, looked, starts, strict=True):
        for at, end in sorted(seen):
            model.observe({name: end}, at)
        model.observe_starts({name: start})
    known, ends, rows = model.progress, model.ends, model.progress.rows()
    for number, ms in probed:
        for offset in range(24):
            model.probed(logs[number], offset, ms, 20.0 + number * 9.9)
    for number in nobodys:
        for offset in range(3):
            model.no_record(logs[number], offset)
    found, stale = read_rows(known, ends, rows, np.zeros(len(rows), np.bool_), now), stale_rows(known, ends, rows, now)
    for at, row in enumerate(rows.tolist()):
        progress, log = known.progress_of(row), ends.log_ends(int(known["log"][row]))
        reading = read_lag(progress, log, now)
        assert (found.records[at], found.source[at], found.oldest[at]) == (
            reading.records, reading.source, reading.oldest,
        )  # fmt: skip
        assert math.isclose(found.seconds[at], reading.seconds, abs_tol=1e-9)
        assert found.probe[at] == wants_probe(progress, reading, log, now)
        assert stale[at] == is_stale(log, now)
        live = live_seconds(progress, log, now) if reading.records else None
        assert live == (None if math.isnan(found.live[at]) else found.live[at])
