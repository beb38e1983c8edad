"""Rows: columns say where a record lies and what its headers say; done and foreign rows are left out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from braid.client.records.where import Where, chosen_by, headers_asked, salt_of
from braid.kernel.errors import Invalid
from braid.kernel.ids import LeaseId
from braid.kernel.record_columns import columns_of
from braid.spark.plan import LogRange
from braid.spark.rows import SCHEMA, RowBuilder, column_headers
from braid.spark.source import BraidDataSource
from braid.spark.writer import check_frame, outgoing_rows

LOG = LogRange(LeaseId.parse("logs/live/3/2"), "east", "127.0.0.1:1", "", "braid.logs.live.3", 0, 100)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


class Raw(NamedTuple):
    offset: int
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp: int = NOON_MS
    timestamp_type: int = 0


def build(
    raws: Sequence[Raw], *, group: str = "", headers: bool = False, log: LogRange = LOG, where: Where | None = None
) -> pa.RecordBatch:
    """The rows; without headers, columns have to make the same, in one part and in several."""
    builder = RowBuilder(log, group=group, include_headers=headers, where=where)
    found = builder.build(raws)
    found.validate(full=True)
    if not headers:
        for size in (max(1, len(raws)), 2):
            parts = [columns_of(raws[at : at + size], column_headers(where)) for at in range(0, len(raws), size)]
            same = builder.build_columns(parts)
            same.validate(full=True)
            assert same.equals(found)
    return found


def test_a_row_says_where_its_record_lies() -> None:
    ours = [("braid-id", b"01ABC:7"), ("braid-ts", b"%d" % (NOON_MS + 5)), ("n", b"1")]
    (row,) = build([Raw(41, ours)], headers=True).to_pylist()
    assert (row["stream"], row["lane"], row["cluster"]) == ("logs", "live", "east")
    assert (row["topic"], row["partition"], row["offset"]) == ("braid.logs.live.3", 2, 41)
    assert (row["timestamp"], row["ingested_at"]) == (NOON, NOON.replace(microsecond=5_000))
    assert (row["id"], row["key"], row["value"], row["timestamp_type"]) == ("01ABC:7", b"k", b"v", 0)
    assert row["headers"] == [{"key": name, "value": value} for name, value in ours]


def test_a_foreign_record_has_no_id_and_its_own_ingestion_time() -> None:
    (row,) = build([Raw(0, key=None, value=None)]).to_pylist()
    assert (row["id"], row["key"], row["value"], row["headers"]) == (None, None, None, None)
    assert row["ingested_at"] == NOON


def test_strange_headers_and_times_do_no_harm() -> None:
    strange = [("braid-id", b"\xff\xfe"), ("braid-ts", b"soon")]
    (first, second) = build([Raw(0, strange, timestamp=-1), Raw(1, [("braid-ts", b"9" * 40)])]).to_pylist()
    assert (first["timestamp"], first["ingested_at"], first["id"]) == (None, None, "��")
    assert second["ingested_at"] == NOON


def test_marks_that_are_null_count_as_none() -> None:
    """Kafka's headers may be null, and other tools write what they like."""
    nulls: Any = [("braid-id", None), ("braid-ts", None), ("braid-replay-group", None)]
    rows = build([Raw(0, nulls), Raw(1, [("braid-ts", b"")]), Raw(2, [("braid-replay-group", b"")])], group="g")
    assert [(row["id"], row["ingested_at"]) for row in rows.to_pylist()] == [(None, NOON)] * 3


texts = st.one_of(st.none(), st.binary(max_size=20))
marked = st.lists(
    st.one_of(
        st.tuples(st.just("braid-id"), st.sampled_from([b"01A:7", b"", "é".encode(), b"\xff"])),
        st.tuples(
            st.just("braid-ts"),
            st.one_of(
                st.integers(0, 10**17).map(lambda ms: b"%d" % ms), st.sampled_from([b"", b"-1", b"1x", b"00012"])
            ),
        ),
        st.tuples(st.just("braid-replay-group"), st.sampled_from([b"mine", b"yours", b""])),
        st.tuples(st.just("other"), texts),
    ),
    max_size=4,
    unique_by=lambda header: header[0],
)


@given(
    raws=st.lists(st.tuples(marked, texts, texts, st.integers(-2, 10**13), st.integers(0, 1)), max_size=9),
    group=st.sampled_from(["", "mine"]),
    skip=st.sampled_from([(), (0, 1), (2, 5, 7, 9), (0, 99)]),
)
def test_columns_make_the_same_rows(raws: list[Any], group: str, skip: tuple[int, ...]) -> None:
    log = LogRange(LOG.lease, LOG.cluster, LOG.bootstrap, "", LOG.topic, 0, 100, skip)
    build([Raw(offset, *raw) for offset, raw in enumerate(raws)], group=group, log=log)


