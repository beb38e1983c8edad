"""Columns say of every row what the policy says of it alone."""

import math
import random
from collections import Counter

import numpy as np

from braid.kernel.envelope import encode
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import Cursor, EnvelopeFields, SpillPointer
from braid.kernel.progress.ranges import Ranges
from services.lagmon.columns.progress import Kind, PairName
from services.lagmon.columns.readings import read_rows, stale_rows
from services.lagmon.domain import ClusterModel
from services.lagmon.model.lag import Source
from services.lagmon.policy import LONG_AGO, Now, is_stale, live_seconds, read_lag, wants_probe
from tests.unit.lagmon.columns.rows import Said, commits

NOW = Now(40.0, 1_700_000_000_000)
ROWS = 3_000  # each with a log of its own
SEED = 11
ENVELOPE_BYTES = 40  # too few for many ranges: what is left out is in a record elsewhere


def ingested(dice: random.Random) -> int | None:
    return dice.choice([None, NOW.wall_ms - dice.randrange(-2_000, 39_000)])


def envelope(dice: random.Random) -> Said:
    """A member's commit: in order, with ranges done beyond it, with most of it elsewhere, or split."""
    base = dice.randrange(12)
    ranges = dice.choice([0, 0, 1, 2, 9])
    done = Ranges((start, start + 2) for start in (base + dice.randrange(1, 40) for _ in range(ranges)))
    split = not ranges and dice.random() < 0.3
    fields = EnvelopeFields(
        base,
        done,
        until=base + 10 if split else None,
        cursors=(Cursor(base + 10, base + 11, oldest_ingested_at_ms=ingested(dice)),) if split else (),
        oldest_ingested_at_ms=ingested(dice),
        head_ingested_at_ms=ingested(dice),
    )
    spill = SpillPointer(0, 5, 0, 10, 77) if ranges > 2 else None
    encoded = encode(fields, ENVELOPE_BYTES if spill else 4_000, ascii_only=spill is not None, spill=spill)
    return encoded.offset, encoded.metadata


def plain(dice: random.Random) -> Said:
    return dice.randrange(-1, 24), dice.choice(["", "", "b", "x1", "b9:later", "b1:damaged"])


def scene(dice: random.Random) -> ClusterModel:
    """Rows of all kinds, beside logs that were looked at now and then, cut, and read for a record's time."""
    model = ClusterModel("east")
    for number in range(ROWS):
        said = envelope(dice) if dice.random() < 0.6 else plain(dice)
        heard_at = dice.choice([LONG_AGO, dice.uniform(0, 40)])
        model.take(0, commits({("g", "t", number): said}), heard_at)
        log, end = TopicPartition("t", number), dice.randrange(12)
        for at in sorted(dice.uniform(0, 40) for _ in range(dice.randrange(6))):
            model.observe({log: end}, at)
            end += dice.choice([0, 1, 5, 30])
        model.observe_starts({log: dice.choice([-1, 0, dice.randrange(16)])})
    for number in range(0, ROWS, 3):
        log = TopicPartition("t", number)
        for offset in dice.sample(range(16), 4):
            if number % 2:
                model.probed(log, offset, ingested(dice), dice.uniform(20, 40))
            else:
                model.no_record(log, offset)
    return model


def test_columns_read_each_row_as_the_policy_reads_it_alone() -> None:
    model = scene(random.Random(SEED))
    known, ends, rows = model.progress, model.ends, model.progress.rows()
    found, stale = read_rows(known, ends, rows, np.zeros(len(rows), np.bool_), NOW), stale_rows(known, ends, rows, NOW)
    met: Counter[object] = Counter()
    for at, row in enumerate(rows.tolist()):
        progress, log = known.progress_of(row), ends.log_ends(int(known["log"][row]))
        alone = read_lag(progress, log, NOW)
        live = live_seconds(progress, log, NOW) if alone.records else None
        assert (found.records[at], found.source[at], found.oldest[at]) == (alone.records, alone.source, alone.oldest)
        assert math.isclose(found.seconds[at], alone.seconds, abs_tol=1e-9)
        assert found.probe[at] == wants_probe(progress, alone, log, NOW)
        assert stale[at] == is_stale(log, NOW)
        assert live == (None if math.isnan(found.live[at]) else found.live[at])
        kind, fields = Kind(int(known["kind"][row])), progress.commit.fields if progress.commit else None
        met.update([(kind, alone.source), ("probe", bool(found.probe[at]))])
        if kind is Kind.SIMPLE and alone.records and fields is not None:
            met["elsewhere"] += fields.spill is not None and fields.spill.done > 0
            met["expired"] += log.start > fields.base and fields.oldest_ingested_at_ms is not None
    simple = [Source.ENVELOPE, Source.RECORD, Source.UNKNOWN]
    wanted = [(Kind.SIMPLE, source) for source in simple] + [
        (Kind.PLAIN, Source.ESTIMATE),
        (Kind.RICH, Source.ENVELOPE),
    ]
    assert all(met[each] > 10 for each in [*wanted, ("probe", True), "elsewhere", "expired"]), met


def test_an_expected_group_without_a_commit_is_read_so_too() -> None:
    model = ClusterModel("east")
    known = model.progress
    rows = known.add(
        np.full(3, known.pair_number(PairName("g", "t"))), np.arange(3), model.ends.numbers("t", [0, 1, 2])
    )
    model.observe({TopicPartition("t", 0): 9, TopicPartition("t", 1): 0}, 30.0)
    found = read_rows(known, model.ends, rows, np.zeros(3, np.bool_), NOW)
    for at, row in enumerate(rows.tolist()):
        progress, log = known.progress_of(row), model.ends.log_ends(int(known["log"][row]))
        alone = read_lag(progress, log, NOW)
        assert (found.records[at], found.source[at], found.oldest[at]) == (alone.records, alone.source, alone.oldest)
        assert (found.seconds[at], found.probe[at]) == (alone.seconds, wants_probe(progress, alone, log, NOW))
