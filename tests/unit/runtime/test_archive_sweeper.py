"""Retention: an object goes after it looked expired for a day of elapsed time; a stepping clock deletes nothing."""

from braid.archive.memory import MemoryArchive
from braid.kernel.limits.archive import ARCHIVE_EXPIRY_SECONDS
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.runtime.archive.shelf import Shelf
from braid.runtime.archive.sweeper import Sweeper
from testbed.checkers.past import PastAnswers
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import ArchivingSeat

DAY_MS = 86_400_000


async def grown(answers: PastAnswers) -> tuple[ArchivingSeat, Sweeper]:
    """A seat with an archive, and what sweeps it."""
    seat = await (await ArchivingSeat("a").follow()).lead()
    await seat.grow(5 * SNAPSHOT_EVERY_EVENTS, answers)
    sweeper = Sweeper(seat.shelf, "registry", seat.host.clock, seat.metrics, 90.0, lambda: True)
    return seat, sweeper


def test_a_clock_that_is_wrong_for_an_hour_deletes_nothing() -> None:
    async def scenario() -> None:
        seat, sweeper = await grown(PastAnswers())
        before = dict(seat.archive.objects)
        await sweeper.sweep()
        seat.process.clock.skew_ms += 400 * DAY_MS
        await sweeper.sweep()
        await seat.host.clock.sleep(3_600)
        await sweeper.sweep()
        seat.process.clock.skew_ms -= 400 * DAY_MS
        await seat.host.clock.sleep(ARCHIVE_EXPIRY_SECONDS)
        await sweeper.sweep()
        assert seat.archive.objects == before

    run_virtual(scenario())


def test_expired_objects_go_after_a_day_and_are_reported_so() -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat, sweeper = await grown(answers)
        live, before = await seat.value_at(0), len(seat.archive.objects)
        seat.process.clock.skew_ms += 91 * DAY_MS
        await sweeper.sweep()
        assert len(seat.archive.objects) == before, "it only looks expired yet"
        await seat.host.clock.sleep(ARCHIVE_EXPIRY_SECONDS)
        await sweeper.sweep()
        assert 0 < len(seat.archive.objects) < before
        assert await seat.value_at(0) == live
        assert await answers.violations(seat.value_at) == []
        assert answers.refused

    run_virtual(scenario())


def test_a_follower_leaves_a_shared_archive_to_the_leader() -> None:
    async def scenario() -> None:
        seat, _ = await grown(PastAnswers())
        before = dict(seat.archive.objects)
        shelf = Shelf(MemoryArchive(seat.archive.objects, shared=True), seat.host.clock, seat.others)
        sweeper = Sweeper(shelf, "registry", seat.host.clock, seat.metrics, 90.0, lambda: False)
        seat.process.clock.skew_ms += 400 * DAY_MS
        await sweeper.sweep()
        await seat.host.clock.sleep(ARCHIVE_EXPIRY_SECONDS)
        await sweeper.sweep()
        assert seat.archive.objects == before

    run_virtual(scenario())
