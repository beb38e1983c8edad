"""Columns say what the records say, of any batch, at any limit; of a hostile one they never say more."""

import struct
from typing import Any, Final

import numpy as np
import pytest
from aiokafka.record._crecords.cutil import crc32c_cython
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.batches import batch as batch_module
from braid.kafka.batches import columns as columns_module
from braid.kafka.batches import uniform_records as alike_module
from braid.kafka.batches.batch import DAMAGE, Inflater, columns_in, read_frame, reader_of
from braid.kernel.record_columns import columns_of
from testbed.batches import CODECS, batch, packed, raw_batch, varint
from tests.unit.kafka.batches.columns_beside_records import (
    NAMES,
    Given,
    chunk_of,
    made,
    payload,
    record,
    rows,
    rows_of_columns,
    rows_of_records,
    same_both_ways,
)

_APPENDED: Final = 0x08
_CONTROL: Final = 0x20
_COUNT_AT: Final = 57
_HEAD_BYTES: Final = 61


@pytest.fixture(autouse=True)
def columns_of_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise only large ones would be decoded as columns."""
    monkeypatch.setattr(batch_module, "COLUMN_RECORDS_MIN", 1)


@given(
    batches=st.lists(
        st.tuples(st.lists(rows, min_size=1, max_size=40), st.integers(0, 4), st.sampled_from([0, _APPENDED])),
        min_size=1,
        max_size=3,
    ),
    gap=st.integers(0, 2),
    skip=st.integers(0, 60),
    limit=st.integers(1, 50),
)
def test_columns_say_what_records_say(
    batches: list[tuple[list[Given], int, int]], gap: int, skip: int, limit: int
) -> None:
    data, base = b"", 0
    for given_rows, codec, flags in batches:
        data += made(given_rows, base, codec | flags, spare=gap)
        base += payload(given_rows)[1] + gap
    assert len(same_both_ways(data, min(skip, base - 1), limit)) <= sum(len(each[0]) for each in batches)


@given(
    size=st.integers(1, 300),
    count=st.integers(1, 200),
    others=st.dictionaries(st.integers(0, 199), st.integers(0, 300)),
)
def test_records_of_one_size_and_others_between_are_all_found(size: int, count: int, others: dict[int, int]) -> None:
    given_rows: list[Given] = [(1, 0, None, bytes(others.get(at, size)), []) for at in range(count)]
    data = made(given_rows, 5, 0)
    frame = read_frame(memoryview(data), 0)
    assert frame is not None
    columns = columns_in([(frame, frame.raw)], NAMES)
    assert columns is not None, "an honest batch is not read one by one"
    assert columns.values.sizes.tolist() == [others.get(at, size) for at in range(count)]
    assert len(same_both_ways(data, 5)) == count


def test_the_writers_batches_are_not_read_one_by_one() -> None:
    for codec in CODECS:
        given_rows: list[Given] = [
            (
                1,
                at // 5,
                b"k%d" % (at % 50),
                bytes(100),
                [("braid-id", b"01A:%d" % at), ("braid-ts", b"17"), ("t", b"")],
            )
            for at in range(3_000)
        ]
        taken = chunk_of(made(given_rows, 0, codec)).take_columns(10_000, Inflater(), NAMES)
        (part,) = taken.parts
        assert (len(part), taken.next_offset) == (3_000, 3_000)
        assert len(part.data) > 100 * 3_000, "the cells lie in the batch itself"
        assert part.cell(part.headers[0], 2_999) == b"01A:2999"


def test_small_batches_are_put_together() -> None:
    data = b"".join(batch(base, 5, base % 5) for base in range(0, 100, 5))
    first, *others = chunk_of(data, 7).take_columns(60, Inflater(), NAMES).parts
    assert len(first) == 58, "twelve batches, without what lies before the start"
    assert [at for part in (first, *others) for at in part.offsets.tolist()] == list(range(7, 67))
    hole = batch(0, 5) + raw_batch(5, 5, b"no records") + batch(10, 5)
    assert [row[0] for row in same_both_ways(hole)] == [*range(5), *range(10, 15)]


@given(kinds=st.lists(st.integers(0, 5), min_size=1, max_size=8), limit=st.integers(1, 30), start=st.integers(0, 30))
def test_batches_of_all_kinds_beside_each_other(kinds: list[int], limit: int, start: int) -> None:
    data = b""
    for at, kind in enumerate(kinds):
        base = at * 6
        aborted = bytearray(batch(base, 5))
        aborted[21:23] = struct.pack(">h", 0x10)
        aborted[43:51] = struct.pack(">q", 7)
        flipped = bytearray(batch(base, 5))
        flipped[-1] ^= 1
        data += [
            batch(base, 5),
            batch(base, 6, 3),
            _checked(aborted),
            raw_batch(base, 5, b"noise"),
            raw_batch(base, 1, record(0, 0, b"\x00\x00\x00\x01", bytes(6), []), _CONTROL | 0x10),
            bytes(flipped),
        ][kind]
    same_both_ways(data, start, limit)
    same_both_ways(data, start, limit, suspect=start)


def test_of_several_headers_of_a_name_the_last_one_counts() -> None:
    given_rows: list[Given] = [(1, 0, None, b"v", [("n", b"1"), ("n", b"2"), ("m", b"3")])] * 3
    assert [row[-1] for row in same_both_ways(made(given_rows, 0, 0))] == [b"2"] * 3


def test_records_and_columns_may_be_taken_in_turns() -> None:
    chunk = chunk_of(batch(0, 20) + batch(20, 20))
    offsets: list[int] = []
    for turn in range(8):
        if turn % 2:
            offsets += (record.offset for record in chunk.take(5, Inflater()).records)
        else:
            offsets += (at for part in chunk.take_columns(5, Inflater(), NAMES).parts for at in part.offsets.tolist())
    assert offsets == list(range(40))


def test_other_names_may_be_asked_for_within_a_batch() -> None:
    chunk = chunk_of(made([(1, 0, None, b"v", [("a", b"1"), ("b", b"2")])] * 4, 0, 0))
    for name, wanted in (("a", b"1"), ("b", b"2"), ("c", None)):
        (part,) = chunk.take_columns(1, Inflater(), [name]).parts
        assert part.cell(part.headers[0], 0) == wanted


def test_control_and_aborted_batches_hold_no_columns() -> None:
    aborted = bytearray(batch(0, 5))
    aborted[21:23] = struct.pack(">h", 0x10)
    aborted[43:51] = struct.pack(">q", 7)
    marker = raw_batch(5, 1, record(0, 0, b"\x00\x00\x00\x00", bytes(6), []), _CONTROL | 0x10)
    assert [row[0] for row in same_both_ways(_checked(aborted) + marker + batch(6, 3))] == [6, 7, 8]


@given(
    given_rows=st.lists(rows, min_size=2, max_size=12),
    codec=st.sampled_from(CODECS),
    changes=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), min_size=1, max_size=3),
    limit=st.integers(1, 20),
)
def test_hostile_records_are_judged_as_before(
    given_rows: list[Given], codec: int, changes: list[tuple[int, int]], limit: int
) -> None:
    data, spans = payload(given_rows)
    hostile = bytearray(data)
    for at, byte in changes:
        hostile[at % len(hostile)] = byte
    head = raw_batch(0, spans, packed(codec, bytes(hostile)), codec, count=len(given_rows))
    same_both_ways(head + batch(spans, 3), 0, limit)


@given(
    count=st.integers(-2, 50),
    spans=st.integers(1, 50),
    cut=st.integers(0, 30),
    more=st.binary(max_size=12),
    columns=st.booleans(),
)
def test_a_head_that_lies_is_judged_as_before(count: int, spans: int, cut: int, more: bytes, columns: bool) -> None:
    data, _ = payload([(1, 0, b"k", b"v", [("n", b"1")])] * 20)
    same_both_ways(raw_batch(0, spans, data[: len(data) - cut] + more, count=count) + batch(60, 2))


@given(st.binary(max_size=200), st.integers(1, 40))
def test_noise_never_makes_more_than_records_do(noise: bytes, count: int) -> None:
    same_both_ways(raw_batch(0, 50, noise, count=count))


# Records as long as each other; those of a size are laid out in several ways, some of them wrong.
_SHAPES: Final = (
    record(0, 0, None, b"value", [("n", b"1"), ("braid-id", b"01A:1")]),
    record(0, 0, None, b"valu", [("n", b"12"), ("braid-id", b"01A:1")]),
    record(0, 0, b"k", b"valu", [("n", b"1"), ("braid-id", b"01A:1")]),
    record(0, 0, None, b"value", [("m", b"1"), ("braid-ts", b"01A:1")]),
    record(0, 0, None, b"value", [("braid-id", b"1"), ("n", b"01A:1")]),
    record(0, 0, None, b"value", [("n", b"1"), ("braid-id", b"01A:1")]).replace(b"braid", b"br\xffid"),
    record(0, 0, None, b"value", [("n", b"1"), ("braid-id", b"01A:1")]).replace(b"\x02n", b"\x04n"),
    record(0, 0, None, bytes(24), []),
    record(0, 100, None, b"valu", [("n", b"1"), ("braid-id", b"01A:1")]),
)


def test_shapes_are_of_one_size() -> None:
    assert {len(each) for each in _SHAPES} == {len(_SHAPES[0])}


@given(
    most=st.integers(0, len(_SHAPES) - 1),
    others=st.dictionaries(st.integers(0, 199), st.integers(0, len(_SHAPES) - 1), max_size=6),
    changes=st.dictionaries(st.integers(0, 8_000), st.integers(0, 255), max_size=2),
    count=st.integers(48, 200),
)
def test_records_of_one_size_are_each_compared(
    most: int, others: dict[int, int], changes: dict[int, int], count: int
) -> None:
    """Offsets of two bytes, so that records past the 64th stay as long."""
    data = bytearray()
    for at in range(count):
        delta = bytes([at << 1 & 0x7F | 0x80, at >> 6])
        shape = _SHAPES[others.get(at, most)]
        width = 3 if shape is _SHAPES[8] else 2
        data += varint(len(shape)) + shape[1 : width + 1] + delta + shape[width + 2 :]
    for place, byte in changes.items():
        data[place % len(data)] = byte
    head = raw_batch(0, count, bytes(data), count=count)
    same_both_ways(head + batch(count, 3), limit=1_000)


@given(
    values=st.lists(st.integers(0, 90), min_size=40, max_size=120),
    others=st.dictionaries(st.integers(0, 119), st.integers(0, 3), max_size=5),
    changes=st.dictionaries(st.integers(0, 8_000), st.integers(0, 255), max_size=2),
)
def test_headers_behind_values_of_all_sizes_are_each_compared(
    values: list[int], others: dict[int, int], changes: dict[int, int]
) -> None:
    headers: list[Any] = [("n", b"1"), ("braid-id", b"01A:17")]
    kinds = [headers, [("n", b"12"), ("braid-id", b"01A:1")], [("m", b"1"), ("braid-id", b"01A:17")], headers[:1]]
    data = bytearray().join(
        record(at, at, b"k" * (at % 3), bytes(size), kinds[others.get(at, 0)]) for at, size in enumerate(values)
    )
    for place, byte in changes.items():
        data[place % len(data)] = byte
    same_both_ways(raw_batch(0, len(values), bytes(data), count=len(values)) + batch(len(values), 3), limit=1_000)


def test_alike_records_need_no_reading_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path stays fast: neither records of one size nor equal headers are gone through."""
    headers: list[Any] = [("braid-id", b"01A:17"), ("braid-ts", b"17")]
    varied: list[Given] = [(1, 0, b"k", bytes(at % 50), headers) for at in range(500)]
    equal: list[Given] = [(1, at // 9, b"k", bytes(9), headers) for at in range(64)]
    for given_rows, unused in ((varied, "_headers"), (equal, "_read")):
        frame = _whole(made(given_rows, 0, 0))
        wanted = rows_of_records(list(reader_of(frame, frame.raw)))
        with monkeypatch.context() as patched:
            patched.setattr(columns_module, unused, _never)
            columns = columns_in([(frame, frame.raw)], NAMES)
        assert columns is not None
        assert rows_of_columns(columns) == wanted


def test_a_comparison_that_sees_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of those two properties."""
    given_rows: list[Given] = [(1, 0, None, b"value", [("n", b"1")])] * 60
    given_rows[40] = (1, 0, b"k", b"valu", [("n", b"1")])
    same_both_ways(made(given_rows, 0, 0))
    monkeypatch.setattr(alike_module, "_differences", lambda places, layout: np.zeros(places.count, np.uint64))
    with pytest.raises(AssertionError):
        same_both_ways(made(given_rows, 0, 0))


def _never(*_: object) -> Any:
    raise AssertionError


def test_numbers_that_do_not_fit_are_for_the_other_reader() -> None:
    huge = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2^63 - 1
    for body in (
        b"\x00" + huge + b"\x00\x01\x01\x00",
        b"\x00\x00" + huge + b"\x01\x01\x00",
        b"\x00\x00\x00" + huge + b"\x01\x00",
        b"\x00\x00\x00\x01" + huge + b"\x00",
        b"\x00\x00\x00\x01\x01" + huge,
        b"\x00\x00\x00\x01\x01\x02" + huge + b"\x01",
        b"\x00\x00\x00\x01\x01\x02\x02n" + huge,
        b"\x00\x00\x00\x03\x01\x00",  # a key of less than nothing
        b"\x00\x00\x00\x01\x01\x01",  # headers of less than nothing
        b"\x00\x00\x00\x01\x01\x02\x01\x01",  # a name of less than nothing
        b"\x00\x00\x00\x01\x01\x02\x02\xff\x01",  # a name that is no text
    ):
        same_both_ways(raw_batch(3, 2, (varint(len(body)) + body) * 2) + batch(5, 2), 3)


def test_what_only_one_check_refuses_is_refused() -> None:
    plain = record(1, 0, b"k", b"v", [])
    for records in (
        [record(1, 0, b"k", b"v", []), record(0, 0, b"k", b"v", [])],  # backwards
        [plain, plain],  # twice
        [record(0, 0, None, b"v", []), record(9, 0, None, b"v", [])],  # above the batch's last
        [record(0, 0, None, b"v", [("é", b"")]).replace(b"\xc3\xa9", b"\xff\xfe"), plain],
        [record(0, 0, None, b"v", [("n", b"")]), record(1, 0, None, b"v", [("é", b"")]).replace(b"\xc3", b"\xff")],
    ):
        data = raw_batch(0, 2, b"".join(records))
        frame = _whole(data)
        assert columns_in([(frame, frame.raw)], NAMES) is None
        same_both_ways(data + batch(2, 2))
    same_names = record(0, 0, None, b"v", [("é", b"")]).replace(b"\xc3\xa9", b"\xff\xfe")
    frame = _whole(raw_batch(0, 1, same_names))
    assert columns_in([(frame, frame.raw)], NAMES) is None


def test_a_size_far_beyond_its_batch_is_refused() -> None:
    body = b"\x00\x00\x00" + varint(1 << 61) + varint(0) + b"\x00"
    data = raw_batch(0, 1, varint(len(body)) + body)
    frame = _whole(data)
    assert columns_in([(frame, frame.raw)], NAMES) is None
    same_both_ways(data)


def test_a_checker_that_believes_the_count_would_be_seen() -> None:
    """The negative control: columns of a batch that claims one record too few differ from its records."""
    data = bytearray(batch(0, 5))
    data[_COUNT_AT : _COUNT_AT + 4] = struct.pack(">i", 4)
    frame = read_frame(memoryview(_checked(data)), 0)
    assert frame is not None
    assert columns_in([(frame, frame.raw)], NAMES) is None
    with pytest.raises(DAMAGE):
        list(reader_of(frame, frame.raw))
    short = columns_of(list(reader_of(_whole(batch(0, 4)), memoryview(batch(0, 4)))), NAMES)
    assert rows_of_columns(short) != same_both_ways(batch(0, 5))


def _whole(data: bytes) -> Any:
    return read_frame(memoryview(data), 0)


def _checked(data: bytearray) -> bytes:
    data[17:21] = crc32c_cython(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)
