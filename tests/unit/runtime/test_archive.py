"""I19 over archives in memory: whatever was compacted, lost, forged or restored, the past is told as it was."""

from dataclasses import replace

import pytest

from braid.archive import names
from braid.archive.memory import MemoryArchive
from braid.archive.names import SegmentName
from braid.kernel.errors import ArchiveDamaged, HistoryHole
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from testbed.checkers.past import PastAnswers
from tests.support.counters import COUNTERS
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import TOTAL, ArchivingSeat, kept_from

EVENTS = 5 * SNAPSHOT_EVERY_EVENTS + 96


async def grown(answers: PastAnswers) -> ArchivingSeat:
    """A leader with a history, most of which only the archive has."""
    seat = await (await ArchivingSeat("a").follow()).lead()
    await seat.grow(EVENTS, answers)
    assert kept_from(seat) > 3 * SNAPSHOT_EVERY_EVENTS
    return seat


def segments(seat: ArchivingSeat) -> list[SegmentName]:
    """Names of a seat's segments, oldest first."""
    parsed = [names.parse(name) for name in seat.archive.objects]
    return sorted(name for name in parsed if isinstance(name, SegmentName))


def test_answers_stay_the_same_after_compaction_and_restarts() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        past = await seat.aggregates.past(COUNTERS, "total", answers.given[-1][0])
        assert len(past.events) < 3 * SNAPSHOT_EVERY_EVENTS, "a bounded fold"
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert [each.sequence for each in listed.events] == list(range(1, EVENTS + 1))
        assert listed.gaps == []

    run_virtual(scenario())


def test_an_altered_or_removed_event_is_named_and_alone_refused() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        second = segments(seat)[1]
        whole = seat.archive.objects[str(second)]
        seat.archive.objects[str(second)] = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        assert answers.refused
        assert all(second.earliest_ms <= at_ms <= second.latest_ms + 100 for at_ms in answers.refused)
        with pytest.raises(ArchiveDamaged) as told:
            await seat.value_at(second.latest_ms - 1)
        assert told.value.metadata["history"] == str(TOTAL)
        assert second.first <= int(told.value.metadata["first"]) <= second.last
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert [(gap.first, gap.last) for gap in listed.gaps] == [(second.first, second.last)]
        assert told.value.message in listed.gaps[0].reason
        assert len(listed.events) == EVENTS - (second.last - second.first + 1)
        del seat.archive.objects[str(second)]
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert [(gap.first, gap.last) for gap in listed.gaps] == [(second.first, second.last)]
        with pytest.raises(HistoryHole):
            await seat.value_at(second.latest_ms - 1)

    run_virtual(scenario())


def test_losing_the_archive_loses_no_state() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        live = await seat.value_at(0)
        seat.archive.objects.clear()
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        await seat.lead_again()
        assert await seat.value_at(0) == live
        assert await answers.violations(seat.value_at) == []
        assert answers.refused
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers)
        assert await answers.violations(seat.value_at) == []
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert len(listed.gaps) == 1
        assert listed.gaps[0].first == 1

    run_virtual(scenario())


def test_a_replica_takes_what_it_lacks_from_peers_but_no_forgery() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        other = await ArchivingSeat("b", seat.store.server).follow()
        other.peers = [seat.archive]
        assert await answers.violations(other.value_at) == []
        assert answers.refused == []
        held = set(map(str, segments(other)))
        assert {str(name) for name in segments(seat) if name.last < kept_from(seat)} <= held
        liar = await ArchivingSeat("c", seat.store.server).follow()
        forged = {name: data.replace(b"event", b"EVENT")[::-1] for name, data in seat.archive.objects.items()}
        liar.peers = [ArchivingSeat("d", seat.store.server, type(seat.archive)(forged)).archive]
        assert await answers.violations(liar.value_at) == []
        assert len(answers.refused) > len(answers.given) / 2
        assert not segments(liar)

    run_virtual(scenario())


def test_followers_archive_what_they_follow() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        leader = await (await ArchivingSeat("a").follow()).lead()
        follower = await ArchivingSeat("b", leader.store.server).follow()
        await leader.grow(EVENTS, answers)
        assert segments(leader) == segments(follower), "the same names, so the same events"
        assert {leader.archive.objects[str(name)] for name in segments(leader)} == {
            follower.archive.objects[str(name)] for name in segments(leader)
        }
        leader.archive.objects.clear()
        assert await answers.violations(follower.value_at) == []
        assert answers.refused == []

    run_virtual(scenario())


def test_a_shared_archive_is_written_once() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        bucket: dict[str, bytes] = {}
        leader = await (await ArchivingSeat("a", archive=_shared(bucket)).follow()).lead()
        follower = await ArchivingSeat("b", leader.store.server, _shared(bucket)).follow()
        await leader.grow(EVENTS, answers)
        firsts = [name.first for name in segments(leader)]
        assert len(firsts) == len(set(firsts))
        assert await answers.violations(follower.value_at) == []
        assert answers.refused == []

    run_virtual(scenario())


