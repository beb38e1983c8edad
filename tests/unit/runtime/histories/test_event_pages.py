"""`ListEvents` loads pages of long histories: what is read, opened and decoded for one is counted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from braid.kernel.limits.archive import ARCHIVE_SEGMENT_EVENTS
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import HistoryId, Loaded
from braid.runtime.histories.past import Listed
from testbed.checkers.past import PastAnswers
from tests.support.counters import CounterCodec
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import TOTAL, ArchivingSeat, kept_from

EVENTS = 8 * SNAPSHOT_EVERY_EVENTS + 96
PAGE = 20
LOADS = 2  # of the history, and of the notes about the archive, which tell of holes


@dataclass
class Reads:
    """Counts of reads since the last look."""

    loads: int = 0
    segments: int = 0
    decoded: int = 0

    def taken(self) -> "Reads":
        """Returns the counts, and starts again from zero."""
        found = Reads(self.loads, self.segments, self.decoded)
        self.loads = self.segments = self.decoded = 0
        return found


def counting(seat: ArchivingSeat, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Counts loads from the store, archived segments that are opened, and events that are decoded."""
    reads, load, get, decode = Reads(), seat.store.load, seat.archive.get, CounterCodec.decode

    async def counted_load(history: HistoryId) -> Loaded:
        reads.loads += 1
        return await load(history)

    async def counted_get(name: str) -> bytes:
        reads.segments += name.endswith(".seg")
        return await get(name)

    def counted_decode(self: CounterCodec, data: bytes) -> object:
        reads.decoded += 1
        return decode(self, data)

    monkeypatch.setattr(seat.store, "load", counted_load)
    monkeypatch.setattr(seat.archive, "get", counted_get)
    monkeypatch.setattr(CounterCodec, "decode", counted_decode)
    return reads


def play(
    monkeypatch: pytest.MonkeyPatch, scene: Callable[[ArchivingSeat, Reads, PastAnswers], Awaitable[None]]
) -> None:
    """Plays a scene over a long history, of which a replica that starts anew has read nothing."""

    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        await seat.grow(EVENTS, answers)
        assert kept_from(seat) > 6 * SNAPSHOT_EVERY_EVENTS
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        reads = counting(seat, monkeypatch)
        await scene(seat, reads, answers)

    run_virtual(scenario())


def sequences(listed: Listed) -> list[int]:
    """The sequences of the events of a page."""
    assert listed.gaps == []
    return [each.sequence for each in listed.events]


def test_a_page_opens_only_its_segments_and_decodes_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(seat: ArchivingSeat, reads: Reads, answers: PastAnswers) -> None:
        middle, edge = 3 * ARCHIVE_SEGMENT_EVENTS + 100, 2 * ARCHIVE_SEGMENT_EVENTS - 9
        for first, segments in ((0, 1), (middle, 1), (edge, 2), (EVENTS - PAGE + 1, 0)):
            listed = await seat.aggregates.listed(TOTAL, first, PAGE)
            start = first or 1
            assert sequences(listed) == list(range(start, start + PAGE))
            found = reads.taken()
            assert (found.loads, found.decoded) == (LOADS, PAGE)
            assert found.segments <= segments

    play(monkeypatch, scene)


def test_the_newest_events_open_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(seat: ArchivingSeat, reads: Reads, answers: PastAnswers) -> None:
        listed = await seat.aggregates.listed(TOTAL, 0, PAGE + 1, latest=PAGE)
        assert sequences(listed) == list(range(EVENTS - PAGE + 1, EVENTS + 1))
        assert reads.taken() == Reads(LOADS, 0, PAGE)

    play(monkeypatch, scene)


def test_the_events_before_a_moment_open_the_segments_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(seat: ArchivingSeat, reads: Reads, answers: PastAnswers) -> None:
        tail = EVENTS - kept_from(seat) + 1
        for at_ms, told in answers.given[3 :: len(answers.given) // 5]:
            listed = await seat.aggregates.listed(TOTAL, 0, PAGE + 1, until_ms=at_ms, latest=PAGE)
            assert isinstance(told, tuple)
            assert sequences(listed)[-1] == told[1], "the counter counts its events"
            assert len(listed.events) == PAGE
            found = reads.taken()
            assert found.loads == LOADS
            assert found.segments <= 2, "the one that the moment lies in, and the one before"
            assert found.decoded <= tail + PAGE, "times of archived events are known without decoding them"

    play(monkeypatch, scene)


def test_a_whole_history_in_pages_opens_each_segment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(seat: ArchivingSeat, reads: Reads, answers: PastAnswers) -> None:
        found: list[int] = []
        pages = 0
        while len(found) < EVENTS:
            found += sequences(await seat.aggregates.listed(TOTAL, len(found) + 1, 200))
            pages += 1
        assert found == list(range(1, EVENTS + 1))
        segments = (kept_from(seat) - 1) // ARCHIVE_SEGMENT_EVENTS  # the store has what comes after them
        assert reads.taken() == Reads(pages * LOADS, segments, EVENTS)

    play(monkeypatch, scene)
