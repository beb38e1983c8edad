"""The consumer against a scripted assigner: what it commits is true at every instant, what it owns it works on."""

import asyncio
from datetime import UTC, datetime

import pytest

from braid.api.assigner.v1 import group_pb2
from braid.client.commits.committer import Committer
from braid.client.consumer_settings import Retry
from braid.client.consuming.consumer import Consumer
from braid.client.delivery.cursor import Cursor
from braid.client.records.record import Record
from braid.kernel.errors import Invalid
from braid.kernel.ports import FetchedColumns, TopicPartition
from tests.support.consumer_parts import cluster_work
from tests.support.scripted_control import Control, until, virtual
from tests.support.virtual_time import run_virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take


@virtual
async def test_it_says_hello_with_what_the_application_asked_for() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    async with bench() as at, member(at, "m", start=start, lanes={"live": 8}, ownership="exclusive") as (consumer, _):
        hello = at.control.members[0].hello
        assert (hello.group, list(hello.spec.streams), dict(hello.spec.lanes)) == ("g", ["logs"], {"live": 8})
        assert hello.spec.start.time_ms == 1_767_225_600_000
        assert consumer.member_id == "member-0"


@virtual
async def test_fencing_is_the_groups_unless_the_application_says() -> None:
    asked = {
        None: group_pb2.FENCING_UNSPECIFIED,
        "generation": group_pb2.FENCING_GENERATION,
        "none": group_pb2.FENCING_NONE,
    }
    for fencing, said in asked.items():
        async with bench() as at, member(at, "m", fencing=fencing):
            assert at.control.members[0].hello.spec.fencing == said


@virtual
async def test_a_partition_without_progress_begins_at_its_log_start() -> None:
    async with bench() as at:
        at.fill(10)
        at.control.clusters["east"].expire(TopicPartition(TOPIC, 0), 4)
        async with member(at, "m", FIRST) as (consumer, _):
            assert [record.offset for record in await take(consumer, 6)] == [4, 5, 6, 7, 8, 9]
            killed(consumer)


@virtual
async def test_committed_progress_is_where_it_begins() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, 4):
                at.sunk(record)
                record.ack()
        assert at.watch.last(TOPIC).committed.offset == 4
        async with member(at, "two", FIRST) as (consumer, _):
            assert [record.offset for record in await take(consumer, 6)] == list(range(4, 10))
            killed(consumer)


@virtual
async def test_out_of_order_progress_survives_a_crash_exactly() -> None:
    async with bench() as at:
        at.fill(1_000)
        async with member(at, "one", FIRST) as (consumer, client):
            taken = await take(consumer, 1_000)
            unfinished = [record for record in taken if record.offset % 7 == 3]
            for record in reversed(taken):
                if record.offset % 7 != 3:
                    at.sunk(record)
                    record.ack()
            await consumer.commit()
            client.kill()
            killed(consumer)
        async with member(at, "two", FIRST) as (consumer, _):
            again = await take(consumer, 1_000, seconds=1.0)
            assert [record.offset for record in again] == [record.offset for record in unfinished]
            killed(consumer)


@virtual
async def test_run_acknowledges_what_its_handler_leaves_unsettled() -> None:
    async with bench() as at:
        at.fill(300)
        at.fill(200, partition=1)
        async with member(at, "m", FIRST, SECOND) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.sink) == 500)
        await running
        assert {at.watch.last(TOPIC, number).committed.offset for number in (0, 1)} == {300, 200}
        assert [released.lease for released in at.control.released] == [FIRST, SECOND]
        assert not any(released.commit_waived for released in at.control.released)
        assert at.control.members[0].left


@virtual
async def test_commits_follow_an_interval_and_a_count() -> None:
    async with bench() as at:
        at.fill(12_000)
        async with member(at, "m", FIRST, commit_interval_seconds=100.0) as (consumer, _):
            for record in await take(consumer, 12_000):
                at.sunk(record)
                record.ack()
                if record.offset % 500 == 0:
                    await asyncio.sleep(0.001)
            await until(lambda: len(at.watch.commits) >= 2)
            killed(consumer)


