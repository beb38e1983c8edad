"""Groups that begin in drained channels: whole assigners, a registry that tells of such channels, Kafka in memory."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kafka.memory.log import NewRecord
from braid.kernel.envelope import encode
from braid.kernel.ids import ChannelId
from braid.kernel.limits.assigner.leases import READING_AT_ONCE
from braid.kernel.offset_ranges import OPEN, OffsetRange
from braid.kernel.ports import Committed, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.assigner.model.channels import ChannelClosed
from testbed.members.told_registry import STATES
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

OLD, NEW = "logs/live/1", "logs/live/2"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def topic(channel: str) -> str:
    """Its topic."""
    return ChannelId.parse(channel).topic("braid.")


async def drained(mesh: Mesh, name: str = OLD, *times_ms: int, cluster: str = "east", assigners: int = 1) -> Mesh:
    """A channel of one partition with records of these times, drained, beside one that gets records."""
    mesh.channel(name, 1, cluster, state="DRAINED")
    for time_ms in times_ms or (1_000, 2_000, 3_000):
        mesh.kafka.named(cluster).append(TopicPartition(topic(name), 0), [NewRecord(time_ms, None, b"x", ())])
    return mesh


async def begun(assigners: int = 1) -> Mesh:
    """One drained channel with three records on east, one active on west."""
    mesh = await drained(Mesh())
    mesh.channel(NEW, 1, "west")
    return await mesh.start(assigners, channels=())


async def commit(mesh: Mesh, channel: str, base: int, cluster: str = "east") -> None:
    """The group's members have done everything below an offset."""
    encoded = encode(EnvelopeFields(base=base))
    offsets = mesh.kafka.cluster(f"{cluster}:9092", "").offsets()
    done = {TopicPartition(topic(channel), 0): Committed(encoded.offset, encoded.metadata)}
    await offsets.commit("indexer", done, None)


def tell(mesh: Mesh, channel: str, **fields: object) -> None:
    """The registry says more of a channel."""
    registry = mesh.registry
    registry.revision += 1
    for name, value in fields.items():
        setattr(registry.channels[channel], name, value)
    changed, registry.changed = registry.changed, asyncio.Event()
    changed.set()


def close(mesh: Mesh, channel: str) -> Coroutine[Any, Any, api.CloseChannelResponse]:
    """The registry is about to delete a channel's topic."""
    request = api.CloseChannelRequest(channel=channel, registry_revision=mesh.registry.revision)
    return mesh.client("registry-1").unary("CloseChannel", request, api.CloseChannelResponse)


def held(member: Participant) -> list[str]:
    """The channels of its leases."""
    return sorted(str(lease.channel) for lease in member.holds)


def reset(mesh: Mesh, **to: Any) -> Coroutine[Any, Any, api.ResetProgressResponse]:
    """Asks for a reset of all the group consumes."""
    request = api.ResetProgressRequest(group="indexer", stream="logs", to=group_pb2.StartPosition(**to))
    return mesh.client("admin").unary("ResetProgress", request, api.ResetProgressResponse)


def test_a_new_earliest_group_reads_drained_channels_to_the_end() -> None:
    async def scenario() -> None:
        mesh = await begun()
        reader = Participant(mesh, "web-1")
        await mesh.until(lambda: held(reader) == [OLD, NEW])
        await commit(mesh, OLD, 2)
        await mesh.host.clock.sleep(5)
        assert held(reader) == [OLD, NEW], "a record is left"
        await commit(mesh, OLD, 3)
        await mesh.until(lambda: held(reader) == [NEW])

    run(scenario())


@pytest.mark.parametrize(
    ("start", "channels"),
    [
        ({"latest": True}, [NEW]),
        ({"time_ms": 2_500}, [OLD, NEW]),
        ({"time_ms": 500}, [OLD, NEW]),
        ({"time_ms": 4_000}, [NEW]),
    ],
)
def test_a_start_at_latest_or_past_the_end_skips_the_channel(start: dict[str, Any], channels: Sequence[str]) -> None:
    async def scenario() -> None:
        mesh = await begun()
        reader = Participant(mesh, "web-1", start=group_pb2.StartPosition(**start))
        await mesh.until(lambda: NEW in held(reader))
        await mesh.host.clock.sleep(5)
        assert held(reader) == channels

    run(scenario())


def test_a_finished_group_gets_nothing_again_after_restarts() -> None:
    async def scenario() -> None:
        mesh = await begun(assigners=2)
        reader = Participant(mesh, "web-1")
        await mesh.until(lambda: held(reader) == [OLD, NEW])
        await commit(mesh, OLD, 3)
        await mesh.until(lambda: held(reader) == [NEW])
        leader = await mesh.leader()
        mesh.processes[leader.instance].kill()
        await mesh.leader()
        another = Participant(mesh, "web-2")
        await mesh.until(lambda: len(mesh.state().members) == 2)
        await mesh.host.clock.sleep(10)
        assert OLD not in (*held(reader), *held(another))

    run(scenario())


def test_a_reset_to_earliest_begins_in_drained_channels_again() -> None:
    async def scenario() -> None:
        mesh = await begun()
        reader = Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.until(lambda: held(reader) == [NEW])
        reader.kill()
        await mesh.until(lambda: not mesh.state().members)
        told = await reset(mesh, earliest=True)
        first = told.partitions[0]
        assert (first.lease, first.after, first.log_end) == (f"{OLD}/0", 0, 3)
        reader = Participant(mesh, "web-2")
        await mesh.until(lambda: held(reader) == [OLD, NEW])
        await commit(mesh, OLD, 3)
        await mesh.until(lambda: held(reader) == [NEW])

    run(scenario())


