"""Values built from decoded columns (rows, Arrow) equal those of the records, whatever they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.records import arrow
from braid.client.records.arrow import header_maps
from braid.client.records.braid_headers import MARKS, ingestion_time, ingestion_times
from braid.client.records.intake_filter import weights_bytes
from braid.client.records.record import rows_of
from braid.kafka.batches.batch import columns_in, read_frame, reader_of
from braid.kernel.ports import KafkaRecord
from braid.kernel.record_columns import RecordColumns, columns_of
from tests.unit.kafka.batches.columns_beside_records import Given, made, rows
from tests.unit.kafka.batches.test_columns import columns_of_small_batches

assert columns_of_small_batches is not None, "a fixture for all tests here, too"


def both(data: bytes) -> tuple[RecordColumns | None, list[KafkaRecord]]:
    """A batch as columns, where it can be read so, and as records."""
    frame = read_frame(memoryview(data), 0)
    assert frame is not None
    return columns_in([(frame, frame.raw)], MARKS), list(reader_of(frame, frame.raw))


def same(columns: RecordColumns, records: list[KafkaRecord]) -> None:
    """Rows and maps of the columns against the records."""
    times = ingestion_times(columns, columns.headers[0])
    found = list(rows_of(columns, times, weights_bytes(columns)))
    assert [(row.offset, row.timestamp, row.timestamp_type, row.key, row.value) for row in found] == [
        (each.offset, each.timestamp, each.timestamp_type, each.key, each.value) for each in records
    ]
    assert [list(row.headers) for row in found] == [list(each.headers) for each in records]
    assert [row.ingested_at for row in found] == [ingestion_time(each) for each in records]
    for row in found:
        assert row.size == 256 + len(row.key or b"") + len(row.value or b"") + 128 * len(row.headers)
    assert header_maps(columns).to_pylist() == [list(each.headers) for each in records]


@given(st.lists(rows, min_size=1, max_size=20), st.integers(0, 1 << 40))
def test_rows_and_maps_of_any_batch(given_rows: list[Given], base: int) -> None:
    columns, records = both(made(given_rows, base, 0))
    objects = columns_of(records, MARKS)
    if columns is not None:  # all that is unusual is read one by one
        same(columns, records)
    assert [list(row.headers) for row in rows_of(objects, objects.timestamps, objects.offsets)] == [
        list(each.headers) for each in records
    ]


@given(st.data())
def test_records_laid_out_alike_but_for_some(data: st.DataObject) -> None:
    """Records as our own producer writes them: the same names, values of nearly the same sizes."""
    count = data.draw(st.integers(1, 300))
    first = data.draw(st.integers(0, 1_200))
    odd = data.draw(st.sets(st.integers(0, count - 1), max_size=3))
    empty = data.draw(st.booleans())

    def headers(at: int) -> list[tuple[str, bytes | None]]:
        if at in odd:
            return [("braid-id", None), ("braid-ts", b"soon")]
        return [("braid-id", b"01A:%d" % (first + at)), ("braid-ts", b"1700000000000"), ("e", b"" if empty else b"x")]

    given_rows: list[Given] = [(1, at, b"%d" % at, bytes(100), headers(at)) for at in range(count)]
    columns, records = both(made(given_rows, 7, 0))
    assert columns is not None
    same(columns, records)
    half = columns.of(slice(count // 2, None))
    if len(half):
        same(half, records[count // 2 :])


def test_maps_that_trusted_the_first_layout_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it is the comparison with the first that keeps them right."""
    first: Given = (1, 0, None, b"v", [("a", b"1"), ("bb", b"2")])
    other: Given = (1, 1, None, b"v", [("aa", b"1"), ("b", b"2")])
    columns, records = both(made([first, other], 0, 0))
    assert columns is not None
    same(columns, records)
    shape_of = arrow._shape_of

    def loose(tail: bytes) -> object:
        shape = shape_of(tail)
        assert shape is not None
        return shape._replace(fixed=shape.fixed * 0)

    monkeypatch.setattr(arrow, "_shape_of", loose)
    with pytest.raises(AssertionError):
        same(columns, records)