@virtual
async def test_a_raising_handler_backs_off_while_its_neighbours_go_on() -> None:
    async with bench() as at:
        at.fill(50)
        tries: list[tuple[float, int]] = []

        async def handle(record: Record) -> None:
            if record.offset == 3 and record.attempt < 4:
                tries.append((asyncio.get_running_loop().time(), record.attempt))
                raise RuntimeError("not yet")
            at.sunk(record)

        retry = Retry(max_attempts=5, backoff_seconds=(1.0, 30.0))
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 49, seconds=0.5)
            await until(lambda: len(at.sink) == 50)
        await running
        assert [attempt for _, attempt in tries] == [1, 2, 3]
        assert 0.5 <= tries[1][0] - tries[0][0] <= 1.1
        assert 1.0 <= tries[2][0] - tries[1][0] <= 2.1


@virtual
async def test_attempts_survive_a_restart() -> None:
    async with bench() as at:
        at.fill(3)
        async with member(at, "one", FIRST) as (consumer, client):
            [first, *_] = await take(consumer, 3)
            first.retry(after_seconds=0.1)
            [again] = await take(consumer, 1)
            assert (again.offset, again.attempt) == (0, 2)
            again.retry(after_seconds=60.0)
            await consumer.commit()
            client.kill()
            killed(consumer)
        async with member(at, "two", FIRST) as (consumer, _):
            assert [record.attempt for record in await take(consumer, 3)] == [3, 1, 1]
            killed(consumer)


async def dead_lettered(at: Bench, consumer: Consumer) -> None:
    """The last attempt of record 5 fails while the dlq's cluster is frozen; then it goes on."""

    async def handle(record: Record) -> None:
        if record.offset == 5:
            raise ValueError("poison")
        at.sunk(record)

    at.control.clusters["west"].pause()
    running = asyncio.ensure_future(consumer.run(handle))
    await until(lambda: len(at.sink) == 9)
    await asyncio.sleep(2.0)
    at.control.clusters["west"].resume()
    await until(lambda: at.watch.base(TOPIC) == 10)
    running.cancel()


@virtual
async def test_a_dead_letter_is_acknowledged_before_progress_passes_it() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST, retry=Retry(max_attempts=2, backoff_seconds=(0.1, 0.1))) as (consumer, _):
            await dead_lettered(at, consumer)
        assert 5 in [each.committed.offset for each in at.watch.commits]
        [copy] = at.control.records("logs/dlq/1")
        headers = dict(copy.headers)
        assert copy.value == b"5"
        assert {name: headers[f"braid-dl-{name}"] for name in ("offset", "group", "attempts", "error-class")} == {
            "offset": b"5", "group": b"g", "attempts": b"2", "error-class": b"ValueError",
        }  # fmt: skip
        assert b"poison" in headers["braid-dl-traceback"]
        assert int(headers["braid-dl-last-failure"]) - int(headers["braid-dl-first-failure"]) >= 50


def test_a_letter_marked_before_its_acknowledgement_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    letter = Cursor.dead_letter

    def mark_first(self: Cursor, record: Record, error: BaseException | str) -> None:
        letter(self, record, error)
        self.progress.done(record.offset)
        self.version += 1

    async def run() -> list[str]:
        async with bench() as at:
            at.fill(10)
            async with member(at, "m", FIRST, retry=Retry(max_attempts=1)) as (consumer, _):
                await dead_lettered(at, consumer)
            found, at.watch.untrue = at.watch.untrue, []
            return found

    monkeypatch.setattr(Cursor, "dead_letter", mark_first)
    assert "east TopicPartition(topic='braid.logs.live.1', partition=0)@5 is claimed and not done" in run_virtual(run())


def test_a_commit_before_the_sink_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Cursor.accept

    def done_at_once(self: Cursor, fetched: FetchedColumns) -> int:
        content = accept(self, fetched)
        for part in fetched.parts:
            self.progress.done_many(part.offsets)
        return content

    async def run() -> list[str]:
        async with bench() as at:
            at.fill(10)
            async with member(at, "m", FIRST) as (consumer, _):
                await take(consumer, 10)
                await asyncio.sleep(1.0)
                killed(consumer)
            found, at.watch.untrue = at.watch.untrue, []
            return found

    monkeypatch.setattr(Cursor, "accept", done_at_once)
    assert len(run_virtual(run())) >= 10


@virtual
async def test_on_a_dlq_lane_hopeless_records_are_rejected_in_place() -> None:
    async with bench() as at:
        at.fill(1, channel="logs/dlq/1")

        async def handle(record: Record) -> None:
            raise ValueError("still hopeless")

        async with member(at, "m", "logs/dlq/1/0", retry=Retry(max_attempts=1)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: bool(at.watch.commits) and at.watch.commits[-1].committed.offset == 1)
        await running
        assert len(at.control.records("logs/dlq/1")) == 1
        assert any(0 in each.fields.rejected for each in at.watch.commits)


