"""Repairs from peers' archives: several missing ranges at once, and damaged objects whose events have other names."""

from braid.archive import names, segment
from braid.archive.memory import MemoryArchive
from braid.archive.names import SegmentName
from braid.kernel.limits.archive import ARCHIVE_PEERS_AGAIN_SECONDS
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from testbed.checkers.past import PastAnswers
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import TOTAL, ArchivingSeat, kept_from

EVENTS = 5 * SNAPSHOT_EVERY_EVENTS + 96


def segments(archive: MemoryArchive) -> list[SegmentName]:
    """Names of an archive's segments, oldest first."""
    return sorted(name for name in map(names.parse, archive.objects) if isinstance(name, SegmentName))


def cut_elsewhere(archive: MemoryArchive) -> MemoryArchive:
    """The same events in segments that begin at other events, as a replica has them that was away for a while."""
    whole = [segment.decode(archive.objects[str(name)], name) for name in segments(archive)]
    events = [event for each in whole for event in each.events]
    times_ms = [time_ms for each in whole for time_ms in each.times_ms]
    early = segment.cut(TOTAL, whole[0].before, 1, events[:100], times_ms[:100], 1)
    late = segment.cut(TOTAL, early[-1].links[-1], 101, events[100:], times_ms[100:], 1)
    return MemoryArchive({str(each.name): segment.encode(each) for each in (*early, *late)})


async def grown(answers: PastAnswers) -> ArchivingSeat:
    """A leader with a history, most of which only the archive has."""
    seat = await (await ArchivingSeat("a").follow()).lead()
    await seat.grow(EVENTS, answers)
    return seat


def test_separate_missing_ranges_are_all_fetched_at_once() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        kept = {name: data for name, data in seat.archive.objects.items() if name.endswith(".seg")}
        first, second, third, *_ = segments(seat.archive)
        del kept[str(first)], kept[str(third)]
        other = await ArchivingSeat("b", seat.store.server, MemoryArchive(kept)).follow()
        other.peers = [seat.archive]
        listed = await other.aggregates.listed(TOTAL, 0, 10_000)
        assert listed.gaps == [], "the older range was told to be in no archive"
        assert [each.sequence for each in listed.events] == list(range(1, EVENTS + 1))
        assert await answers.violations(other.value_at) == []
        assert answers.refused == []
        assert str(second) in kept, "what was here stays"

    run_virtual(scenario())


def test_a_damaged_object_is_replaced_by_peers_with_its_events() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        peer = cut_elsewhere(seat.archive)
        damaged = segments(seat.archive)[1]
        whole = seat.archive.objects[str(damaged)]
        seat.archive.objects[str(damaged)] = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
        seat.peers = [peer]
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert not (await seat.aggregates.verified(TOTAL, names_only=False)).problems
        assert str(damaged) not in seat.archive.objects
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        assert (await seat.aggregates.listed(TOTAL, 0, 10_000)).gaps == []

    run_virtual(scenario())


def test_a_damaged_object_nobody_can_replace_stays_and_is_named() -> None:
    async def scenario() -> None:
        seat = await grown(PastAnswers())
        damaged = segments(seat.archive)[1]
        data = bytearray(seat.archive.objects[str(damaged)])
        data[len(data) // 2] ^= 1
        seat.archive.objects[str(damaged)] = bytes(data)
        seat.peers = [MemoryArchive()]
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        for _ in range(2):  # whoever asks again is told the same
            (problem,) = (await seat.aggregates.verified(TOTAL, names_only=False)).problems
            assert damaged.first <= problem.first <= problem.last <= damaged.last
            assert "is damaged" in problem.reason
        assert seat.archive.objects[str(damaged)] == bytes(data)

    run_virtual(scenario())


def test_absent_peers_are_asked_again_and_named_until_then() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        peer = MemoryArchive(dict(seat.archive.objects))
        seat.peers = [peer]
        lost = segments(seat.archive)[1]
        del seat.archive.objects[str(lost)]
        peer.away = True
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        assert answers.refused
        (gap,) = (await seat.aggregates.listed(TOTAL, 0, 10_000)).gaps
        assert (gap.first, gap.last) == (lost.first, lost.last)
        peer.away = False
        await seat.host.clock.sleep(ARCHIVE_PEERS_AGAIN_SECONDS)
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        assert str(lost) in seat.archive.objects, "and what they gave is kept"

    run_virtual(scenario())


def test_a_list_up_to_a_moment_names_what_may_have_happened_then() -> None:
    """Nobody knows when events happened that are not at hand: where a list ends before them, they are told."""

    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        lost = segments(seat.archive)[1]
        del seat.archive.objects[str(lost)]
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        assert answers.refused
        for at_ms in answers.refused:
            for latest in (0, 3):
                listed = await seat.aggregates.listed(TOTAL, 0, 10_000, until_ms=at_ms, latest=latest)
                assert [each.sequence for each in listed.events][-1:] == [lost.first - 1]
                assert [(gap.first, gap.last) for gap in listed.gaps] == [(lost.first, lost.last)]

    run_virtual(scenario())


def test_a_lost_archive_is_refilled_from_the_store() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        first = kept_from(seat)
        seat.archive.objects.clear()  # by somebody else: nothing was said to the replica
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers)
        assert kept_from(seat) > first, "they are compacted by now"
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert [(gap.first, gap.last) for gap in listed.gaps] == [(1, first - 1)]
        assert await answers.violations(seat.value_at) == []

    run_virtual(scenario())