def test_columns_are_what_spark_expects() -> None:
    wanted = to_arrow_schema(SCHEMA, timezone="UTC")
    assert build([Raw(0)]).schema.equals(wanted)
    assert build([]).schema.equals(wanted)


def test_done_ranges_are_left_out() -> None:
    log = LogRange(LOG.lease, LOG.cluster, LOG.bootstrap, "", LOG.topic, 0, 10, (2, 5, 8, 9))
    found = build([Raw(offset) for offset in range(10)], log=log)
    assert found.column("offset").to_pylist() == [0, 1, 5, 6, 7, 9]


def test_a_group_skips_other_groups_replays_and_a_batch_does_not() -> None:
    raws = [Raw(0), Raw(1, [("braid-replay-group", b"mine")]), Raw(2, [("braid-replay-group", b"yours")])]
    assert build(raws, group="mine").column("offset").to_pylist() == [0, 1]
    assert build(raws, group="").column("offset").to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        (Where(headers={"kind": b"order"}), [1, 3]),
        (Where(headers={"braid-id": b"01ABC:7"}), [3]),
        (Where(key_prefix=b"eu-"), [2, 3]),
        (Where(since=NOON.replace(microsecond=5_000)), [1]),
        (Where(until=NOON.replace(microsecond=5_000), key_prefix=b"eu-"), [2, 3]),
        (Where(lanes=["bulk"]), []),
    ],
)
def test_what_a_predicate_does_not_choose_is_no_row(where: Where, offsets: list[int], headers: bool) -> None:
    order = ("kind", b"order")
    raws = [
        Raw(0, [("kind", b"orders")]),
        Raw(1, [order, ("braid-ts", b"%d" % (NOON_MS + 5))]),
        Raw(2, key=b"eu-1"),
        Raw(3, [order, ("braid-id", b"01ABC:7")], key=b"eu-2"),
    ]
    assert build(raws, where=where, headers=headers).column("offset").to_pylist() == offsets


def test_a_sample_is_the_sdks() -> None:
    raws = [Raw(offset) for offset in range(1_000)]
    where = Where(sampled=0.3)
    part = columns_of(raws, headers_asked(where))
    times = np.full(len(raws), NOON_MS)
    chosen = chosen_by(where, part, times, LOG.lease.channel.lane, salt_of(LOG.lease))
    assert build(raws, where=where).column("offset").to_pylist() == np.flatnonzero(chosen).tolist()
    assert 200 < chosen.sum() < 400


def test_constant_columns_are_reused_for_batches_of_any_length() -> None:
    builder = RowBuilder(LOG, group="", include_headers=False)
    for count in (3, 7, 2):
        found = builder.build([Raw(offset) for offset in range(count)])
        assert found.column("topic").to_pylist() == ["braid.logs.live.3"] * count


def test_columns_of_ones_own_choice_are_refused() -> None:
    source = BraidDataSource({"endpoint": "127.0.0.1:1", "stream": "logs"})
    with pytest.raises(Invalid, match="schema"):
        source.reader(StructType([StructField("value", StringType())]))


def test_a_frame_is_checked_before_it_is_written() -> None:
    check_frame(SCHEMA)
    check_frame(StructType([StructField("value", StringType())]))
    for fields, column in (
        ([StructField("key", StringType())], "value"),
        ([StructField("value", IntegerType())], "value"),
        ([StructField("value", StringType()), StructField("key", IntegerType())], "key"),
        ([StructField("value", StringType()), StructField("lane", IntegerType())], "lane"),
        ([StructField("value", StringType()), StructField("headers", StringType())], "headers"),
    ):
        with pytest.raises(Invalid) as raised:
            check_frame(StructType(fields))
        assert raised.value.field == column
        assert raised.value.remedy


def test_appending_is_all_a_write_can_do() -> None:
    source = BraidDataSource({"endpoint": "127.0.0.1:1", "stream": "logs"})
    with pytest.raises(Invalid, match="append"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=True)


def test_rows_become_records_without_braids_own_headers() -> None:
    rows = build([Raw(0, [("braid-id", b"01A:1"), ("n", b"1")]), Raw(1, key=None, value=None)], headers=True)
    first, second = outgoing_rows(rows, "")
    assert (first.value, first.key, first.lane, first.headers) == (b"v", b"k", "live", {"n": b"1"})
    assert (second.value, second.key) == (None, None)
    text = pa.RecordBatch.from_pylist([{"value": "é", "key": "k"}])
    assert outgoing_rows(text, "bulk")[0][:3] == ("é".encode(), b"k", "bulk")
