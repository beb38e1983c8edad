"""Offsets that never arrive from a cluster that answers: they are listed, left out of replays, and waited for in vain
by nobody. And channels that go while they are looked at."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from braid.kafka.memory import MemoryKafka, MemoryProcess
from braid.kafka.memory.log import Log, NewRecord, Read
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.dlq import DLQ_COPY_SECONDS, DLQ_UNREADABLE_SECONDS
from braid.kernel.ports import Host, KafkaRecord, TopicPartition
from services.dlq.index.letter_index import DlqPartition, LetterIndex
from services.dlq.index.tail import ClusterTail
from services.dlq.model.channels import ClusterPlace, DlqChannel, Presence
from services.dlq.model.events import Position
from services.dlq.reconciler.copies import Copies
from tests.support.virtual_time import run_virtual, running_loop, virtual_host
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play

EAST: Final = ClusterPlace("east:9092", "")
CHANNEL: Final = DlqChannel("logs", "dlq", 1, "east", "braid.logs.dlq.1", 1, Presence.READABLE)
PLACE: Final = TopicPartition(CHANNEL.topic, 0)


class World:
    """Cluster east with one dlq topic of ten records."""

    def __init__(self) -> None:
        self.host: Host = virtual_host(running_loop(), 1)
        self.kafka = MemoryKafka(self.host.clock, latency=lambda: 0.001)
        self.east = self.kafka.add_cluster("east")
        self.process: MemoryProcess = self.kafka.process()

    async def start(self) -> "World":
        admin = self.process.cluster("east:9092", "").admin()
        await admin.create_topic(CHANNEL.topic, 1, 1, {})
        for number in range(10):
            self.east.append(PLACE, [NewRecord(self.host.clock.now_ms(), None, b"%d" % number, ())])
        return self

    @property
    def log(self) -> Log:
        """The only one."""
        return self.east.log(PLACE)


def unreadable(monkeypatch: pytest.MonkeyPatch, log: Log, at: int, *, junk: bool) -> None:
    """An offset that holds bytes which are no batch, or (without `junk`) for which nothing ever comes."""
    real = Log.read

    def read(self: Log, offset: int, limit: int, max_bytes: int) -> Read:
        if self is not log or offset > at:
            return real(self, offset, limit, max_bytes)
        if offset < at:
            return real(self, offset, min(limit, at - offset), max_bytes)
        if not junk:
            return Read((), (), offset)
        where = {"topic": PLACE.topic, "partition": str(PLACE.partition), "offset": str(offset)}
        raise ClusterUnavailable("holds no batch", metadata=where)

    monkeypatch.setattr(Log, "read", read)


def test_a_copy_that_is_no_batch_is_left_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        unreadable(monkeypatch, world.log, 4, junk=True)
        copies = Copies(world.host, world.process)
        found = await copies.read(EAST, PLACE, [2, 4, 7])
        assert {at: record.value for at, record in found.items()} == {2: b"2", 7: b"7"}
        assert await copies.read(EAST, PLACE, [4]) == {}
        await copies.close()

    run_virtual(scene())


def test_a_copy_that_never_comes_is_waited_for_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        unreadable(monkeypatch, world.log, 4, junk=False)
        copies = Copies(world.host, world.process)
        started = world.host.clock.elapsed()
        found = await persist(copies, [2, 4, 7])
        assert sorted(found) == [2, 7]
        assert 0 <= world.host.clock.elapsed() - started - DLQ_UNREADABLE_SECONDS <= 3 * DLQ_COPY_SECONDS
        await copies.close()

    run_virtual(scene())


def test_a_cluster_that_is_away_never_makes_a_copy_gone() -> None:
    """The control: silence alone proves nothing."""

    async def scene() -> None:
        world = await World().start()
        copies = Copies(world.host, world.process)
        assert len(await copies.read(EAST, PLACE, [2])) == 1
        world.east.pause()
        reading = asyncio.create_task(persist(copies, [2, 4]))
        await asyncio.sleep(20 * DLQ_UNREADABLE_SECONDS)
        assert not reading.done()
        world.east.resume()
        assert sorted(await reading) == [2, 4]
        await copies.close()

    run_virtual(scene())


async def persist(copies: Copies, offsets: list[int]) -> Mapping[int, KafkaRecord]:
    """Reads copies with retries, as a replay does."""
    while True:
        try:
            return await copies.read(EAST, PLACE, offsets)
        except ClusterUnavailable:
            await asyncio.sleep(1.0)


def test_the_index_and_a_replay_pass_what_is_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        unreadable(monkeypatch, mesh.kafka.named("east").log(PLACE), 1, junk=True)
        for number in range(3):
            await mesh.park(1, first=number)
        await mesh.indexed(3)
        damaged = [each.name for each in (await mesh.letters()).letters if each.quarantine]
        assert damaged == ["logs/1/0/1"]
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.sent, done.status.skipped) == (2, 1)

    play(tmp_path, scene)


def test_a_channel_that_goes_while_it_is_placed_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        world = await World().start()
        index = LetterIndex(tmp_path / "index.db", "mesh")
        tail = ClusterTail(world.host, "east", EAST, world.process.cluster("east:9092", ""), index)
        begin = index.begin

        def gone_meanwhile(*given: object) -> None:
            begin(*given)  # type: ignore[arg-type]  # handed on as they are
            tail.follow([])

        monkeypatch.setattr(index, "begin", gone_meanwhile)
        tail.follow([CHANNEL])
        running = world.host.tasks.spawn(tail.run(), "tail")
        await asyncio.sleep(5.0)
        assert (tail.positions, tail.behind) == ({}, False)
        monkeypatch.setattr(index, "begin", begin)
        tail.follow([CHANNEL])
        await asyncio.sleep(5.0)
        assert index.positions("logs") == [Position(1, 0, 10)]
        assert tail.parts() == {DlqPartition("logs", 1, 0): 10}
        running.cancel()
        await running.ended()
        index.close()

    run_virtual(scene())
