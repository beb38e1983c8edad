"""The consumer and its leases: given back, lost, kept over broken streams; exclusive ones given up in time."""

import asyncio

import pytest

from braid.client.membership.join_stream import JoinStream
from braid.client.records.record import Record
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import run_virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take


@virtual
async def test_a_revoked_lease_is_drained_committed_and_given_back() -> None:
    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST, SECOND) as (consumer, _):
            taken = await take(consumer, 3)
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(1.0)
            assert at.control.released == []  # three records are still out
            for record in taken:
                at.sunk(record)
                record.ack()
            await until(lambda: [released.lease for released in at.control.released] == [FIRST])
            assert at.watch.last(TOPIC).committed.offset == 3
            assert at.watch.last(TOPIC).fields.fingerprint is not None
            assert [lease.name for lease in consumer.leases()] == [SECOND]
            assert await consumer.take(0.5) is None


@virtual
async def test_a_drained_partition_returns_a_trip_after_its_last_one() -> None:
    async with bench() as at:
        for _ in range(10):
            at.fill(1)  # a batch of its own
        async with member(at, "m", FIRST, commit_interval_seconds=60.0) as (consumer, _):
            taken = await take(consumer, 3)
            at.control.latency = lambda: 0.1  # one way, to the cluster
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(0.5)
            for record in taken:
                at.sunk(record)
                record.ack()
            await until(lambda: bool(at.control.released), seconds=0.25)
            fields = at.watch.last(TOPIC).fields
            expected = at.control.clusters["east"].fingerprint(TopicPartition(TOPIC, 0), 3)
            assert (fields.base, fields.fingerprint) == (3, expected)


@virtual
async def test_a_drain_past_its_deadline_commits_what_is_done() -> None:
    async with bench() as at:
        for _ in range(10):
            at.fill(1)  # a batch of its own
        async with member(at, "m", FIRST) as (consumer, _):
            for record in (await take(consumer, 5))[:2]:
                at.sunk(record)
                record.ack()
            await at.control.revoke(0, FIRST, deadline_ms=1_000)
            await until(lambda: bool(at.control.released), seconds=1.0)
            expected = at.control.clusters["east"].fingerprint(TopicPartition(TOPIC, 0), 2)
            assert (at.watch.last(TOPIC).fields.base, at.watch.last(TOPIC).fields.fingerprint) == (2, expected)


@virtual
async def test_a_last_commit_that_cannot_be_made_is_waived() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, _):
            for record in await take(consumer, 5):
                at.sunk(record)
                record.ack()
            at.control.clusters["east"].kill()
            await at.control.revoke(0, FIRST)
            await until(lambda: bool(at.control.released))
            assert at.control.released[0].commit_waived


@virtual
async def test_a_lost_lease_is_dropped_without_a_commit() -> None:
    async with bench() as at:
        at.fill(10)
        revoked: list[str] = []
        async with member(at, "m", FIRST, on_revoked=revoked.extend) as (consumer, _):
            taken = await take(consumer, 5)
            before = len(at.watch.commits)
            await at.control.revoke(0, FIRST, deadline_ms=0)
            await until(lambda: not consumer.leases())
            for record in taken:
                record.ack()
            await asyncio.sleep(2.0)
            assert len(at.watch.commits) == before
            assert (at.control.released, revoked) == ([], [FIRST])


@virtual
async def test_a_delayed_commit_leaves_out_leases_lost_meanwhile() -> None:
    async with bench() as at:
        at.fill(10)
        at.fill(10, partition=1)
        async with member(at, "m", FIRST, SECOND) as (consumer, _):
            for record in await take(consumer, 20):
                at.sunk(record)
                record.ack()
            at.control.clusters["east"].pause()
            await asyncio.sleep(1.0)  # a commit hangs
            later = asyncio.ensure_future(consumer.commit())
            await asyncio.sleep(0.1)
            await at.control.revoke(0, FIRST, deadline_ms=0)
            await until(lambda: len(consumer.leases()) == 1)
            count = len(at.watch.commits)
            await asyncio.sleep(5.0)
            at.control.clusters["east"].resume()
            await later
            # The hanging one was made while the lease was held; whatever came after leaves it out.
            parts = [each.partition.partition for each in at.watch.commits[count:]]
            assert parts.count(0) <= 1
            assert parts.count(1) >= 2
            killed(consumer)


