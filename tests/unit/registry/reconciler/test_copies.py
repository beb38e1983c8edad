"""Copies of topics in use follow their stream's declaration across leader changes, and records flow meanwhile."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kafka.memory import MemoryCluster
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.limits.registry.resources import REASSIGN_BYTES_PER_S, REASSIGNED_AT_ONCE
from braid.kernel.ports import TopicPartition
from tests.unit.registry.mesh import Mesh
from tests.unit.registry.scenarios.test_requests import play, refused

TOPIC = "braid.logs.live.1"
CHANNEL = "logs/live/1"
RATES = {
    "leader.replication.throttled.rate": str(REASSIGN_BYTES_PER_S),
    "follower.replication.throttled.rate": str(REASSIGN_BYTES_PER_S),
}
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def began(mesh: Mesh, copies: int, lanes: int = 4, brokers: int = 3) -> MemoryCluster:
    await mesh.start_registry("registry-0")
    await mesh.start_assigner()
    await mesh.create_cluster("east", brokers=brokers)
    await asyncio.sleep(1)
    await mesh.create_stream(lanes=lanes, clusters=["east"], replication_factor=copies)
    return mesh.kafka.named("east")


async def declare(mesh: Mesh, copies: int, **spec: object) -> stream_pb2.Stream:
    stream = await mesh.stream()
    stream.spec.replication_factor = copies
    for name, value in spec.items():
        stream.spec.topic_config[name.replace("_", ".")] = str(value)
    request = api.UpdateStreamRequest(name="logs", spec=stream.spec)
    return await mesh.client.unary("UpdateStream", request, stream_pb2.Stream)


async def settled(mesh: Mesh, copies: int, seconds: float = 20.0) -> stream_pb2.Channel:
    def done(channel: stream_pb2.Channel) -> bool:
        return channel.replication_factor == copies and not channel.HasField("reassignment")

    return await mesh.until_channel(CHANNEL, done, seconds)


def replicas(east: MemoryCluster, topic: str = TOPIC) -> Sequence[Sequence[int]]:
    (found,) = east.describe_topics([topic]).values()
    return [tuple(each) for each in found.replicas]


def untouched(east: MemoryCluster) -> bool:
    return not east.for_all_brokers and not any(east.topic_config(TOPIC)[name] for name in THROTTLED)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (1, 2), (2, 3), (3, 2), (3, 1)])
def test_copies_follow_the_declaration_while_records_flow(before: int, after: int) -> None:
    """The records fail on a release that sets min.insync.replicas before the copies are there."""

    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, before)
        east.copy_seconds = 3.0
        leaders = [each[0] for each in replicas(east)]
        await declare(mesh, after)
        for _ in range(40):
            await mesh.append("east", TOPIC, 0)
            await asyncio.sleep(0.1)
        await settled(mesh, after)
        assert [len(set(each)) for each in replicas(east)] == [after] * 4
        assert [each[0] for each in replicas(east)] == leaders
        needed = east.topic_config(TOPIC)["min.insync.replicas"]
        assert needed == ("2" if after == 3 else "1")
        assert untouched(east)

    play(scene)


def test_new_copies_are_throttled_and_nothing_else_is() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 2, lanes=1)
        east.copy_seconds = 5.0
        (before,) = replicas(east)
        await declare(mesh, 3)
        await mesh.until(lambda: bool(east.reassignments(TOPIC)), 5.0, "nothing is reassigned")
        assert east.for_all_brokers == RATES
        new = ({1, 2, 3} - set(before)).pop()
        config = east.topic_config(TOPIC)
        assert [config[name] for name in THROTTLED] == [",".join(f"0:{each}" for each in before), f"0:{new}"]
        shown = (await mesh.channel(CHANNEL)).reassignment
        assert (shown.replication_factor, shown.throttle_bytes_per_s) == (3, REASSIGN_BYTES_PER_S)
        await mesh.until_channel(CHANNEL, lambda each: each.reassignment.partitions_left == 1, 2.0)
        await settled(mesh, 3)
        assert untouched(east)

    play(scene)


@pytest.mark.parametrize("after_seconds", [0.3, 0.6, 0.9, 1.2, 2.0, 4.0, 5.2])
def test_the_next_leader_ends_what_a_dead_one_began(after_seconds: float) -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        east.copy_seconds = 4.0
        await declare(mesh, 3)
        await asyncio.sleep(after_seconds)
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        await settled(mesh, 3, 40.0)
        assert [len(set(each)) for each in replicas(east)] == [3] * 4
        assert untouched(east)

    play(scene)


def test_a_declaration_taken_back_halfway_is_followed() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        east.copy_seconds = 3.0
        await declare(mesh, 3)
        await asyncio.sleep(1.5)
        await declare(mesh, 1)
        await settled(mesh, 1)
        assert [len(each) for each in replicas(east)] == [1] * 4 and untouched(east)

    play(scene)


def test_a_rate_that_an_operator_has_set_stays() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        theirs: dict[str, str | None] = {"leader.replication.throttled.rate": "1000"}
        east.alter_broker_defaults(theirs)
        east.copy_seconds = 1.0
        await declare(mesh, 3)
        await mesh.until(lambda: bool(east.reassignments(TOPIC)), 5.0, "nothing is reassigned")
        assert east.for_all_brokers == theirs
        await settled(mesh, 3)
        assert east.for_all_brokers == theirs

    play(scene)


def test_a_few_partitions_at_a_time() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1, lanes=3 * REASSIGNED_AT_ONCE)
        east.copy_seconds = 1.0
        await declare(mesh, 2)
        most = 0
        for _ in range(400):
            under_way = east.reassignments(TOPIC)
            most = max(most, len(under_way))
            assert not under_way or east.for_all_brokers == RATES  # although the dead-letter lane is done long before
            await asyncio.sleep(0.05)
        await settled(mesh, 2)
        assert most == REASSIGNED_AT_ONCE
        counts = [sum(broker in each for each in replicas(east)) for broker in (1, 2, 3)]
        assert max(counts) - min(counts) <= 1, counts

    play(scene)


def test_copies_wait_for_brokers_and_say_so() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        await asyncio.sleep(1)
        east.stop_broker(3)
        await asyncio.sleep(1)
        await declare(mesh, 3)
        waiting = await mesh.until_channel(CHANNEL, lambda each: bool(each.reassignment.waits_for), 20.0)
        assert "2 brokers that serve for 3 copies" in waiting.reassignment.waits_for
        east.start_broker(3)
        await settled(mesh, 3)

    play(scene)


def test_what_an_operator_does_is_not_undone() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 3)
        east.reassign(TOPIC, {0: [2, 3]})
        await asyncio.sleep(5)
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        await asyncio.sleep(10)
        assert replicas(east)[0] == (2, 3)

    play(scene)


def test_missing_copies_are_added_once_a_cluster_has_the_brokers() -> None:
    """Topics of a stream that declares nothing: made on one broker, they get three copies on three brokers."""

    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 0, brokers=1)
        assert [len(each) for each in replicas(east)] == [1] * 4
        east.add_brokers(2)
        await settled(mesh, 3, 40.0)
        assert [len(set(each)) for each in replicas(east)] == [3] * 4
        assert east.topic_config(TOPIC)["min.insync.replicas"] == "2"
        assert [len(set(each)) for each in replicas(east, "braid.logs.dlq.1")] == [3]

    play(scene)


def test_a_stream_deleted_halfway_leaves_no_throttle() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        east.copy_seconds = 30.0
        await declare(mesh, 3)
        await mesh.until(lambda: bool(east.for_all_brokers), 5.0, "nothing is throttled")
        request = api.DeleteStreamRequest(name="logs")
        await mesh.client.unary("DeleteStream", request, stream_pb2.Stream)
        await mesh.until(lambda: not east.describe_topics([TOPIC]), 60.0, "its topic stays")
        assert not east.for_all_brokers

    play(scene)


def test_a_channel_that_drains_gets_its_copies_all_the_same() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        await mesh.create_cluster("west", brokers=3)
        stream = await mesh.stream()
        stream.spec.clusters.append("west")
        request = api.UpdateStreamRequest(name="logs", spec=stream.spec)
        await mesh.client.unary("UpdateStream", request, stream_pb2.Stream)
        east.copy_seconds = 5.0
        await declare(mesh, 3)
        await mesh.until(lambda: bool(east.reassignments(TOPIC)), 5.0, "nothing is reassigned")
        await mesh.move(to_cluster="west")
        await settled(mesh, 3)
        assert untouched(east)

    play(scene)


def test_a_factor_no_cluster_of_the_stream_can_keep_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh, 2)
        await mesh.create_cluster("west")
        for copies in (4, 1_000, -1):
            error = await refused(declare(mesh, copies), Invalid, "spec.replication_factor")
            assert error.remedy or copies != 4
        stream = await mesh.stream()
        del stream.spec.clusters[:]
        request = api.UpdateStreamRequest(name="logs", spec=stream.spec)
        await mesh.client.unary("UpdateStream", request, stream_pb2.Stream)
        await declare(mesh, 3)  # west is left out: it never carried the stream
        await settled(mesh, 3)
        assert {each.cluster for each in (await mesh.stream()).status.channels} == {"east"}

    play(scene)


def test_a_factor_is_checked_on_clusters_carrying_the_stream() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", brokers=3)
        await mesh.create_cluster("west")
        await asyncio.sleep(1)
        await mesh.create_stream(lanes=1, replication_factor=1)
        await mesh.until_channel("logs/live/2", lambda each: each.state == stream_pb2.CHANNEL_STATE_STANDBY, 20.0)
        error = await refused(declare(mesh, 3), Invalid, "spec.replication_factor")
        assert "west has 1 broker" in error.message and error.remedy

    play(scene)


def test_a_cluster_that_refuses_is_named_and_tried_again() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)

        def refuse(topic: str, replicas: object) -> None:
            raise BraidError("the controller refuses")

        real, east.reassign = east.reassign, refuse  # type: ignore[method-assign]
        await declare(mesh, 3)
        await mesh.until_channel(CHANNEL, lambda each: "refuses" in each.reassignment.waits_for, 10.0)
        await mesh.append("east", TOPIC, 0)
        east.reassign = real  # type: ignore[method-assign]
        await settled(mesh, 3)
        assert untouched(east)

    play(scene)


def test_a_cluster_that_was_replaced_ends_what_was_under_way() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        east.copy_seconds = 60.0
        await declare(mesh, 3)
        await mesh.until(lambda: bool(east.reassignments(TOPIC)), 5.0, "nothing is reassigned")
        east.kill()
        east.empty()
        east.start()
        await mesh.until_channel(CHANNEL, lambda each: not each.HasField("reassignment"), 60.0)

    play(scene)


def test_a_loaded_log_moves_with_its_records() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 3, lanes=1)
        await mesh.append("east", TOPIC, 0, 5)
        await declare(mesh, 1)
        await settled(mesh, 1)
        assert east.end(TopicPartition(TOPIC, 0)) == 5

    play(scene)


@pytest.mark.parametrize("seed", range(12))
def test_any_history_ends_with_the_copies_declared_last_alone(seed: int) -> None:
    """Leaders die, brokers come and go, declarations change: at random, while records flow."""
    chance = random.Random(seed)

    async def scene(mesh: Mesh) -> None:
        east = await began(mesh, 1)
        east.racks = {1: "a", 2: "a", 3: "b"}
        east.copy_seconds = chance.uniform(0.0, 3.0)
        leader, copies, away = 0, 1, 0
        for _ in range(12):
            match chance.choice(("declare", "kill", "broker", "wait")):
                case "declare":
                    copies = chance.randint(1, 3)
                    await declare(mesh, copies)
                case "kill":
                    mesh.kill(f"registry-{leader}")
                    leader += 1
                    await mesh.start_registry(f"registry-{leader}")
                case "broker" if away:
                    east.start_broker(away)
                    away = 0
                case "broker":
                    away = chance.choice([2, 3])
                    east.stop_broker(away)
            await asyncio.sleep(chance.uniform(0.0, 4.0))
        if away:
            east.start_broker(away)
        await declare(mesh, copies)
        await settled(mesh, copies, 120.0)
        assert [len(set(each)) for each in replicas(east)] == [copies] * 4
        assert untouched(east)
        assert east.topic_config(TOPIC)["min.insync.replicas"] == ("2" if copies == 3 else "1")
        await mesh.append("east", TOPIC, 0)

    play(scene)
