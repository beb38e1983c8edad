"""Lag of one group in one partition: never negative, never NaN, 0 when done, gaps counted; and where ages come from."""

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import encode
from braid.kernel.limits.lagmon.sampling import (
    LAG_GUESS_SECONDS,
    LAG_PROBE_AGAIN_SECONDS,
    LAG_STALE_SECONDS,
    LAG_STALL_SECONDS,
)
from braid.kernel.progress.fields import Cursor, EnvelopeFields, SpillPointer
from braid.kernel.progress.ranges import Ranges
from services.lagmon.model.ends import LogEnds
from services.lagmon.model.lag import Source
from services.lagmon.policy import (
    LONG_AGO,
    Commit,
    Now,
    PartitionLag,
    PartitionProgress,
    RecordProbe,
    is_stale,
    live_seconds,
    read_lag,
    table_seconds,
    wants_probe,
)

WALL_MS = 1_700_000_000_000
NOW = Now(100.0, WALL_MS)


def committed(
    base: int,
    *done: tuple[int, int],
    oldest_age: float | None = None,
    head_age: float | None = None,
    heard_at: float = LONG_AGO,
) -> PartitionProgress:
    """Progress with an envelope; ages in seconds before `NOW`."""

    def at(age: float | None) -> int | None:
        return None if age is None else WALL_MS - round(age * 1000)

    fields = EnvelopeFields(
        base=base, done=Ranges(done), oldest_ingested_at_ms=at(oldest_age), head_ingested_at_ms=at(head_age)
    )
    encoded = encode(fields)
    return PartitionProgress(Commit(encoded.offset, encoded.metadata, WALL_MS, heard_at))


def plain(offset: int) -> PartitionProgress:
    """Progress of another tool's group."""
    return PartitionProgress(Commit(offset, "", WALL_MS, LONG_AGO))


def seen(*looks: tuple[float, int], start: int = 0) -> LogEnds:
    """Ends of a log, each with its time."""
    ends = LogEnds()
    for at, end in looks:
        ends.observe(end, at)
    ends.start = start
    return ends


# --- the checker of records, and the mutant it must catch

Lag = Callable[[PartitionProgress, LogEnds, Now], PartitionLag]


def wrong_counts(read: Lag, cases: Sequence[tuple[PartitionProgress, LogEnds]]) -> list[int]:
    """Cases in which the lag is not the number of offsets, one by one, that are in the log and not done."""
    wrong = []
    for number, (progress, ends) in enumerate(cases):
        claims = progress.commit.claims if progress.commit else Ranges()
        expected = sum(offset not in claims for offset in range(max(ends.start, 0), ends.end))
        if read(progress, ends, NOW).records != expected:
            wrong.append(number)
    return wrong


def forgets_gaps(progress: PartitionProgress, ends: LogEnds, now: Now) -> PartitionLag:
    """The mutant: Kafka's own lag, which takes done ranges beyond the offset for work."""
    offset = progress.commit.offset if progress.commit else 0
    return read_lag(progress, ends, now)._replace(records=max(0, ends.end - max(offset, ends.start)))


CASES = [
    (committed(10, (12, 15), (20, 30), oldest_age=4), seen((99.0, 40))),
    (committed(40), seen((99.0, 40))),
    (committed(0), seen((99.0, 40), start=5)),
    (plain(7), seen((99.0, 40))),
    (PartitionProgress(), seen((99.0, 40), start=3)),
]


def test_gaps_and_done_ranges_count() -> None:
    assert wrong_counts(read_lag, CASES) == []


def test_a_lag_that_forgets_gaps_is_noticed() -> None:
    assert wrong_counts(forgets_gaps, CASES) == [0]


spans = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=6)


@given(
    base=st.integers(0, 200),
    done=spans,
    looks=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 400)), max_size=6),
    start=st.integers(-1, 250),
    oldest=st.none() | st.floats(-1e6, 1e9),
    head=st.none() | st.floats(-1e6, 1e9),
    heard_at=st.just(LONG_AGO) | st.floats(0, 200),
    probe=st.none() | st.builds(RecordProbe, st.integers(0, 300), st.none() | st.integers(0, 2**52), st.floats(0, 200)),
    kind=st.sampled_from(["envelope", "plain", "garbage", "none"]),
    drained=st.booleans(),
)
def test_lag_is_never_negative_nor_nan_and_0_only_when_done(
    base: int,
    done: list[tuple[int, int]],
    looks: list[tuple[float, int]],
    start: int,
    oldest: float | None,
    head: float | None,
    heard_at: float,
    probe: RecordProbe | None,
    kind: str,
    drained: bool,
) -> None:
    beyond = [(base + 1 + at, base + 1 + at + length) for at, length in done]
    ours = committed(base, *beyond, oldest_age=oldest, head_age=head, heard_at=heard_at)
    others = {
        "plain": plain(base),
        "garbage": PartitionProgress(Commit(base, "b1:garbage", 0)),
        "none": PartitionProgress(),
        "envelope": ours,
    }
    progress = others[kind]
    progress.probe = probe
    ends = seen(*sorted(looks), start=start)
    reading = read_lag(progress, ends, NOW, drained=drained)
    assert reading.records >= 0
    assert reading.seconds >= 0 and math.isfinite(reading.seconds)
    if drained:
        assert reading == PartitionLag(0, 0.0, Source.DONE, -1, True)
    if ends.end >= 0 and not drained:
        assert wrong_counts(read_lag, [(progress, ends)]) == []
        assert (reading.records == 0) == (reading.source is Source.DONE)
    if reading.records == 0:
        assert reading.seconds == 0


