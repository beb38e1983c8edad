"""Segments: what is written is read; what was changed or removed is named; bytes from anywhere do no harm."""

import hashlib
import random
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.archive import chain, names, segment
from braid.kernel.errors import ArchiveDamaged
from braid.kernel.limits.archive import ARCHIVE_RAW_BYTES_MAX, ARCHIVE_SEGMENT_EVENTS
from braid.kernel.ports import HistoryId
from tests.support.examples import examples

GROUP = HistoryId("assigner", "group", "indexer")
GOLDEN = Path(__file__).parents[2] / "golden" / "archive"


def made(count: int = 5, first: int = 1) -> segment.Segment:
    """Events that say their sequences."""
    events = [f"event {sequence}".encode() for sequence in range(first, first + count)]
    times = [1_000 + sequence for sequence in range(first, first + count)]
    (only,) = segment.cut(GROUP, chain.root(GROUP, first - 1), first, events, times, 1)
    return only


def rebuilt(of: segment.Segment, events: list[bytes], links: list[bytes] | None = None) -> bytes:
    """A segment's bytes with other events in it, under the same name, with a checksum that fits."""
    changed = segment.Segment(of.history, of.first, events, of.times_ms, links or of.links, of.before, of.incarnation)
    return segment.encode(changed)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 1 << 40))
def test_what_is_written_is_read(events: list[bytes], first: int) -> None:
    times = [random.Random(first + n).randrange(-5, 1 << 45) for n in range(len(events))]
    (only,) = segment.cut(GROUP, chain.root(GROUP), first, events, times, 3)
    data = segment.encode(only)
    assert segment.encode(only) == data
    read = segment.decode(data, only.name)
    assert (list(read.events), list(read.times_ms), read.links) == (events, times, tuple(only.links))
    assert names.parse(str(only.name)) == only.name
    assert read.link_at(first - 1) == chain.root(GROUP)


def test_cuts_depend_on_the_events_alone() -> None:
    count = 2 * ARCHIVE_SEGMENT_EVENTS + 3
    events, times = [b"x" * (n % 7) for n in range(count)], list(range(count))
    parts = segment.cut(GROUP, chain.root(GROUP), 1, events, times, 1)
    assert [(part.first, part.last) for part in parts] == [(1, 512), (513, 1024), (1025, count)]
    assert [part.before for part in parts[1:]] == [part.links[-1] for part in parts[:-1]]
    large = segment.cut(GROUP, chain.root(GROUP), 1, [b"x" * (3 << 20)] * 3, [1, 2, 3], 1)
    assert [(part.first, part.last) for part in large] == [(1, 1), (2, 2), (3, 3)]
    assert segment.cut(GROUP, chain.root(GROUP), 1, [], [], 1) == []


def test_an_altered_event_is_named() -> None:
    only = made()
    events = list(only.events)
    events[2] = b"event 3, but of another kind"
    with pytest.raises(ArchiveDamaged) as told:
        segment.decode(rebuilt(only, events), only.name)
    assert told.value.metadata["first"] == told.value.metadata["last"] == "3"
    assert told.value.metadata["history"] == "assigner/group/indexer"


def test_a_removed_event_is_named() -> None:
    only = made()
    fewer = [*only.events[:2], *only.events[3:]]
    shorter = segment.Segment(GROUP, 1, fewer, only.times_ms[:4], only.links[:4], only.before, 1)
    data = segment.encode(shorter)
    with pytest.raises(ArchiveDamaged):
        segment.decode(data, only.name)  # its header tells of four
    forged = data.replace(b'"count":4', b'"count":5').replace(
        shorter.links[-1].hex().encode(), only.links[-1].hex().encode()
    )
    with pytest.raises(ArchiveDamaged) as told:
        segment.decode(forged, only.name)
    assert told.value.metadata["first"] == "3"


def test_a_whole_forged_chain_is_not_what_the_name_tells_of() -> None:
    only = made()
    events = [*only.events[:2], b"forged", *only.events[3:]]
    (forged,) = segment.cut(GROUP, only.before, 1, events, only.times_ms, 1)
    segment.decode(segment.encode(forged), forged.name)
    with pytest.raises(ArchiveDamaged):
        segment.decode(segment.encode(forged), only.name)


@given(st.data())
@settings(max_examples=examples(100))
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    only = made()
    whole = bytearray(segment.encode(only))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ArchiveDamaged) as told:
        segment.decode(bytes(whole), only.name)
    assert 1 <= int(told.value.metadata["first"]) <= int(told.value.metadata["last"]) <= 5


@given(st.binary(max_size=400))
@settings(max_examples=examples(100))
def test_bytes_from_anywhere_are_refused(data: bytes) -> None:
    only = made()
    for hostile in (data, b"BSG1" + data, segment.encode(only)[: len(data)]):
        with pytest.raises(ArchiveDamaged):
            segment.decode(hostile, only.name)


def test_a_bomb_costs_no_memory() -> None:
    only = made()
    whole = segment.encode(only)
    bomb = zstandard.ZstdCompressor(level=3).compress(bytes(ARCHIVE_RAW_BYTES_MAX + 10))
    start = 8 + int.from_bytes(whole[4:8], "big")
    forged = whole[:start] + bomb
    with pytest.raises(ArchiveDamaged, match="more than"):
        segment.decode(forged + hashlib.sha256(forged).digest(), only.name)


def test_released_segments_are_still_read() -> None:
    only = made()
    path = GOLDEN / str(only.name).rpartition("/")[2]
    read = segment.decode(path.read_bytes(), only.name)
    assert read.events == tuple(only.events)
    assert read.links == tuple(only.links)
