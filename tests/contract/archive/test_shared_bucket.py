"""Replicas that share a bucket over real HTTP, on virtual time: I19 across outages of the bucket and changes of leader.

Requests run within the loop, so that virtual time stands still meanwhile.
"""

from typing import cast

from braid.archive.bucket import BucketArchive, BucketPlace
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import Tasks
from testbed.checkers.past import PastAnswers
from tests.support.inline_threads import InlineThreads
from tests.support.s3_server import S3Server
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import TOTAL, ArchivingSeat, kept_from


class Inline:
    """Runs what blocks at once."""

    def threads(self, count: int, name: str) -> InlineThreads:
        """See `Tasks`."""
        return InlineThreads()


def archive(url: str) -> BucketArchive:
    """A replica's way to the bucket."""

    async def mesh() -> str:
        return "01KDVDNA3GE8B4JC8ZK0MT3NS0"

    return BucketArchive(BucketPlace.parse(url), mesh, cast("Tasks", Inline()))


def failing(seat: ArchivingSeat) -> float | None:
    return seat.metrics.registry.get_sample_value("braid_archive_failing")


def test_any_replica_reads_the_bucket_but_only_the_leader_writes(bucket: str, s3: S3Server) -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        first = await ArchivingSeat("a").archives_to(archive(bucket)).follow()
        second = await ArchivingSeat("b", first.store.server).archives_to(archive(bucket)).follow()
        await first.lead()
        await first.grow(3 * SNAPSHOT_EVERY_EVENTS + 8, answers, every=16)
        assert kept_from(first) > SNAPSHOT_EVERY_EVENTS
        written = [each for each in s3.requests if each.startswith("PUT") and each.endswith(".seg")]
        assert len(written) == len(set(written)) > 0, "each segment is sent once"
        for seat in (first, second):
            assert await answers.violations(seat.value_at) == []
            assert answers.refused == []
        held = first.office.leadership
        assert held is not None
        await first.store.resign(held.leader)
        first.office.leadership = None
        await second.lead()
        await second.grow(SNAPSHOT_EVERY_EVENTS, answers, every=16)
        third = await ArchivingSeat("c", first.store.server).archives_to(archive(bucket)).follow()
        assert await answers.violations(third.value_at) == []
        assert answers.refused == []

    run_virtual(scenario())


def test_an_absent_bucket_is_reported_and_stops_compaction(bucket: str, s3: S3Server) -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").archives_to(archive(bucket)).follow()).lead()
        await seat.grow(2 * SNAPSHOT_EVERY_EVENTS + 8, answers, every=16)
        before = kept_from(seat)
        s3.stop()
        try:
            await seat.grow(2 * SNAPSHOT_EVERY_EVENTS, answers, every=16)
            assert kept_from(seat) == before, "the store keeps what is in no archive"
            notes = await seat.aggregates.archive_log.read()
            assert "bucket" in notes.failing_reason and notes.failing_since_ms
            assert notes.holes == ()
            assert failing(seat) == 1
        finally:
            s3.start()
        await seat.grow(SNAPSHOT_EVERY_EVENTS, answers, every=16)
        assert kept_from(seat) > before + SNAPSHOT_EVERY_EVENTS
        assert (await seat.aggregates.archive_log.read()).failing_reason == ""
        assert failing(seat) == 0
        seat.archives_to(archive(bucket))
        await seat.follow()
        assert await answers.violations(seat.value_at) == []
        assert answers.refused == []
        assert (await seat.aggregates.listed(TOTAL, 0, 10_000)).gaps == []

    run_virtual(scenario())


def test_beyond_the_bound_the_hole_is_an_event(bucket: str, s3: S3Server) -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").archives_to(archive(bucket)).follow()).lead()
        seat.aggregates.snapshots.backlog_events_max = 2 * SNAPSHOT_EVERY_EVENTS
        s3.refuses = lambda request: request.startswith("PUT")
        await seat.grow(4 * SNAPSHOT_EVERY_EVENTS, answers, every=16)
        s3.refuses = lambda request: False
        await seat.grow(SNAPSHOT_EVERY_EVENTS, answers, every=16)
        (hole, *_) = (await seat.aggregates.archive_log.read()).holes
        assert hole.gap.first == 1
        assert await answers.violations(seat.value_at) == []
        assert answers.refused, "what was not archived is refused, not guessed"

    run_virtual(scenario())
