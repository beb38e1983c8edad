"""Work that a crash would repeat stays bounded: new work waits if commits get no answer, and only then."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from braid.client.commits import committer
from braid.client.commits.committer import Committer
from braid.client.consuming import consumer
from braid.client.consuming.consumer import Consumer
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound
from braid.kernel.limits.assigner.leases import CLUSTER_REACHED_SECONDS
from braid.kernel.limits.client import FETCH_RECORDS_MAX, FINAL_COMMIT_SECONDS, RECOMMIT_SECONDS
from braid.kernel.ports import Committed, Generation, TopicPartition
from tests.support.consumer_parts import cluster_work
from tests.support.scripted_control import Client, until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, member

BOUND = 300
IN_MEMORY = 400  # records fetched and not handed out
MOST = BOUND + IN_MEMORY + FETCH_RECORDS_MAX  # a fetch that is on its way comes in
SECONDS = 0.001  # that a record takes, one at a time
WEST = "logs/live/2"
Commit = Callable[[str, Mapping[TopicPartition, Committed], Generation | None], Awaitable[None]]


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is reached soon."""
    monkeypatch.setattr(committer, "UNCOMMITTED_RECORDS_MAX", BOUND)
    monkeypatch.setattr(consumer, "READY_RECORDS_MAX", IN_MEMORY)
    monkeypatch.setattr(consumer, "READY_RECORDS_PER_HANDLER", 0)


@dataclass
class Scene:
    """A member whose commits on east pass through here; everything else there answers."""

    at: Bench
    consumer: Consumer
    client: Client
    error: BraidError | None = None  # that commits end with
    seconds: float = 0.0  # before they are answered
    asked: int = 0

    @property
    def committer(self) -> Committer:
        return cluster_work(self.consumer).committer

    def intercept(self) -> None:
        """Commits on east pass through here from now on."""
        offsets = cluster_work(self.consumer).offsets
        commit: Commit = offsets.commit

        async def asked(group: str, commits: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
            self.asked += 1
            await asyncio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            await commit(group, commits, generation)

        vars(offsets)["commit"] = asked  # as a coordinator that loads, beside partitions that are led

    async def come_to_wait(self) -> None:
        """From now on no commit is answered, and there is more to do than may be done so."""
        self.error = ClusterUnavailable("the coordinator loads")
        self.at.fill(20_000)
        await until(lambda: self.committer.stopped, seconds=60.0)

    def blocked(self) -> tuple[str, ...]:
        """The reasons that `explain` gives for the first lease."""
        return next(each.blocked for each in self.consumer.explain() if each.lease == FIRST)


@asynccontextmanager
async def scene(*leases: str, **settings: object) -> AsyncIterator[Scene]:
    """A member at work, and committed."""
    async with bench() as at:
        at.control.add_channel(WEST, "west")
        await at.control.move("logs/live/1", WEST, "logs/bulk/1", "logs/dlq/1")
        at.fill(10)
        async with member(at, "m", FIRST, *leases, concurrency=1, **settings) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.sink) == 10)
            await consumer.commit()
            made = Scene(at, consumer, client)
            made.intercept()
            yield made
            made.error, made.seconds = None, 0.0
        with suppress(asyncio.CancelledError):
            await running


@virtual
async def test_work_waits_at_a_bound_while_no_commit_is_answered() -> None:
    async with scene() as on:
        on.error = ClusterUnavailable("the coordinator loads")
        on.at.fill(20_000)
        await asyncio.sleep(300.0)
        done = len(on.at.sink)
        assert BOUND < done <= CLUSTER_REACHED_SECONDS / SECONDS + MOST
        on.at.fill(1_000)
        await asyncio.sleep(60.0)
        assert len(on.at.sink) == done
        on.error = None
        await until(lambda: on.at.watch.base(TOPIC) == 21_010, seconds=60.0)


@virtual
async def test_no_more_is_done_than_the_bound_once_it_holds() -> None:
    async with scene() as on:
        on.error = ClusterUnavailable("the coordinator loads")
        on.at.fill(BOUND - 100)
        await asyncio.sleep(60.0)
        assert len(on.at.sink) == BOUND - 90  # below it work goes on, however long no commit is answered
        assert not on.committer.stopped
        on.at.fill(20_000)
        await asyncio.sleep(60.0)
        assert BOUND < len(on.at.sink) <= MOST
        on.error = None
        await until(lambda: on.at.watch.base(TOPIC) == 20_000 + BOUND - 90, seconds=60.0)


@virtual
async def test_it_is_said_why_and_said_once() -> None:
    told = _Told()
    logger = logging.getLogger("braid.consumer")
    logger.addHandler(told)
    try:
        async with scene() as on:
            on.error = ClusterUnavailable("the coordinator loads")
            on.at.fill(20_000)
            await asyncio.sleep(60.0)
            reasons = ("no commit was answered lately by cluster east", "too much is not committed: fetching pauses")
            assert on.blocked() == reasons
            (said,) = told.said
            assert "no commit of group g is answered" in said and "the coordinator loads" in said
            on.error = None
            await until(lambda: not on.blocked())
            on.error = ClusterUnavailable("the coordinator loads again")
            on.at.fill(20_000)
            await asyncio.sleep(60.0)
            assert len(told.said) == 2
    finally:
        logger.removeHandler(told)


