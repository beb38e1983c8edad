"""Predicates on columns say what they would say of each record, and what they skip counts as done, unseen."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.records import intake_filter
from braid.client.records.braid_headers import ingestion_time, ingestion_times
from braid.client.records.where import Where, chosen_by, headers_asked
from braid.kafka.batches.batch import columns_in, read_frame, reader_of
from braid.kafka.memory.log import MemoryRecord, NewRecord
from braid.kernel.errors import Invalid
from braid.kernel.ports import KafkaRecord, TopicPartition
from braid.kernel.progress.ranges import Ranges
from braid.kernel.record_columns import RecordColumns, columns_of
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take
from tests.unit.kafka.batches.columns_beside_records import Given, made, rows
from tests.unit.kafka.batches.test_columns import columns_of_small_batches

assert columns_of_small_batches is not None, "a fixture for all tests here, too"
PLACE = TopicPartition(TOPIC, 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

moments = st.one_of(st.none(), st.sampled_from([EPOCH + timedelta(seconds=s) for s in (0, 1, 2, 1_700_000_000)]))
wheres = st.builds(
    lambda headers, prefix, lanes, since, until_: Where(
        headers, prefix, lanes, since, until_ if since is None or until_ is None or since < until_ else None
    ),
    st.dictionaries(
        st.sampled_from(["braid-id", "braid-ts", "n", "absent"]),
        st.sampled_from([b"", b"01A:12", b"1700000000000", b"x" * 63]),
        max_size=2,
    ),
    st.sampled_from([b"", b"x", b"x" * 63, b"\x00"]),
    st.sampled_from([(), ("live",), ("bulk",), ("bulk", "live")]),
    moments,
    moments,
)


def plainly(where: Where, record: KafkaRecord) -> bool:
    """The same predicate, of one record of lane `live`."""
    last = dict(record.headers)
    time = EPOCH + timedelta(milliseconds=min(max(ingestion_time(record), -(1 << 45)), 1 << 45))
    return (
        all(last.get(name) == value for name, value in where.headers.items())
        and (record.key or b"").startswith(where.key_prefix)
        and (not where.lanes or "live" in where.lanes)
        and (where.since is None or time >= where.since)
        and (where.until is None or time < where.until)
    )


def chosen_of(where: Where, columns: RecordColumns) -> list[bool]:
    found: list[bool] = chosen_by(where, columns, ingestion_times(columns, columns.headers[0]), "live", 7).tolist()
    return found


@given(st.lists(rows, min_size=1, max_size=20), wheres)
def test_columns_and_records_are_chosen_alike(given_rows: list[Given], where: Where) -> None:
    data = made(given_rows, 5, 0)
    frame = read_frame(memoryview(data), 0)
    assert frame is not None
    records = list(reader_of(frame, frame.raw))
    expected = [plainly(where, record) for record in records]
    assert chosen_of(where, columns_of(records, headers_asked(where))) == expected
    columns = columns_in([(frame, frame.raw)], headers_asked(where))
    if columns is not None:
        assert chosen_of(where, columns) == expected


@given(st.integers(0, 1 << 50), st.floats(0.01, 1.0), st.integers(0, 1 << 32))
def test_a_sample_is_as_large_as_it_says_and_the_same_each_time(base: int, part: float, salt: int) -> None:
    offsets = np.arange(base, base + 4_000)
    columns = columns_of(
        [MemoryRecord(offset, 0, 0, None, None, ()) for offset in offsets.tolist()], headers_asked(None)
    )
    where = Where(sampled=part)
    chosen = chosen_by(where, columns, columns.timestamps, "live", salt)
    assert abs(int(np.count_nonzero(chosen)) - 4_000 * part) <= 200  # six standard deviations at a half
    half = columns.of(slice(1_000, 3_000))
    assert (chosen_by(where, half, half.timestamps, "live", salt) == chosen[1_000:3_000]).all()


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("where.headers", {"headers": {"h": "text"}}),
        ("where.headers", {"headers": {"ü": b""}}),
        ("where.headers", {"headers": {str(n): b"" for n in range(9)}}),
        ("where.lanes", {"lanes": "live"}),
        ("where.lanes", {"lanes": ["Live"]}),
        ("where.since", {"since": datetime(2026, 1, 1)}),  # noqa: DTZ001 - without a zone, on purpose
        ("where.since", {"since": EPOCH, "until": EPOCH}),
        ("where.sampled", {"sampled": 0.0}),
        ("where.sampled", {"sampled": 1.5}),
    ],
)
def test_what_makes_no_sense_is_refused_by_field(field: str, settings: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        Where(**settings)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.field == field


# --- in a consumer


def fill_kinds(at: Bench, count: int) -> None:
    """Every third record is of kind a, the others of kind b."""
    now_ms = at.control.process.clock.now_ms()
    records = [
        NewRecord(now_ms, b"%d" % n, b"v", (("braid-ts", b"%d" % now_ms), ("kind", b"a" if n % 3 == 0 else b"b")))
        for n in range(count)
    ]
    at.control.clusters["east"].append(PLACE, records)
    for offset in range(count):
        if offset % 3:
            at.watch.done("east", TOPIC, 0, offset)  # skipped: to be claimed without a sink


@virtual
async def test_skipped_records_are_done_in_the_envelope_others_are_not() -> None:
    async with bench() as at:
        fill_kinds(at, 300)
        async with member(at, "m", FIRST, where=Where(headers={"kind": b"a"})) as (consumer, _):
            records = await take(consumer, 100)
            assert [record.offset for record in records] == list(range(0, 300, 3))
            for record in records:
                if record.offset != 90:
                    at.sunk(record)
                    record.ack()
            await until(lambda: at.watch.base(TOPIC) == 90)
            assert at.watch.last(TOPIC).fields.done == Ranges([(91, 300)])
            assert consumer.leases()[0].skipped == 200
            killed(consumer)
        async with member(at, "n", FIRST) as (consumer, _):  # another one, without a predicate: nothing comes again
            assert [record.offset for record in await take(consumer, 2, seconds=1.0)] == [90]
            killed(consumer)


@virtual
async def test_a_stretch_with_nothing_wanted_is_passed_and_committed() -> None:
    async with bench() as at:
        fill_kinds(at, 300)
        for offset in range(0, 300, 3):
            at.watch.done("east", TOPIC, 0, offset)
        async with member(at, "m", FIRST, where=Where(headers={"kind": b"c"})) as (consumer, _):
            assert await consumer.take(2.0) is None
            await until(lambda: at.watch.base(TOPIC) == 300)
            assert (consumer.leases()[0].skipped, consumer.in_flight_bytes) == (300, 0)


@virtual
async def test_batches_hold_what_is_wanted_only() -> None:
    async with bench() as at:
        fill_kinds(at, 300)
        async with member(at, "m", FIRST, where=Where(key_prefix=b"1", headers={"kind": b"a"})) as (consumer, _):
            seen: list[int] = []
            expected = [n for n in range(0, 300, 3) if str(n).startswith("1")]
            async for batch in consumer.batches():
                seen += batch.records.column("offset").to_pylist()
                if len(seen) >= len(expected):
                    break
            assert seen == expected
            killed(consumer)


def test_a_predicate_that_forgets_what_it_let_through_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: were wanted records passed like skipped ones, they would be claimed and not done."""
    monkeypatch.setattr(intake_filter, "chosen_by", lambda where, part, *about: np.zeros(len(part), np.bool_))

    @virtual
    async def run() -> None:
        async with bench() as at:
            fill_kinds(at, 30)
            async with member(at, "m", FIRST, where=Where(headers={"kind": b"a"})) as (consumer, _):
                await asyncio.sleep(2.0)
                killed(consumer)
            assert at.watch.untrue
            at.watch.untrue.clear()

    run()
