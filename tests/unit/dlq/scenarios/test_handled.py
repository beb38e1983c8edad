"""A letter is handled once its group is done with the replayed record, and in no case that proves less."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.dlq.v1.dead_letter_pb2 import (
    DEAD_LETTER_STATE_HANDLED,
    DEAD_LETTER_STATE_PARKED_AGAIN,
    DEAD_LETTER_STATE_REPLAYED,
    DeadLetterState,
)
from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import FetchedRecords, TopicPartition
from services.dlq.index.tail import ClusterTail
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play
from tests.unit.dlq.scenarios.test_replays import lose

LIVE = TopicPartition("braid.logs.live.1", 0)


class Handler:
    """An application of group `indexer`; `works` says whether it handles a record or fails."""

    def __init__(self, works: bool = False) -> None:
        self.works = works
        self.handled: list[str] = []

    async def __call__(self, record: Record) -> None:
        if not self.works:
            raise ValueError("not yet")
        self.handled.append(record.id)

    async def has_worked(self) -> bool:
        """Whether it handled anything."""
        return bool(self.handled)


@asynccontextmanager
async def running(mesh: Mesh, handler: Handler) -> AsyncIterator[None]:
    """One member of the group is at work within."""

    async def consume() -> None:
        application = mesh.application("app")
        consumer = application.consumer(["logs"], group="indexer", retry=Retry(max_attempts=1))
        async with application, consumer:
            await consumer.run(handler)

    task = asyncio.create_task(consume())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def register(mesh: Mesh, fencing: "group_pb2.Fencing.ValueType" = group_pb2.FENCING_GENERATION) -> None:
    """Makes the group before its first member."""
    request = assigner_api.CreateGroupRequest(
        name="indexer", spec=group_pb2.GroupSpec(streams=["logs"], fencing=fencing)
    )
    await mesh.client.service("assigner").unary("CreateGroup", request, group_pb2.Group)


async def given_up(mesh: Mesh, count: int = 1) -> None:
    """Makes this many records fail and become dead letters."""
    async with running(mesh, Handler()):
        async with mesh.client.producer("logs") as producer:
            for number in range(count):
                await producer.send(b"%d" % number)
        await mesh.indexed(count)


async def states(mesh: Mesh) -> list["DeadLetterState.ValueType"]:
    """The states of all letters, newest first."""
    return [letter.state for letter in (await mesh.letters()).letters]


async def become(mesh: Mesh, *wanted: "DeadLetterState.ValueType", seconds: float = 30.0) -> None:
    """Waits until letters are in these states."""

    async def are() -> bool:
        return await states(mesh) == list(wanted)

    await mesh.until(are, seconds)


async def stay(mesh: Mesh, *wanted: "DeadLetterState.ValueType", seconds: float = 10.0) -> None:
    """Letters are in these states all the time."""
    until = mesh.host.clock.elapsed() + seconds
    while mesh.host.clock.elapsed() < until:
        assert await states(mesh) == list(wanted)
        await mesh.host.clock.sleep(0.2)


def test_a_letter_is_replayed_until_its_group_has_handled_it(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh, 2)
        await over(mesh, (await mesh.replay()).id)
        await stay(mesh, *[DEAD_LETTER_STATE_REPLAYED] * 2)
        handler = Handler(works=True)
        async with running(mesh, handler):
            await become(mesh, *[DEAD_LETTER_STATE_HANDLED] * 2)
        assert len(handler.handled) == 2
        letters = (await mesh.letters()).letters
        assert (await mesh.letter(letters[0].name)).letter.state == DEAD_LETTER_STATE_HANDLED
        assert [each.state for each in await mesh.examples()] == [DEAD_LETTER_STATE_HANDLED] * 2

    play(tmp_path, scene)


def test_a_record_that_fails_again_is_parked_and_not_handled(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)
        async with running(mesh, Handler()):
            await over(mesh, (await mesh.replay()).id)
            await mesh.indexed(2)
            await stay(mesh, DEAD_LETTER_STATE_PARKED_AGAIN, DEAD_LETTER_STATE_REPLAYED)

    play(tmp_path, scene)


def test_a_lagging_index_calls_no_failed_record_handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = ClusterTail._take

    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)

        async def slowly(self: ClusterTail, fetched: FetchedRecords) -> None:
            await mesh.host.clock.sleep(4.0)
            await take(self, fetched)

        monkeypatch.setattr(ClusterTail, "_take", slowly)
        seen: set[tuple[DeadLetterState.ValueType, ...]] = set()
        async with running(mesh, Handler()):
            await over(mesh, (await mesh.replay()).id)
            while len(now := tuple(await states(mesh))) == 1:
                seen.add(now)
                await mesh.host.clock.sleep(0.1)
        assert seen == {(DEAD_LETTER_STATE_REPLAYED,)}

    play(tmp_path, scene)


def test_every_replica_knows_it_after_its_index_was_lost(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh, 2)
        await over(mesh, (await mesh.replay()).id)
        async with running(mesh, Handler(works=True)):
            await become(mesh, *[DEAD_LETTER_STATE_HANDLED] * 2)
        for name in ("dlq-0", "dlq-1"):
            mesh.kill(name)
        lose(tmp_path)
        for name in ("dlq-0", "dlq-1"):
            await mesh.run_service(name)
        await mesh.indexed(2)
        await become(mesh, *[DEAD_LETTER_STATE_HANDLED] * 2)

    play(tmp_path, scene)


def test_a_leader_killed_after_it_sent_leaves_the_next_its_place(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh, 3)
        job = await mesh.replay()
        while not mesh.replayed():
            await mesh.host.clock.sleep(0.0002)
        mesh.kill(mesh.leader())
        done = await over(mesh, job.id)
        assert done.status.repeated == 3, "its history said what was sent: the scene shows nothing"
        async with running(mesh, Handler(works=True)):
            await become(mesh, *[DEAD_LETTER_STATE_HANDLED] * 3)

    play(tmp_path, scene)


@pytest.mark.parametrize("spec", [{"broadcast": True}, {"destination": "other"}])
def test_a_replay_not_for_one_group_leaves_letters_replayed(tmp_path: Path, spec: dict[str, object]) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.create("other")
        await given_up(mesh)
        await over(mesh, (await mesh.replay(**spec)).id)  # type: ignore[arg-type]
        async with running(mesh, Handler(works=True)):
            await stay(mesh, DEAD_LETTER_STATE_REPLAYED)

    play(tmp_path, scene)


def test_a_group_that_is_not_fenced_leaves_letters_replayed(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await register(mesh, group_pb2.FENCING_NONE)
        await given_up(mesh)
        await over(mesh, (await mesh.replay()).id)
        handler = Handler(works=True)
        async with running(mesh, handler):
            await stay(mesh, DEAD_LETTER_STATE_REPLAYED)
        assert handler.handled

    play(tmp_path, scene)


def test_progress_that_was_reset_past_a_record_proves_nothing(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)
        await over(mesh, (await mesh.replay()).id)
        request = assigner_api.ResetProgressRequest(group="indexer", to=group_pb2.StartPosition(latest=True))
        assigner = mesh.client.service("assigner")
        await assigner.unary("ResetProgress", request, assigner_api.ResetProgressResponse)
        handler = Handler(works=True)
        async with running(mesh, handler):
            await stay(mesh, DEAD_LETTER_STATE_REPLAYED)
        assert not handler.handled

    play(tmp_path, scene)


@pytest.mark.parametrize("names", [("east",), ("assigner-0",), ("registry-0",)])
def test_what_cannot_be_asked_proves_nothing_until_it_is_back(tmp_path: Path, names: tuple[str, ...]) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)
        await over(mesh, (await mesh.replay()).id)
        async with running(mesh, Handler(works=True)):
            await become(mesh, DEAD_LETTER_STATE_HANDLED)
        await mesh.host.clock.sleep(6.0)  # what is kept of the registry's answers is older than that
        for name in names:
            stop(mesh, name)
        await stay(mesh, DEAD_LETTER_STATE_REPLAYED)
        for name in names:
            await start(mesh, name)
        await become(mesh, DEAD_LETTER_STATE_HANDLED)

    play(tmp_path, scene)


def stop(mesh: Mesh, name: str) -> None:
    mesh.kafka.named(name).kill() if name == "east" else mesh.kill(name)


async def start(mesh: Mesh, name: str) -> None:
    if name == "east":
        mesh.kafka.named(name).start()
    else:
        await mesh.run_service(name)


def _cut(mesh: Mesh, offset: int) -> None:
    """The cluster lost its newest records, and other records have their offsets now."""
    east = mesh.kafka.named("east")
    east.kill()
    east.truncate(LIVE, offset)
    east.start()
    east.append(LIVE, [NewRecord(5_000, None, b"another", (("braid-id", b"01ZZZ:1"), ("braid-ts", b"5000")))])


@pytest.mark.parametrize("after", [False, True])
def test_an_offset_that_another_record_has_now_proves_nothing(tmp_path: Path, after: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)
        await over(mesh, (await mesh.replay()).id)
        offset = mesh.kafka.named("east").end(LIVE)
        assert offset is not None
        if not after:
            _cut(mesh, offset - 1)
        handler = Handler(works=True)
        async with running(mesh, handler):
            if after:
                await become(mesh, DEAD_LETTER_STATE_HANDLED)
            else:
                await mesh.until(handler.has_worked)
        if after:
            _cut(mesh, offset - 1)
        await stay(mesh, DEAD_LETTER_STATE_REPLAYED)

    play(tmp_path, scene)


def test_a_commit_of_an_earlier_record_there_proves_nothing(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await given_up(mesh)
        east = mesh.kafka.named("east")
        east.kill()
        east.truncate(LIVE, 0)  # the commit covers offset 0, and the replayed record gets it
        east.start()
        await over(mesh, (await mesh.replay()).id)
        assert east.end(LIVE) == 1
        await stay(mesh, DEAD_LETTER_STATE_REPLAYED)
        async with running(mesh, Handler(works=True)):
            await become(mesh, DEAD_LETTER_STATE_HANDLED)

    play(tmp_path, scene)