class _Told(logging.Handler):
    """Collects log messages about pauses."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "fetching pauses" in record.getMessage():
            self.said.append(record.getMessage())


@virtual
async def test_other_clusters_go_on() -> None:
    async with scene(f"{WEST}/0") as on:
        await on.come_to_wait()
        await asyncio.sleep(5.0)
        done = len(on.at.offsets())
        on.at.fill(5_000, channel=WEST)
        await until(lambda: on.at.watch.base("braid.logs.live.2") == 5_000)
        assert len(on.at.offsets()) == done


@virtual
async def test_a_cluster_that_answers_late_stops_nothing() -> None:
    async with scene() as on:
        on.seconds = CLUSTER_REACHED_SECONDS - 1.0
        for _ in range(100):
            on.at.fill(200)
            await asyncio.sleep(0.2)
            assert not on.committer.stopped
        await until(lambda: len(on.at.sink) == 20_010)
        await until(lambda: on.at.watch.base(TOPIC) == 20_010)


@virtual
async def test_a_long_idle_member_is_owed_no_answer() -> None:
    async with scene(commit_interval_seconds=10.0) as on:
        await asyncio.sleep(RECOMMIT_SECONDS - 5.0)
        assert on.committer.unreachable
        on.at.fill(2 * BOUND)
        await until(lambda: len(on.at.sink) == 10 + 2 * BOUND, seconds=2.0)
        assert not on.committer.stopped


@virtual
async def test_a_commit_that_is_refused_for_one_partition_was_answered() -> None:
    async with scene() as on:
        on.error = NotFound("group g, braid.logs.live.9 partition 3 does not exist")
        on.at.fill(20_000)
        await until(lambda: len(on.at.sink) == 20_010)
        await asyncio.sleep(60.0)
        assert not (on.committer.stopped or on.committer.unreachable)


@virtual
async def test_such_an_answer_too_ends_the_wait() -> None:
    async with scene() as on:
        await on.come_to_wait()
        await asyncio.sleep(5.0)
        on.error = NotFound("group g, braid.logs.live.9 partition 3 does not exist")
        await until(lambda: len(on.at.sink) == 20_010)


@virtual
async def test_a_long_interval_does_not_make_the_wait_longer() -> None:
    async with scene(commit_interval_seconds=600.0) as on:
        on.committer.hurry()  # else the first is due after the interval
        await on.come_to_wait()
        await asyncio.sleep(30.0)
        on.error = None
        await until(lambda: not on.committer.stopped, seconds=CLUSTER_REACHED_SECONDS + 1.0)
        await until(lambda: len(on.at.sink) == 20_010)


@virtual
async def test_a_lease_ends_as_ever_where_nothing_answers() -> None:
    async with scene() as on:
        east = on.at.control.clusters["east"]
        await on.come_to_wait()
        east.kill()
        await asyncio.sleep(5.0)
        await on.at.control.revoke(0, FIRST)
        await until(lambda: bool(on.at.control.released), seconds=FINAL_COMMIT_SECONDS + 5.0)
        assert on.at.control.released[0].commit_waived
        assert not on.consumer.leases()
        east.start()


@virtual
async def test_what_went_with_its_lease_holds_back_no_other() -> None:
    async with scene(SECOND) as on:
        await on.come_to_wait()
        await on.at.control.revoke(0, FIRST, deadline_ms=0)
        await until(lambda: len(on.consumer.leases()) == 1)
        on.at.fill(100, partition=1)
        await asyncio.sleep(5.0)
        on.error = None
        await until(lambda: len(on.at.offsets(partition=1)) == 100, seconds=2.0)  # it had nothing to commit itself


@virtual
async def test_a_lease_that_is_granted_later_begins_at_once() -> None:
    async with scene(commit_interval_seconds=600.0) as on:
        on.committer.hurry()  # else the first is due after the interval
        await on.come_to_wait()
        await on.at.control.revoke(0, FIRST, deadline_ms=0)
        await until(lambda: not on.consumer.leases())
        await asyncio.sleep(60.0)
        on.at.fill(100, partition=1)
        on.error = None
        await on.at.control.grant(0, SECOND)
        await until(lambda: len(on.at.offsets(partition=1)) == 100, seconds=2.0)


@virtual
async def test_control_without_the_rule_all_of_it_is_done() -> None:
    async with scene() as on:
        on.committer.__class__ = _Unbounded
        on.error = ClusterUnavailable("the coordinator loads")
        on.at.fill(20_000)
        await until(lambda: len(on.at.sink) == 20_010, seconds=60.0)


class _Unbounded(Committer):
    """The mutant: only what is refused is waited for."""

    _awaiting = False
