"""Brokers' reports on disks and features as bytes: read in full, and refused if malformed."""

import struct
from io import BytesIO

import pytest
from aiokafka.protocol.types import CompactString, UnsignedVarInt32

from braid.kafka.protocol.admin_schemas import (
    DescribeLogDirsResponseV4,
    FeaturesRequest,
    FeaturesRequestV3,
    finalized_features,
    supported_features,
)
from braid.kernel.ports import TopicPartition


def _name(text: str) -> bytes:
    encoded: bytes = CompactString().encode(text)
    return encoded


def _count(rows: int) -> bytes:
    encoded: bytes = UnsignedVarInt32.encode(rows + 1)
    return encoded


def _copy(number: int, size: int, *, future: bool = False, tags: int = 0) -> bytes:
    return struct.pack(">iqq?B", number, size, 0, future, tags)


def _topic(name: str, *copies: bytes) -> bytes:
    return _name(name) + _count(len(copies)) + b"".join(copies) + b"\0"


def _dir(error: int, total: int, usable: int, *topics: bytes) -> bytes:
    head = struct.pack(">h", error) + _name("/data") + _count(len(topics))
    return head + b"".join(topics) + struct.pack(">qq", total, usable) + b"\0"


def _answer(*dirs: bytes) -> bytes:
    return struct.pack(">ih", 0, 0) + _count(len(dirs)) + b"".join(dirs) + b"\0"


def test_disk_sizes_leave_out_copies_that_are_moving() -> None:
    orders = _topic("orders", _copy(0, 10), _copy(300, 1 << 40), _copy(7, 5, future=True))
    told = DescribeLogDirsResponseV4.decode(BytesIO(_answer(_dir(0, 100, 40, orders, _topic("x")), _dir(56, -1, -1))))
    good, failed = told.dirs
    assert (good.total_bytes, good.usable_bytes) == (100, 40)
    assert good.sizes == {TopicPartition("orders", 0): 10, TopicPartition("orders", 300): 1 << 40}
    assert (failed.error_code, failed.total_bytes, failed.sizes) == (56, -1, {})


def test_what_is_cut_off_or_unknown_is_refused() -> None:
    whole = _answer(_dir(0, 100, 40, _topic("orders", _copy(0, 10), _copy(1, 10))))
    for length in range(len(whole)):
        with pytest.raises((ValueError, struct.error)):
            DescribeLogDirsResponseV4.decode(BytesIO(whole[:length]))
    with pytest.raises(ValueError, match="unknown fields"):
        DescribeLogDirsResponseV4.decode(BytesIO(_answer(_dir(0, 1, 1, _topic("orders", _copy(0, 10, tags=1))))))


def _features(*levels: tuple[str, int, int]) -> bytes:
    rows = [_name(name) + struct.pack(">hh", first, second) + b"\0" for name, first, second in levels]
    return _count(len(rows)) + b"".join(rows)


def test_levels_of_features_are_read_from_tagged_fields() -> None:
    tags = {
        0: _features(("metadata.version", 7, 30), ("kraft.version", 0, 1)),
        1: bytes(8),
        2: _features(("metadata.version", 27, 27)),
    }
    assert supported_features(tags) == {"metadata.version": 30, "kraft.version": 1}
    assert finalized_features(tags) == {"metadata.version": 27}
    assert finalized_features({}) == supported_features({}) == {}


def test_the_answer_about_features_has_the_oldest_header() -> None:
    request = FeaturesRequest().prepare({18: (0, 4)})
    assert isinstance(request, FeaturesRequestV3) and request.encode() == b"\x06braid\x021\0"
    assert request.parse_response_header(BytesIO(struct.pack(">i", 5) + b"rest")).correlation_id == 5