# --- ages


def test_an_envelope_gives_an_exact_age_that_grows_in_an_outage() -> None:
    progress, ends = committed(10, (11, 20), oldest_age=7.25), seen((99.9, 20))
    assert read_lag(progress, ends, NOW) == PartitionLag(1, 7.25, Source.ENVELOPE, 10, True)
    later = Now(NOW.elapsed + 60, NOW.wall_ms + 60_000)
    assert read_lag(progress, ends, later).seconds == 67.25
    assert not is_stale(ends, NOW) and is_stale(ends, later)


def test_a_clock_behind_the_producers_makes_no_negative_age() -> None:
    assert read_lag(committed(0, oldest_age=-30), seen((99.0, 5)), NOW).seconds == 0


@pytest.mark.parametrize("progress", [committed(10), PartitionProgress()])
def test_a_new_record_has_an_age_between_two_looks(progress: PartitionProgress) -> None:
    """A group that keeps up is usually a few records behind its last commit: its lag is known all the same."""
    ends = seen((98.0, 9), (98.5, 10), (99.0, 14)) if progress.commit else seen((98.5, 0), (99.0, 4))
    reading = read_lag(progress, ends, NOW)
    assert (reading.records, reading.source, reading.exact) == (4, Source.ESTIMATE, False)
    assert reading.seconds == 1.375, "the first of four that came within half a second"


def test_looks_far_apart_give_no_estimate() -> None:
    ends = seen((99.0 - LAG_GUESS_SECONDS - 0.1, 10), (99.0, 12))
    assert read_lag(committed(10), ends, NOW) == PartitionLag(2, 1.0, Source.UNKNOWN, 10, False)


def test_a_backlog_present_at_the_commit_is_as_old_as_the_head() -> None:
    ends = seen((50.0, 900))
    reading = read_lag(committed(10, head_age=3_600, heard_at=99.8), ends, NOW)
    assert (reading.seconds, reading.source) == (3_600, Source.ENVELOPE)


def test_a_record_after_a_long_silence_is_not_as_old_as_the_head() -> None:
    """The group was idle for an hour: the look before the record bounds its age."""
    ends = seen((10.0, 10), (99.0, 10), (99.5, 11))
    reading = read_lag(committed(10, head_age=3_600, heard_at=99.8), ends, NOW)
    assert reading.seconds == 1.0


def test_a_record_read_for_its_time_counts_for_its_offset_alone() -> None:
    progress, ends = committed(10), seen((90.0, 12))
    progress.probe = RecordProbe(10, WALL_MS - 12_000, 95.0)
    assert read_lag(progress, ends, NOW) == PartitionLag(2, 12.0, Source.RECORD, 10, True)
    progress.probe = RecordProbe(9, WALL_MS - 12_000, 95.0)
    assert read_lag(progress, ends, NOW).source is Source.UNKNOWN


def test_a_foreign_group_gets_an_estimate_between_two_looks() -> None:
    ends = seen((80.0, 0), (90.0, 100), (99.0, 100))
    reading = read_lag(plain(49), ends, NOW)
    assert (reading.source, reading.seconds) == (Source.ESTIMATE, 15.0)
    assert read_lag(plain(100), ends, NOW).source is Source.DONE


def test_records_before_the_first_look_are_at_least_that_old() -> None:
    assert read_lag(plain(5), seen((70.0, 10)), NOW) == PartitionLag(5, 30.0, Source.UNKNOWN, 5, False)


def test_records_the_log_lost_do_not_count_or_give_an_age() -> None:
    reading = read_lag(committed(10, oldest_age=500), seen((99.0, 30), start=20), NOW)
    assert (reading.records, reading.oldest, reading.source) == (10, 20, Source.UNKNOWN)


def test_an_end_never_seen_is_not_called_done() -> None:
    reading = read_lag(committed(10, (12, 14), oldest_age=5), LogEnds(), NOW)
    assert (reading.records, reading.seconds, reading.source) == (2, 5.0, Source.ENVELOPE)
    assert read_lag(committed(10), LogEnds(), NOW).source is Source.UNKNOWN


# --- probes