def test_a_change_of_leader_goes_on_with_the_same_line() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        bucket: dict[str, bytes] = {}
        first = await (await ArchivingSeat("a", archive=_shared(bucket)).follow()).lead()
        second = await ArchivingSeat("b", first.store.server, _shared(bucket)).follow()
        for turn in range(6):
            leader, other = (first, second) if turn % 2 == 0 else (second, first)
            await leader.grow(700, answers)
            held = leader.office.leadership
            assert held is not None
            await leader.store.resign(held.leader)
            leader.office.leadership = None
            await other.lead()
        for seat in (first, second):
            assert await answers.violations(seat.value_at) == []
            assert answers.refused == []
            assert (await seat.aggregates.listed(TOTAL, 0, 10_000)).gaps == []

    run_virtual(scenario())


def test_a_store_restored_from_backup_goes_on_with_its_own_line() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        await seat.grow(3 * SNAPSHOT_EVERY_EVENTS + 32, answers)
        backup = seat.store.server.backup()
        kept = len(answers.given)
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers)
        discarded = segments(seat)
        answers.given = answers.given[:kept]  # what followed never was: the incarnations tell it apart
        seat.store.server.restore(backup)
        seat.office.leadership = None
        await seat.host.clock.sleep(5)
        await seat.lead()
        await seat.grow(3 * SNAPSHOT_EVERY_EVENTS, answers)
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        assert (await seat.aggregates.listed(TOTAL, 0, 10_000)).gaps == []
        assert set(discarded) <= set(segments(seat)), "kept under the label of their incarnation"
        assert {name.incarnation for name in segments(seat)} == {1, 2}

    run_virtual(scenario())


def test_compaction_waits_for_the_archive_up_to_a_bound() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        seat.aggregates.snapshots.backlog_events_max = 4 * SNAPSHOT_EVERY_EVENTS
        await seat.grow(SNAPSHOT_EVERY_EVENTS + 8, answers)
        seat.archive.full = True
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers)
        assert kept_from(seat) == 1, "the store keeps it all"
        state = await seat.aggregates.archive_log.read()
        assert "takes nothing" in state.failing_reason
        assert state.holes == ()
        await seat.grow(3 * SNAPSHOT_EVERY_EVENTS, answers)
        state = await seat.aggregates.archive_log.read()
        (hole,) = state.holes[:1]
        assert hole.gap.first == SNAPSHOT_EVERY_EVENTS + 1, "the first interval was archived in time"
        assert kept_from(seat) > hole.gap.last
        seat.archive.full = False
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers)
        assert (await seat.aggregates.archive_log.read()).failing_reason == ""
        assert await answers.violations(seat.value_at) == []
        assert answers.refused
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert listed.gaps[0].first == SNAPSHOT_EVERY_EVENTS + 1
        assert "compacted without a copy" in listed.gaps[0].reason
        assert [each.sequence for each in listed.events][:3] == [1, 2, 3], "what lies before the hole is found"

    run_virtual(scenario())


def test_killed_between_the_archive_and_the_compaction() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        await seat.grow(SNAPSHOT_EVERY_EVENTS - 8, answers)
        await seat.add(1, steps=8)  # the interval ends; the process dies before anything else
        assert seat.office.leadership is not None
        await seat.store.resign(seat.office.leadership.leader)
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        await seat.lead()
        await seat.grow(3 * SNAPSHOT_EVERY_EVENTS, answers)
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        assert isinstance((await seat.aggregates.listed(TOTAL, 0, 10)).gaps, list)

    run_virtual(scenario())


def test_clocks_that_step_confuse_no_answer() -> None:
    async def scenario() -> None:
        seat = await (await ArchivingSeat("a").follow()).lead()
        answers = PastAnswers()
        await seat.grow(SNAPSHOT_EVERY_EVENTS, answers)
        seat.process.clock.skew_ms += 3_600_000
        await seat.grow(SNAPSHOT_EVERY_EVENTS)
        seat.process.clock.skew_ms -= 3_600_000
        await seat.grow(3 * SNAPSHOT_EVERY_EVENTS, answers)
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []

    run_virtual(scenario())


def test_the_checker_notices_an_answer_folded_from_empty_state() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)

        async def mutant(at_ms: int) -> object:
            past = await seat.aggregates.past(COUNTERS, "total", at_ms)
            return past.state.value - past.before.value, past.state.added - past.before.added

        assert await answers.violations(mutant)

    run_virtual(scenario())


def test_the_checker_notices_an_archive_skipping_a_removed_event() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await grown(answers)
        real = seat.shelf.open

        async def mutant(name: SegmentName) -> object:
            found = await real(name)
            return replace(found, events=(found.events[24], *found.events[1:]))

        seat.shelf.open = mutant  # type: ignore[assignment,method-assign]
        assert await answers.violations(seat.value_at)

    run_virtual(scenario())


def _shared(objects: dict[str, bytes]) -> MemoryArchive:
    return MemoryArchive(objects, shared=True)
