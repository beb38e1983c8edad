"""Golden bytes of every version, built by hand from Kafka's message schemas, and hostile bytes that are refused.

`tests/golden/offset_log/` holds them in hex, a blank between two fields. The chaos run has a reader of its own: both
must agree.
"""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.offset_log.records import OffsetCommit, OffsetKey, read_key, read_value
from braid.kernel.errors import Invalid, Unsupported
from testbed.ground.clusters import decode_commit

GOLDEN = Path(__file__).parents[3] / "golden" / "offset_log"
Vector = dict[str, Any]


def vectors(name: str) -> list[Vector]:
    """The vectors of one file."""
    loaded: list[Vector] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="ascii"))
    return loaded


def named(vector: Vector) -> str:
    return str(vector["name"])


def commit_of(vector: Vector) -> OffsetCommit:
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = vector["is"]
    return OffsetCommit(offset, leader_epoch, metadata, commit_ms, expire_ms, bytes.fromhex(topic_id))


@pytest.mark.parametrize("vector", vectors("keys"), ids=named)
def test_a_key_reads_as_released(vector: Vector) -> None:
    expected = OffsetKey(*vector["is"]) if vector["is"] else None
    assert read_key(bytes.fromhex(vector["hex"])) == expected


@pytest.mark.parametrize("vector", vectors("values"), ids=named)
def test_a_value_reads_as_released(vector: Vector) -> None:
    assert read_value(bytes.fromhex(vector["hex"])) == commit_of(vector)


@pytest.mark.parametrize("vector", vectors("damaged_keys"), ids=named)
def test_a_damaged_key_is_refused(vector: Vector) -> None:
    with pytest.raises(Invalid):
        read_key(bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize("vector", vectors("damaged_values"), ids=named)
def test_a_damaged_value_is_refused(vector: Vector) -> None:
    with pytest.raises(Invalid):
        read_value(bytes.fromhex(vector["hex"]))


def test_a_value_of_a_later_release_is_told_from_damage() -> None:
    with pytest.raises(Unsupported, match="version 5"):
        read_value(bytes.fromhex("0005") + bytes(40))


def test_every_value_version_has_golden_bytes() -> None:
    assert {bytes.fromhex(each["hex"])[1] for each in vectors("values")} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("vector", vectors("values"), ids=named)
def test_another_reader_agrees(vector: Vector) -> None:
    key = bytes.fromhex(vectors("keys")[1]["hex"])
    other = decode_commit(key, bytes.fromhex(vector["hex"]))
    ours, whose = commit_of(vector), read_key(key)
    assert other is not None and whose is not None
    assert other == (*whose, ours.offset, ours.metadata, ours.commit_time_ms)


@given(st.binary(max_size=80))
def test_hostile_keys_are_read_or_refused(data: bytes) -> None:
    try:
        read_key(data)
    except Invalid:
        return


@given(st.one_of(st.binary(max_size=80), st.binary(max_size=60).map(lambda tail: b"\0\4" + tail)))
def test_hostile_values_are_read_or_refused(data: bytes) -> None:
    try:
        read_value(data)
    except (Invalid, Unsupported):
        return


@given(st.sampled_from(vectors("values")), st.data())
def test_a_flipped_or_lost_byte_never_costs_more_than_its_record(vector: Vector, data: st.DataObject) -> None:
    good = bytearray(bytes.fromhex(vector["hex"]))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    try:
        read_value(bytes(good[: data.draw(st.integers(0, len(good)))]))
    except (Invalid, Unsupported):
        return


@given(
    st.text(max_size=40),
    st.text(max_size=40),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.text(max_size=300),
)
def test_what_is_written_by_the_schema_is_read(
    group: str, topic: str, partition: int, offset: int, metadata: str
) -> None:
    def string(text: str) -> bytes:
        return struct.pack(">h", len(text.encode())) + text.encode()

    key = struct.pack(">h", 1) + string(group) + string(topic) + struct.pack(">i", partition)
    value = struct.pack(">hqi", 3, offset, 5) + string(metadata) + struct.pack(">q", 77)
    assert read_key(key) == (group, topic, partition)
    assert read_value(value) == OffsetCommit(offset, 5, metadata, 77)