def test_resetting_one_drained_partition_leaves_the_others_done() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.channel(OLD, 2, state="DRAINED")
        for number in range(2):
            mesh.kafka.named("east").append(TopicPartition(topic(OLD), number), [NewRecord(1_000, None, b"x", ())] * 3)
        mesh.channel(NEW, 1, "west")
        await mesh.start(channels=())
        reader = Participant(mesh, "web-1", start=group_pb2.StartPosition(latest=True))
        await mesh.until(lambda: held(reader) == [NEW])
        request = api.ResetProgressRequest(group="indexer", offsets=[api.ResetOffset(lease=f"{OLD}/1", offset=2)])
        told = await mesh.client("admin").unary("ResetProgress", request, api.ResetProgressResponse)
        assert {each.lease: each.after for each in told.partitions} == {f"{OLD}/0": 3, f"{OLD}/1": 2}
        await mesh.until(lambda: held(reader) == [OLD, OLD, NEW])

    run(scenario())


def test_a_group_registered_as_a_drain_ends_reads_the_rest() -> None:
    async def scenario() -> None:
        mesh = await drained(Mesh())
        tell(mesh, OLD, state=STATES["DRAINING"])
        mesh.channel(NEW, 1, "west")
        await mesh.start(channels=())
        reader = Participant(mesh, "web-1")
        await mesh.until(lambda: held(reader) == [OLD, NEW])
        tell(mesh, OLD, state=STATES["DRAINED"])
        await mesh.host.clock.sleep(5)
        assert held(reader) == [OLD, NEW]
        await commit(mesh, OLD, 3)
        await mesh.until(lambda: held(reader) == [NEW])

    run(scenario())


def test_unread_records_are_recorded_when_a_topic_is_deleted() -> None:
    async def scenario() -> None:
        mesh = await begun()
        reader = Participant(mesh, "web-1", drain_seconds=1.0)
        await mesh.until(lambda: held(reader) == [OLD, NEW])
        tell(mesh, OLD, retiring=True)
        closing = asyncio.ensure_future(close(mesh, OLD))
        await mesh.host.clock.sleep(0.5)
        assert (held(reader), closing.done()) == ([OLD, NEW], False)
        await commit(mesh, OLD, 2)  # its last commit, while it drains
        await closing
        assert held(reader) == [NEW]
        closed = [event for event in await mesh.events() if isinstance(event, ChannelClosed)]
        assert [each.unread for each in closed] == [(OffsetRange(0, 2, 2),)]
        request = api.GetGroupRequest(name="indexer")
        group = await mesh.client("admin").unary("GetGroup", request, group_pb2.Group)
        assert list(group.status.unread) == [f"{OLD}: 0:2-2"]
        assert list(group.status.reading_channels) == []

    run(scenario())


def test_a_topic_lost_while_its_cluster_is_away_is_named_whole() -> None:
    async def scenario() -> None:
        mesh = await begun()
        mesh.kafka.named("east").kill()
        reader = Participant(mesh, "web-1")
        await mesh.until(lambda: held(reader) == [NEW])
        await mesh.host.clock.sleep(5)
        assert held(reader) == [NEW]
        await close(mesh, OLD)
        closed = [event for event in await mesh.events() if isinstance(event, ChannelClosed)]
        assert [each.unread for each in closed] == [(OffsetRange(0, 0, OPEN),)]

    run(scenario())


def test_an_ordered_lane_reads_channels_in_the_order_they_left() -> None:
    async def scenario() -> None:
        mesh = await drained(await drained(Mesh(), "logs/live/1"), "logs/live/2", cluster="west")
        tell(mesh, "logs/live/1", in_order=True, left_revision=7)
        tell(mesh, "logs/live/2", in_order=True, left_revision=5)
        mesh.channel("logs/live/3", 1, "east")
        tell(mesh, "logs/live/3", in_order=True)
        await mesh.start(channels=())
        reader = Participant(mesh, "web-1")
        for channel, cluster in (("logs/live/2", "west"), ("logs/live/1", "east")):
            await mesh.until(lambda channel=channel: held(reader) == [channel])  # type: ignore[misc]
            await mesh.host.clock.sleep(3)
            assert held(reader) == [channel]
            await commit(mesh, channel, 3, cluster)
        await mesh.until(lambda: held(reader) == ["logs/live/3"])

    run(scenario())


def test_drained_channels_are_read_few_at_once_oldest_first() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        for number in range(1, 41):
            await drained(mesh, f"logs/live/{number}", 1_000)
        mesh.channel("logs/live/41", 1, "west")
        await mesh.start(channels=())
        reader = Participant(mesh, "web-1")
        oldest = [f"logs/live/{number}" for number in range(1, READING_AT_ONCE + 1)]
        await mesh.until(lambda: set(held(reader)) == {*oldest, "logs/live/41"})
        for number in range(1, 41):
            await commit(mesh, f"logs/live/{number}", 1)
        await mesh.until(lambda: held(reader) == ["logs/live/41"])

    run(scenario())
