"""Replays in a whole mesh on virtual time: what is sent once, again or never, though leaders and clusters die."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1.replay_pb2 import (
    REPLAY_STATE_CANCELLED,
    REPLAY_STATE_PAUSED,
    Replay,
)
from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.kernel.decider import Context
from braid.kernel.errors import Refused
from braid.kernel.limits.dlq import REPLAY_BATCH_LETTERS_MAX
from braid.kernel.ports import FetchedRecords, TopicPartition
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Kind, Outcome
from services.dlq.domain.replay import Replay as State
from services.dlq.domain.replay import ReplayDecider
from services.dlq.index.tail import ClusterTail
from services.dlq.model.events import Advance, BeginBatch, Command, Event
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play


@pytest.mark.slow
@pytest.mark.parametrize("after_seconds", [0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_a_leader_killed_in_a_replay_repeats_at_most_one_batch(tmp_path: Path, after_seconds: float) -> None:
    async def scene(mesh: Mesh) -> None:
        count = 2 * REPLAY_BATCH_LETTERS_MAX + 7
        await mesh.park(count)
        await mesh.indexed(count)
        job = await mesh.replay()
        await mesh.host.clock.sleep(after_seconds)
        mesh.kill(mesh.leader())
        check_replayed(mesh, await over(mesh, job.id), count)

    play(tmp_path, scene)


def check_replayed(mesh: Mesh, done: Replay, count: int) -> None:
    """Each at least once; what came twice is counted, and no more than a batch."""
    seen = mesh.replayed()
    assert set(seen) == {f"01ARZ:{number}" for number in range(count)}
    repeats = seen.total() - count
    assert repeats <= done.status.repeated <= REPLAY_BATCH_LETTERS_MAX
    assert (done.status.matched, done.status.sent) == (count, count)


async def killed_within_a_batch(mesh: Mesh) -> None:
    """The leader dies with records in the log that its history does not tell of."""
    count = REPLAY_BATCH_LETTERS_MAX + 7
    await mesh.park(count)
    await mesh.indexed(count)
    job = await mesh.replay()
    while not mesh.replayed():
        await mesh.host.clock.sleep(0.0002)
    mesh.kill(mesh.leader())
    done = await over(mesh, job.id)
    assert mesh.replayed().total() > count, "nothing came twice: the scene shows nothing"
    check_replayed(mesh, done, count)


def test_a_leader_killed_within_a_batch_resends_it_and_says_so(tmp_path: Path) -> None:
    play(tmp_path, killed_within_a_batch)


def test_a_job_that_forgets_its_open_batch_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ReplayDecider.evolve

    def forgetful(self: ReplayDecider, state: State, event: Event, context: Context) -> State:
        return replace(honest(self, state, event, context), open_again=False)

    monkeypatch.setattr(ReplayDecider, "evolve", forgetful)
    with pytest.raises(AssertionError, match=r"assert \d+ <= 0"):
        play(tmp_path, killed_within_a_batch)


def test_a_batch_sent_before_its_intent_is_recorded_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Aggregates.execute
    begun: dict[str, Command] = {}

    async def late(
        self: Aggregates, kind: Kind[State, Command, Event], id: str, command: Command, **who: str
    ) -> Outcome[State] | None:
        if isinstance(command, BeginBatch):
            begun[id] = command
            return None
        if isinstance(command, Advance):
            await honest(self, kind, id, begun[id], **who)
        return await honest(self, kind, id, command, **who)

    monkeypatch.setattr(Aggregates, "execute", late)
    with pytest.raises(AssertionError, match=r"assert \d+ <= 0"):
        play(tmp_path, killed_within_a_batch)


def test_a_replay_keeps_its_rate_and_can_pause_resume_and_cancel(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(300)
        await mesh.indexed(300)
        started = mesh.host.clock.elapsed()
        job = await mesh.replay(rate_per_s=50.0)
        await over(mesh, job.id)
        assert mesh.host.clock.elapsed() - started == pytest.approx(6.0, rel=0.05)

        job = await mesh.replay(rate_per_s=50.0, broadcast=True)
        await mesh.host.clock.sleep(2.2)
        paused = await mesh.dlq.unary("PauseReplay", api.PauseReplayRequest(id=job.id), Replay)
        assert paused.status.state == REPLAY_STATE_PAUSED
        await mesh.host.clock.sleep(5.0)
        stood = (await mesh.job(job.id)).status.sent
        assert 0 < stood <= paused.status.sent + 25
        await mesh.dlq.unary("ResumeReplay", api.ResumeReplayRequest(id=job.id), Replay)
        await mesh.host.clock.sleep(1.6)
        await mesh.dlq.unary("CancelReplay", api.CancelReplayRequest(id=job.id), Replay)
        await mesh.host.clock.sleep(3.0)
        ended = await mesh.job(job.id)
        assert stood < ended.status.sent < 300
        assert (ended.status.state, ended.status.repeated) == (REPLAY_STATE_CANCELLED, 0)
        with pytest.raises(Refused):
            await mesh.dlq.unary("ResumeReplay", api.ResumeReplayRequest(id=job.id), Replay)
        assert mesh.replayed().total() == 300 + ended.status.sent

    play(tmp_path, scene)


def test_what_cannot_be_sent_is_skipped_and_says_why(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(1)
        await mesh.park(2, first=10, headers=(("braid-replays", b"5"),))
        await mesh.park(1, first=20, headers=(("braid-dl-quarantine", b"bomb"),))
        await mesh.park(1, first=30, headers=(("braid-dl-lane", b"bulk"),))
        await mesh.park(1, first=40, headers=(("braid-dl-cut", b"99999"),))
        await mesh.indexed(6)
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.sent, done.status.skipped, done.status.matched) == (1, 5, 6)
        for reason in ("skipped 2: replayed 5 times", "quarantined", "its lane is not known", "the original is gone"):
            assert reason in done.status.reason
        assert set(mesh.replayed()) == {"01ARZ:0"}

    play(tmp_path, scene)


def lose(directory: Path) -> None:
    """Deletes every index."""
    for each in directory.iterdir():
        each.unlink()


def test_a_job_created_while_the_index_is_rebuilt_omits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = ClusterTail._take

    async def scene(mesh: Mesh) -> None:
        await mesh.park(30)
        await mesh.indexed(30)
        for name in ("dlq-0", "dlq-1"):
            mesh.kill(name)
        lose(tmp_path)

        async def slowly(self: ClusterTail, fetched: FetchedRecords) -> None:
            await mesh.host.clock.sleep(8.0)
            await take(self, fetched)

        monkeypatch.setattr(ClusterTail, "_take", slowly)
        await mesh.run_service("dlq-0")

        async def leads() -> bool:
            return bool(mesh.leader())

        await mesh.until(leads)
        job = await mesh.replay()
        assert job.status.matched == 30
        done = await over(mesh, job.id)
        assert (done.status.sent, set(mesh.replayed().values())) == (30, {1})

    play(tmp_path, scene)


def test_a_cut_letter_is_sent_from_its_original(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        async with mesh.client.producer("logs") as producer:
            receipt = await producer.send(b"the whole value", key=b"k", headers={"own": b"1"})
        cut = (("braid-dl-cut", b"15"), ("braid-dl-origin-id", receipt.id.encode()))
        await mesh.park(1, first=receipt.offset, headers=cut)
        await mesh.indexed(1)
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.sent, done.status.skipped) == (1, 0)
        log = mesh.kafka.named("east").log(TopicPartition("braid.logs.live.1", 0))
        last = log.batches[-1].records[-1]
        assert (last.value, last.key, dict(last.headers)["own"]) == (b"the whole value", b"k", b"1")
        assert dict(last.headers)["braid-replay-group"] == b"indexer"

    play(tmp_path, scene)


def test_a_repeated_request_makes_one_job_that_names_no_group(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.create("other", "live", "bulk")
        await mesh.park(2)
        await mesh.indexed(2)
        jobs = {(await mesh.replay("r-1", destination="other/bulk")).id for _ in range(3)}
        assert len(jobs) == 1
        mesh.kill(mesh.leader())
        assert (await mesh.replay("r-1", destination="other/bulk")).id in jobs
        await over(mesh, jobs.pop())
        log = mesh.kafka.named("east").log(TopicPartition("braid.other.bulk.1", 0))
        headers = [dict(record.headers) for batch in log.batches for record in batch.records]
        assert [each["braid-lane"] for each in headers] == [b"bulk", b"bulk"]
        assert not any("braid-replay-group" in each for each in headers)

    play(tmp_path, scene)


def test_a_replay_waits_for_a_dead_cluster_and_says_so(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(3)
        await mesh.indexed(3)
        mesh.kafka.named("east").kill()
        job = await mesh.replay()

        async def says() -> bool:
            return "waits for the cluster" in (await mesh.job(job.id)).status.reason

        await mesh.until(says, 60)
        mesh.kafka.named("east").start()
        done = await over(mesh, job.id, seconds=120)
        assert (done.status.sent, done.status.repeated) == (3, 0)

    play(tmp_path, scene)


def test_a_frozen_leader_that_wakes_too_late_sends_nothing_more(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        count = 2 * REPLAY_BATCH_LETTERS_MAX + 7
        await mesh.park(count)
        await mesh.indexed(count)
        job = await mesh.replay()
        while not mesh.replayed():
            await mesh.host.clock.sleep(0.0002)
        ghost = mesh.leader()
        mesh.processes[ghost].pause()
        try:
            done = await over(mesh, job.id)
        finally:
            mesh.processes[ghost].resume()
        await mesh.host.clock.sleep(10.0)
        check_replayed(mesh, done, count)
        assert (await mesh.job(job.id)).status == done.status

    play(tmp_path, scene)


def test_a_fixed_handler_gets_its_letter_and_no_other_group_does(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        mended = False
        handled: list[tuple[str, str]] = []

        async def consume(group: str) -> None:
            async def handle(record: Record) -> None:
                if group == "indexer" and not mended:
                    raise ValueError("not yet")
                handled.append((group, record.id))

            async with mesh.application(f"app-{group}") as application:
                consumer = application.consumer(["logs"], group=group, retry=Retry(max_attempts=1))
                async with consumer:
                    await consumer.run(handle)

        members = [asyncio.create_task(consume(group)) for group in ("indexer", "other")]
        async with mesh.client.producer("logs") as producer:
            receipt = await producer.send(b"x")
        await mesh.indexed(1)
        letter = (await mesh.letters("error=ValueError and group=indexer")).letters[0]
        assert letter.origin.id == receipt.id
        mended = True
        await over(mesh, (await mesh.replay()).id)

        async def both() -> bool:
            return len(handled) >= 2

        await mesh.until(both)
        await mesh.host.clock.sleep(5.0)
        assert sorted(handled) == [("indexer", receipt.id), ("other", receipt.id)]
        for each in members:
            each.cancel()
        await asyncio.gather(*members, return_exceptions=True)

    play(tmp_path, scene)
