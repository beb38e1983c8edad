"""Chunks of the offset log: the newest commit of each key counts, damage costs its own record and nothing else."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.memory.log import MemoryRecord
from braid.kafka.offset_log.table import OffsetTable
from braid.kernel.limits.lagmon.sampling import OFFSET_DAMAGE_KEPT
from braid.kernel.record_columns import columns_of

GROUP_METADATA = struct.pack(">hh", 2, 1) + b"g"


def key(partition: int, group: str = "g") -> bytes:
    return (
        struct.pack(">hh", 1, len(group)) + group.encode() + struct.pack(">h", 1) + b"t" + struct.pack(">i", partition)
    )


def value(offset: int) -> bytes:
    return struct.pack(">hqihq", 3, offset, -1, 0, 1)


def log(*pairs: tuple[bytes | None, bytes | None]) -> list[MemoryRecord]:
    """Records at offsets 0, 1, …"""
    return [MemoryRecord(at, 0, 0, *pair, ()) for at, pair in enumerate(pairs)]


def offsets(table: OffsetTable, records: list[MemoryRecord]) -> dict[int, int | None]:
    """The offsets in a chunk, by partition."""
    found = table.take(7, columns_of(records, ()))
    pairs = zip(found.partitions.tolist(), found.gone.tolist(), found.offsets.tolist(), strict=True)
    return {partition: None if gone else offset for partition, gone, offset in pairs}


def test_the_newest_of_each_key_counts() -> None:
    table = OffsetTable()
    records = log((key(0), value(1)), (key(1), value(5)), (key(0), value(2)), (GROUP_METADATA, b"x"), (key(2), None))
    assert offsets(table, records) == {0: 2, 1: 5, 2: None}
    counts = table.counts
    assert (counts.records, counts.replaced, counts.commits, counts.tombstones, counts.other) == (5, 1, 2, 1, 1)


def test_damage_is_counted_with_its_place_and_costs_no_neighbour() -> None:
    table = OffsetTable()
    records = log(
        (key(0), value(1)), (key(1), b"\0\3junk"), (b"\0\1\0", value(9)), (None, value(9)), (key(2), value(3))
    )
    assert offsets(table, records) == {0: 1, 2: 3}
    assert table.counts.damaged == 3
    assert {(each.partition, each.offset) for each in table.damage} == {(7, 1), (7, 2), (7, 3)}
    assert all(each.reason for each in table.damage)


def test_the_commit_before_a_damaged_one_of_the_same_key_stands() -> None:
    table = OffsetTable()
    broken = b"\0\3junk"
    records = log((key(0), value(1)), (key(0), value(2)), (key(0), broken), (key(1), value(8)), (key(0), broken))
    assert offsets(table, records) == {0: 2, 1: 8}
    counts = table.counts
    assert counts.damaged == 2
    assert counts.records == counts.replaced + counts.commits + counts.damaged


def test_a_value_of_a_later_release_is_counted_apart() -> None:
    table = OffsetTable()
    assert offsets(table, log((key(0), b"\0\x09" + bytes(30)), (key(1), value(4)))) == {1: 4}
    assert (table.counts.unsupported, table.counts.damaged) == (1, 0)


def test_places_kept_are_bounded() -> None:
    table = OffsetTable()
    table.take(0, columns_of(log(*((b"", b"") for _ in range(3)), *((bytes([at]), b"") for at in range(100))), ()))
    assert len(table.damage) == OFFSET_DAMAGE_KEPT


def test_remembered_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.kafka.offset_log.table.OFFSET_PAIRS_MAX", 10)
    table = OffsetTable()
    for number in range(50):
        assert offsets(table, log((key(number, f"g{number}"), value(1)))) == {number: 1}
        assert table.remembered <= 10


def test_a_group_is_named_once_for_all_its_partitions() -> None:
    records = log((key(0, "group"), value(1)), (key(1, "group"), value(2)), (key(7, "other"), value(3)))
    found = OffsetTable().take(0, columns_of(records, ()))
    places = zip(found.pair.tolist(), found.partitions.tolist(), strict=True)
    assert [(*found.pairs[at], partition) for at, partition in places] == [
        ("group", "t", 0),
        ("group", "t", 1),
        ("other", "t", 7),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 99), st.none(), st.just(b"\0\3junk")))),
    st.integers(1, 5),
)
def test_chunks_of_any_size_say_what_a_plain_reader_says(said: list[tuple[int, int | bytes | None]], size: int) -> None:
    def raw(what: int | bytes | None) -> bytes | None:
        return value(what) if isinstance(what, int) else what

    plain: dict[int, int | None] = {}
    for partition, what in said:
        if not isinstance(what, bytes):
            plain[partition] = what
    records = log(*((key(partition), raw(what)) for partition, what in said))
    table, found = OffsetTable(), dict[int, int | None]()
    for at in range(0, len(records), size):
        found |= offsets(table, records[at : at + size])
    assert found == plain
    counts = table.counts
    assert counts.records == counts.replaced + counts.commits + counts.tombstones + counts.damaged
