"""The reader in columns beside a plain one: over golden bytes, cut, lengthened and changed anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.memory.log import MemoryRecord
from tests.support.plain_offset_log import differing_commits, read_in_columns, read_plainly

GOLDEN = Path(__file__).parents[3] / "golden" / "offset_log"
BYTES = {
    path.stem: [bytes.fromhex(vector["hex"]) for vector in json.loads(path.read_text(encoding="ascii"))]
    for path in sorted(GOLDEN.glob("*.json"))
}
KEYS = BYTES["keys"] + BYTES["damaged_keys"]
VALUES = BYTES["values"] + BYTES["damaged_values"]


@st.composite
def changed(draw: st.DrawFn, of: list[bytes]) -> bytes:
    """Golden bytes, most often as they are; else cut, lengthened or with another byte."""
    data = bytearray(draw(st.sampled_from(of)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.integers(0, 2))
        if how == 0:
            del data[at:]
        elif how == 1:
            data += draw(st.binary(max_size=3))
        elif at < len(data):
            data[at] = draw(st.integers(0, 255))
    return bytes(data)


records = st.lists(st.tuples(st.none() | changed(KEYS), st.none() | changed(VALUES)), max_size=12).map(
    lambda pairs: [MemoryRecord(at, 0, 0, key, value, ()) for at, (key, value) in enumerate(pairs)]
)


@given(records)
def test_columns_say_what_a_plain_reader_says(log: list[MemoryRecord]) -> None:
    assert differing_commits(log) == []


def test_every_golden_key_and_value_is_met() -> None:
    log = [MemoryRecord(at, 0, 0, key, value, ()) for at, (key, value) in enumerate(
        [*((key, VALUES[0]) for key in KEYS), *((KEYS[1], value) for value in VALUES)]
    )]  # fmt: skip
    assert differing_commits(log) == []


def every_change(data: bytes) -> Iterator[bytes]:
    """The bytes cut at every place, and with every byte changed in some ways."""
    for at in range(len(data)):
        yield data[:at]
        for byte in {data[at] ^ 0x80, data[at] ^ 1, 0, 0xFF, (data[at] + 1) % 256} - {data[at]}:
            yield data[:at] + bytes([byte]) + data[at + 1 :]


@pytest.mark.parametrize("changed_part", ["keys", "values"])
def test_no_byte_of_a_key_or_value_is_passed_over(changed_part: str) -> None:
    whole = {"keys": KEYS, "values": VALUES}[changed_part]
    changes = [data for golden in whole if len(golden) < 100 for data in every_change(golden)]
    if changed_part == "keys":
        pairs = [(data, VALUES[0]) for data in changes]
    else:
        pairs = [(KEYS[1][:-4] + number.to_bytes(4, "big"), data) for number, data in enumerate(changes)]
    log = [MemoryRecord(at, 0, 0, key, value, ()) for at, (key, value) in enumerate(pairs)]
    assert len(log) > 500
    assert differing_commits(log) == []


def test_both_versions_of_a_key_are_one_key() -> None:
    old, new = b"\0\0\0\1g\0\1t\0\0\0\3", b"\0\1\0\1g\0\1t\0\0\0\3"
    older, newer = VALUES[0], VALUES[4]
    log = [MemoryRecord(0, 0, 0, new, older, ()), MemoryRecord(1, 0, 0, old, newer, ())]
    assert read_in_columns(log)[0] == read_plainly(log)
    assert list(read_plainly(log).values()) == [(0, "", 1700000000123)]
