"""Kafka's own vectors, and agreement with aiokafka's implementation."""

import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_golden(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected % (1 << 32)


@given(st.binary(max_size=70), st.integers(1, 10_000))
def test_agrees_with_another_implementation(data: bytes, partitions: int) -> None:
    assert murmur2(data) == other_murmur2(data) % (1 << 32)
    assert partition_of(data, partitions) == (other_murmur2(data) & 0x7FFFFFFF) % partitions