@virtual
async def test_a_member_without_its_stream_keeps_its_leases_and_works() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, _):
            await take(consumer, 5)
            at.control.network.kill("control")
            await asyncio.sleep(1.0)
            assert len(await take(consumer, 5)) == 5
            await at.control.start()
            await until(lambda: len(at.control.members) == 2)
            assert [held.lease for held in at.control.members[1].hello.held] == [FIRST]
            assert at.control.members[1].hello.member_id == "member-0"
            killed(consumer)


@virtual
async def test_a_lease_the_welcome_omits_is_dropped_without_a_commit() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, _):
            for record in await take(consumer, 5):
                record.ack()
            at.control.held["member-0"].clear()
            at.control.network.kill("control")
            count = len(at.watch.commits)
            await at.control.start()
            await until(lambda: not consumer.leases())
            await asyncio.sleep(1.0)
            at.watch.untrue.clear()
            assert len(at.watch.commits) == count


@virtual
async def test_a_lease_released_in_an_outage_is_not_in_the_next_hello() -> None:
    async with bench() as at:
        at.fill(5)
        async with member(at, "m", FIRST, SECOND) as (consumer, _):
            [record] = await take(consumer, 1)
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(0.1)
            at.control.network.kill("control")
            at.sunk(record)
            record.ack()
            await until(lambda: len(consumer.leases()) == 1)
            await at.control.start()
            await until(lambda: len(at.control.members) == 2)
            assert [held.lease for held in at.control.members[1].hello.held] == [SECOND]


@virtual
async def test_a_silent_assigner_is_left_for_whoever_leads_now() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        at.control.answers_heartbeats = False
        await until(lambda: len(at.control.members) == 2, seconds=6.0)
        at.control.answers_heartbeats = True
        assert [lease.name for lease in consumer.leases()] == [FIRST]


async def last_start_and_deadline(at: Bench) -> tuple[float, float]:
    """When an exclusive member started its last handler, and when it had to stop starting them."""
    loop = asyncio.get_running_loop()
    starts: list[float] = []
    at.control.network.set_latency("control", "m", 0.4, 0.4)

    async def handle(record: Record) -> None:
        starts.append(loop.time())
        at.sunk(record)

    async with member(at, "m", FIRST, ownership="exclusive", concurrency=1) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(handle))
        await asyncio.sleep(5.0)
        at.control.answers_heartbeats = False
        heard_last = loop.time()  # any acknowledged heartbeat was sent 0.4 s before this, or earlier
        for _ in range(400):
            at.fill(1)
            await asyncio.sleep(0.01)
        await until(lambda: len(at.control.members) >= 2)  # it says that it holds nothing any more
        running.cancel()
    lease = at.control.lease_ms / 1_000
    return starts[-1], heard_last - 0.4 + lease * 0.99 - lease * 0.1


@virtual
async def test_an_exclusive_member_starts_nothing_near_its_deadline() -> None:
    async with bench() as at:
        started, deadline = await last_start_and_deadline(at)
        assert deadline - 1.0 < started <= deadline
        assert list(at.control.members[1].hello.held) == []


def test_a_deadline_measured_from_the_reply_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_the_reply(self: JoinStream, sequence: int) -> None:
        self._held.extend(self._host.clock.elapsed())

    async def run() -> tuple[float, float]:
        async with bench() as at:
            return await last_start_and_deadline(at)

    monkeypatch.setattr(JoinStream, "_acknowledged", from_the_reply)
    started, deadline = run_virtual(run())
    assert started > deadline


@virtual
async def test_an_exclusive_members_handlers_end_with_its_lost_lease() -> None:
    async with bench() as at:
        at.fill(3)
        begun: list[int] = []
        cancelled: list[int] = []

        async def handle(record: Record) -> None:
            begun.append(record.offset)
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                cancelled.append(record.offset)
                raise

        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
            await at.control.revoke(0, FIRST, deadline_ms=0)
            await until(lambda: cancelled == [0, 1, 2])
            await at.control.grant(0, FIRST)
            at.fill(1)
            await until(lambda: sorted(begun) == [0, 0, 1, 1, 2, 2, 3])  # its slots live on
            assert cancelled == [0, 1, 2]
            running.cancel()
            killed(consumer)