@virtual
async def test_a_rejected_record_is_stated_and_not_copied() -> None:
    async with bench() as at:
        at.fill(3)
        async with member(at, "m", FIRST) as (consumer, _):
            for record in await take(consumer, 3):
                record.reject("not ours")
        assert (at.watch.last(TOPIC).committed.offset, len(at.control.records("logs/dlq/1"))) == (3, 0)
        assert all(offset in at.watch.last(TOPIC).fields.rejected for offset in range(3))


@virtual
async def test_a_cluster_that_dies_and_returns_is_worked_on_again() -> None:
    async with bench() as at:
        at.fill(100)
        async with member(at, "m", FIRST, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.sink) >= 50)
            at.control.clusters["east"].kill()
            await asyncio.sleep(10.0)
            at.control.clusters["east"].start()
            at.fill(100)
            await until(lambda: len(at.sink) == 200)
            assert at.offsets() == sorted(at.offsets())
            await until(lambda: at.watch.base(TOPIC) == 200)
        await running


@virtual
async def test_a_lease_on_a_dead_cluster_is_restored_when_it_returns() -> None:
    async with bench() as at:
        at.fill(10)
        at.control.clusters["east"].kill()
        async with member(at, "m", FIRST) as (consumer, _):
            await asyncio.sleep(10.0)
            assert [lease.stage for lease in consumer.leases()] == ["restoring"]
            at.control.clusters["east"].start()
            assert len(await take(consumer, 10)) == 10
            killed(consumer)


@virtual
async def test_records_gone_before_they_were_fetched_count_as_expired() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, client):
            for record in await take(consumer, 10):
                at.sunk(record)
                record.ack()
            await consumer.commit()
            client.kafka.cut("east")
            at.fill(20)
            at.control.clusters["east"].expire(TopicPartition(TOPIC, 0), 25)
            client.kafka.mend("east")
            assert [record.offset for record in await take(consumer, 5)] == list(range(25, 30))
            await until(lambda: any(12 in each.fields.expired for each in at.watch.commits))
            killed(consumer)


@virtual
async def test_a_replaced_log_is_begun_at_its_start() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, 10):
                at.sunk(record)
                record.ack()
        offsets = at.control.clusters["east"].groups
        at.control.clusters["east"].empty()
        at.control.clusters["east"].groups = offsets  # the commits came back, the log did not
        at.control.clusters["east"].create_topic(TOPIC, 2, 1, {})
        at.fill(20)
        async with member(at, "two", FIRST) as (consumer, _):
            assert [record.offset for record in await take(consumer, 20)] == list(range(20))
            killed(consumer)


@virtual
async def test_a_last_commits_fingerprint_is_that_of_its_own_base() -> None:
    async with bench() as at:
        at.fill(1)
        at.fill(1)  # a batch of its own
        async with member(at, "m", FIRST) as (consumer, _):
            first, second = await take(consumer, 2)
            at.sunk(first)
            first.ack()
            at.control.latency = lambda: 0.5
            committer: Committer = cluster_work(consumer).committer
            committing = asyncio.ensure_future(committer.commit(committer.works, final=True))
            await asyncio.sleep(0.2)
            at.sunk(second)
            second.ack()  # while the fingerprint is on its way
            await committing
            fields = at.watch.last(TOPIC).fields
            expected = at.control.clusters["east"].fingerprint(TopicPartition(TOPIC, 0), fields.base)
            assert (fields.base, fields.fingerprint) == (1, expected)
            at.control.latency = None


@virtual
async def test_bad_settings_name_their_field() -> None:
    mesh = (await Control().start()).client("m").mesh
    with pytest.raises(Invalid, match="streams"):
        mesh.consumer("logs", group="g")
    with pytest.raises(Invalid, match="time zone"):
        mesh.consumer(["logs"], group="g", start=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(Invalid, match="ordering"):
        mesh.consumer(["logs"], group="g", ordering="keys")
    with pytest.raises(Invalid, match="fencing"):
        mesh.consumer(["logs"], group="g", fencing="epoch")
    with pytest.raises(Invalid, match=r"lanes\.live"):
        mesh.consumer(["logs"], group="g", lanes={"live": 0})