@pytest.mark.parametrize(
    ("progress", "ends", "wanted"),
    [
        (committed(10, heard_at=90.0), seen((98.0, 11)), True),
        (committed(10, heard_at=NOW.elapsed - LAG_STALL_SECONDS + 0.1), seen((90.0, 11)), False),
        (committed(10, heard_at=90.0), seen((99.0, 10), (99.9, 11)), False),
        (committed(10, oldest_age=50, heard_at=10.0), seen((90.0, 11)), False),
        (committed(11, heard_at=10.0), seen((90.0, 11)), False),
        (plain(5), seen((80.0, 10), (90.0, 12)), False),
        (PartitionProgress(), seen((99.0, 10)), False),
        (PartitionProgress(), seen((98.0, 10)), True),
    ],
    ids=["stalled", "commits", "just came", "age is known", "drained", "foreign", "new", "never committed"],
)
def test_a_record_is_read_only_for_a_stalled_group(progress: PartitionProgress, ends: LogEnds, wanted: bool) -> None:
    assert wants_probe(progress, read_lag(progress, ends, NOW), ends, NOW) is wanted


def test_a_record_is_read_once_a_stall_and_much_later_if_missing() -> None:
    progress, ends = committed(10, heard_at=50.0), seen((60.0, 12))

    def wants(now: Now = NOW) -> bool:
        return wants_probe(progress, read_lag(progress, ends, now), ends, now)

    progress.probe = RecordProbe(10, WALL_MS - 40_000, 99.0)
    assert not wants()
    progress.probe = RecordProbe(10, None, 99.0)
    assert not wants()
    assert wants(Now(99.0 + LAG_PROBE_AGAIN_SECONDS, WALL_MS))
    progress.probe = RecordProbe(9, WALL_MS - 40_000, 99.0)
    assert wants()


def test_a_split_partition_has_its_backlogs_age_and_its_heads() -> None:
    def split(oldest: float | None, live_oldest: float | None, live_base: int = 500) -> PartitionProgress:
        def at(age: float | None) -> int | None:
            return None if age is None else WALL_MS - round(age * 1000)

        live = Cursor(400, live_base, oldest_ingested_at_ms=at(live_oldest), backlog_permille=200)
        fields = EnvelopeFields(
            base=100, until=400, cursors=(live,), oldest_ingested_at_ms=at(oldest), head_ingested_at_ms=at(1.0)
        )
        encoded = encode(fields)
        return PartitionProgress(Commit(encoded.offset, encoded.metadata, WALL_MS, 95.0))

    ends = seen((10.0, 500), (90.0, 510))
    reading = read_lag(split(5_000.0, 2.5), ends, NOW)
    assert (reading.records, reading.seconds, reading.source) == (310, 5_000.0, Source.ENVELOPE)
    assert live_seconds(split(5_000.0, 2.5), ends, NOW) == 2.5
    assert live_seconds(split(5_000.0, None), ends, NOW) == 10.0, "since the look that saw it first"
    assert live_seconds(split(5_000.0, None, 510), ends, NOW) == 0.0
    unknown = read_lag(split(None, None), ends, NOW)
    assert (unknown.source, unknown.exact) == (Source.UNKNOWN, False), "the head's last record tells nothing of it"
    assert unknown.seconds == 90.0
    assert live_seconds(committed(100), ends, NOW) is None and live_seconds(PartitionProgress(), ends, NOW) is None


def test_what_is_done_beyond_what_fits_a_commit_is_no_lag() -> None:
    pointer = SpillPointer(3, 77, 1, 5_000, 12, done=250)
    stated = encode(EnvelopeFields(base=100, done=Ranges([(120, 150)]), spill=pointer))
    progress = PartitionProgress(Commit(stated.offset, stated.metadata, WALL_MS, 95.0))
    assert read_lag(progress, seen((10.0, 500)), NOW).records == 400 - 30 - 250
    assert read_lag(progress, seen((10.0, 160)), NOW).records == 1, "never none while a record is undone"


def test_a_seals_canary_is_no_lag() -> None:
    progress, ends = committed(10), seen((90.0, 11))
    progress.no_records = Ranges(((10, 11),))
    assert read_lag(progress, ends, NOW).source is Source.DONE


def test_staleness_begins_after_its_bound() -> None:
    ends = seen((50.0, 1))
    assert not is_stale(ends, Now(50.0 + LAG_STALE_SECONDS, 0))
    assert is_stale(ends, Now(50.1 + LAG_STALE_SECONDS, 0))
    assert is_stale(LogEnds(), NOW)


def test_a_table_that_takes_long_to_compute_is_good_for_longer() -> None:
    assert table_seconds(0.1, 0.0) == 0.1
    assert table_seconds(0.1, 0.04) == 0.1
    assert table_seconds(0.1, 1.5) == 3.0, "at most a third of all time goes into tables"
    assert table_seconds(5.0, 1.5) == 5.0
