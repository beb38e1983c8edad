"""Start positions: fixed once, as committed progress, before anything is granted."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from braid.api.assigner.v1 import group_pb2
from braid.kafka.memory.log import NewRecord
from braid.kernel.envelope import MetadataKind, decode, encode
from braid.kernel.errors import NotLeader
from braid.kernel.ids import ChannelId
from braid.kernel.ports import Committed, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.assigner.model.group import Channel, StartKind, StartPosition
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.reconciler.start_positions import write_start
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

TOPIC = "braid.logs.live.1"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def filled() -> Mesh:
    """A channel with records at times 1000, 2000, 3000 in partition 0; its log begins at 1."""
    mesh = await Mesh().start()
    east = mesh.kafka.named("east")
    for time_ms in (1_000, 2_000, 3_000):
        east.append(TopicPartition(TOPIC, 0), [NewRecord(time_ms, None, b"x", ())])
    east.expire(TopicPartition(TOPIC, 0), 1)
    return mesh


async def committed(mesh: Mesh, cluster: str = "east", topic: str = TOPIC) -> list[Committed]:
    """The group's commits, per partition."""
    partitions = [TopicPartition(topic, number) for number in range(4)]
    offsets = mesh.kafka.cluster(f"{cluster}:9092", "").offsets()
    found = await offsets.committed("indexer", partitions)
    return [found[partition] for partition in partitions]


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (group_pb2.StartPosition(earliest=True), 1),
        (None, 1),
        (group_pb2.StartPosition(latest=True), 3),
        (group_pb2.StartPosition(time_ms=2_500), 2),
        (group_pb2.StartPosition(time_ms=9_000), 3),
    ],
)
def test_the_start_is_committed_in_an_envelope_before_any_grant(
    start: group_pb2.StartPosition | None, offset: int
) -> None:
    async def scenario() -> None:
        mesh = await filled()
        Participant(mesh, "web-1", start=start)
        await mesh.settled(1)
        found = await committed(mesh)
        assert [each.offset for each in found] == [offset, 0, 0, 0]
        said = decode(found[0].offset, found[0].metadata)
        assert (said.kind, said.fields) == (MetadataKind.ENVELOPE, EnvelopeFields(base=offset))
        assert mesh.state().channels["logs/live/1"].start == (offset, 0, 0, 0)

    run(scenario())


def test_progress_that_is_there_is_never_overwritten() -> None:
    async def scenario() -> None:
        mesh = await filled()
        offsets = mesh.kafka.cluster("east:9092", "").offsets()
        there = encode(EnvelopeFields(base=2))
        mine = Committed(there.offset, there.metadata)
        await offsets.commit("indexer", {TopicPartition(TOPIC, 0): mine}, None)
        Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.settled(1)
        assert (await committed(mesh))[0] == mine

    run(scenario())


def test_a_cluster_that_is_away_holds_up_only_its_own_channels() -> None:
    async def scenario() -> None:
        mesh = await filled()
        mesh.channel("logs/bulk/1", 4, "west")
        mesh.kafka.named("west").kill()
        member = Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.until(lambda: len(member.holds) == 4)
        await mesh.host.clock.sleep(30)
        assert len(member.holds) == 4
        mesh.kafka.named("west").start()
        assert await mesh.settled(1) < 10
        assert [each.offset for each in await committed(mesh, "west", "braid.logs.bulk.1")] == [0, 0, 0, 0]

    run(scenario())


def test_a_leader_lost_between_write_and_record_keeps_the_start() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        mesh.kafka.named("east").append(TopicPartition(TOPIC, 0), [NewRecord(1, None, b"x", ())])
        leader = await mesh.leader()
        Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.until(lambda: mesh.state().spec is not None)
        while (await committed(mesh))[0].offset != 1:
            await mesh.host.clock.sleep(0.0001)
        mesh.processes[leader.instance].kill()
        mesh.kafka.named("east").append(TopicPartition(TOPIC, 0), [NewRecord(2, None, b"y", ())])
        await mesh.settled(1)
        assert mesh.state().channels["logs/live/1"].start == (1, 0, 0, 0)

    run(scenario())


def test_a_channel_that_appears_later_gets_no_start() -> None:
    async def scenario() -> None:
        mesh = await filled()
        Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.settled(1)
        mesh.channel("logs/live/2", 4, "west")
        await mesh.settled(1)
        assert [each.offset for each in await committed(mesh, "west", "braid.logs.live.2")] == [-1] * 4

    run(scenario())


class _Stopped:
    """A leader's process that is stopped during one of its calls to Kafka, and goes on when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> None:
        self.stopped, self.resume = asyncio.Event(), asyncio.Event()
        real = getattr(where, method)

        async def stopping(client: object, *args: object) -> object:
            answer = await real(client, *args)
            if not self.stopped.is_set():
                self.stopped.set()
                await self.resume.wait()
            return answer

        monkeypatch.setattr(where, method, stopping)


@pytest.mark.parametrize("stops_in", ["committed", "offsets_at"])
def test_a_stopped_leader_writes_no_start_over_progress(monkeypatch: pytest.MonkeyPatch, stops_in: str) -> None:
    async def scenario() -> None:
        mesh = await filled()
        client = mesh.kafka.cluster("east:9092", "")
        stopped = _Stopped(monkeypatch, type(client.offsets() if stops_in == "committed" else client.admin()), stops_in)
        channel = Channel(ChannelId.parse("logs/live/1"), "east", TOPIC, 4, True, 1, False)
        place = ClusterPlace("east", "east:9092", "", "")
        latest = StartPosition(StartKind.LATEST)

        def deposed() -> None:
            raise NotLeader("another leads")

        old = asyncio.ensure_future(write_start(mesh.kafka, place, "indexer", channel, latest, deposed))
        await stopped.stopped.wait()
        await write_start(mesh.kafka, place, "indexer", channel, latest, lambda: None)
        partition = TopicPartition(TOPIC, 0)
        for time_ms in (4_000, 5_000):
            mesh.kafka.named("east").append(partition, [NewRecord(time_ms, None, b"x", ())])
        await client.offsets().commit("indexer", {partition: Committed(4, "")}, None)
        stopped.resume.set()
        if stops_in == "committed":
            with pytest.raises(NotLeader):
                await old
        else:
            assert await old == (4, 0, 0, 0), "progress is read after where the log ends"
        assert (await committed(mesh))[0].offset == 4

    run(scenario())
