"""A cluster is away for longer than its topics keep anything: on its return no tail is eaten, drained or in use.

The clusters' retention is at work here: a broker looks 30 s after it has started.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from braid.api.registry.v1 import stream_pb2
from braid.kafka.memory.retention import FIRST_LOOK_MS, LOOK_INTERVAL_MS
from braid.kernel.limits.registry.health import STRAND_ALLOWANCE_HOURS
from braid.kernel.limits.registry.resources import TAIL_LOOK_SECONDS
from braid.kernel.ports import HistoryId, TopicPartition
from services.registry.kafka import drain
from services.registry.kafka.clients import Access
from services.registry.model.channels import Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.stream_commands import RecordRetentionLifted
from services.registry.model.stream_events import RetentionLifted, RetentionRestored
from services.registry.model.topics import HOUR_MS
from services.registry.policy.channel_work import Work, next_work
from services.registry.policy.world import World
from services.registry.reconciler import loop
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, Mesh

TOPIC, CHANNEL = "braid.logs.live.1", "logs/live/1"
FIRST = TopicPartition(TOPIC, 0)
DAYS = 24 * 3_600
AWAY_SECONDS = 40 * DAYS
LOOKED_TWICE_SECONDS = (FIRST_LOOK_MS + LOOK_INTERVAL_MS) / 1000 + 10  # by a broker that has just started
KEPT_HOURS = 168 + STRAND_ALLOWANCE_HOURS
AUTOMATIC, PROPOSE, OFF = (
    stream_pb2.FAILOVER_MODE_AUTOMATIC,
    stream_pb2.FAILOVER_MODE_PROPOSE,
    stream_pb2.FAILOVER_MODE_OFF,
)
Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh(session_seconds=3.0))

    run_virtual(run())


async def carrying(mesh: Mesh, failover: stream_pb2.FailoverMode.ValueType, **east: object) -> None:
    """Three records on east, of which a group has done one."""
    await mesh.start_registry("registry-0")
    await mesh.start_registry("registry-1")
    await mesh.start_assigner()
    await mesh.create_cluster("east", **east)  # type: ignore[arg-type]
    await mesh.create_cluster("west")
    await mesh.create_stream(clusters=["east", "west"], failover=failover)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 3)
    await mesh.commit("east", "indexer", TOPIC, 1, 0)


async def away_for_days(mesh: Mesh, number: int = 2) -> None:
    """East dies, which two leaders in a row see; then nothing runs for long, and another registry finds it away."""
    mesh.kafka.named("east").kill()
    await mesh.until_channel(CHANNEL, lambda channel: channel.stranded, 10)
    mesh.kill((await mesh.leader()).instance)
    await mesh.leader()
    await asyncio.sleep(5)
    for name in list(mesh.replicas):
        mesh.kill(name)
    await asyncio.sleep(AWAY_SECONDS)
    await mesh.start_assigner()
    await mesh.start_registry(f"registry-{number}")
    await mesh.start_registry(f"registry-{number + 1}")
    await mesh.leader()
    await asyncio.sleep(2)


def retention(mesh: Mesh) -> str:
    return mesh.kafka.named("east").topic_config(TOPIC)["retention.ms"]


async def retention_events(mesh: Mesh) -> list[str]:
    replica = await mesh.leader()
    events = [record.event for record in await replica.aggregates.events(HistoryId("registry", "stream", "logs"))]
    kinds = (RetentionLifted, RetentionRestored)
    return [type(each).__name__ for each in events if isinstance(each, kinds) and each.ref == ("live", 1)]


async def tail_after_return(mesh: Mesh, failover: stream_pb2.FailoverMode.ValueType) -> int:
    """Where the log starts once the cluster is back and looked twice; its group has done nothing since."""
    await carrying(mesh, failover)
    mesh.tuning = replace(mesh.tuning, probe_interval_seconds=2.0)  # of those that wait for the broker's two looks
    await away_for_days(mesh)
    mesh.kafka.named("east").start()
    await asyncio.sleep(LOOKED_TWICE_SECONDS)
    return mesh.kafka.named("east").log(FIRST).start


@pytest.mark.parametrize("failover", [AUTOMATIC, PROPOSE, OFF], ids=["drains", "proposed", "off"])
def test_no_tail_is_eaten_on_return(failover: stream_pb2.FailoverMode.ValueType) -> None:
    async def scene(mesh: Mesh) -> None:
        assert await tail_after_return(mesh, failover) == 0
        assert (await mesh.channel(CHANNEL)).state == (DRAINING if failover == AUTOMATIC else ACTIVE)
        assert retention(mesh) == "-1"

    play(scene)


@pytest.mark.parametrize("failover", [AUTOMATIC, OFF], ids=["drains", "off"])
def test_retention_that_is_not_lifted_is_caught(
    monkeypatch: pytest.MonkeyPatch, failover: stream_pb2.FailoverMode.ValueType
) -> None:
    async def say_so(access: Access, cluster: Cluster, channel: Channel) -> RecordRetentionLifted:
        return RecordRetentionLifted(channel.ref)

    def drains_only(world: World, channel: Channel) -> Work | None:
        work = next_work(world, channel)
        return None if channel.state.name == "ACTIVE" and work is Work.LIFT_RETENTION else work

    if failover == OFF:
        monkeypatch.setattr(loop, "next_work", drains_only)
        monkeypatch.setattr(Channel, "keeps_everything", False)
    else:
        monkeypatch.setattr(drain, "lift_retention", say_so)
        monkeypatch.setattr(drain, "KEEP_EVERYTHING", {})

    async def scene(mesh: Mesh) -> None:
        assert await tail_after_return(mesh, failover) == 3

    play(scene)


def test_a_long_distrusted_cluster_does_not_expire_its_tail() -> None:
    async def scene(mesh: Mesh) -> None:
        await carrying(mesh, OFF, health={"healthy_after_seconds": 300.0})
        await away_for_days(mesh)
        mesh.kafka.named("east").start()
        await mesh.until(lambda: retention(mesh) == "-1", 2, "retention is not lifted")
        assert (await mesh.channel(CHANNEL)).stranded, "it is not trusted yet"
        await asyncio.sleep(LOOKED_TWICE_SECONDS)
        assert mesh.kafka.named("east").log(FIRST).start == 0
        assert not (await mesh.channel(CHANNEL)).stranded

    play(scene)


def test_retention_returns_once_it_takes_nothing_unfinished() -> None:
    async def scene(mesh: Mesh) -> None:
        await carrying(mesh, OFF)
        await away_for_days(mesh)
        east = mesh.kafka.named("east")
        east.start()
        await mesh.until_channel(CHANNEL, lambda channel: not channel.stranded, 20)
        await mesh.append("east", TOPIC, 0, 2)
        await mesh.commit("east", "indexer", TOPIC, 2, 0)
        await asyncio.sleep(2 * TAIL_LOOK_SECONDS)
        held = await mesh.channel(CHANNEL)
        assert list(held.drain_holders) == ["indexer (1 records past their retention)"]
        assert retention(mesh) == "-1"
        await mesh.commit("east", "indexer", TOPIC, 3, 0)
        await mesh.until(lambda: retention(mesh) == str(KEPT_HOURS * HOUR_MS), 2 * TAIL_LOOK_SECONDS, "kept for ever")
        assert await retention_events(mesh) == ["RetentionLifted", "RetentionRestored"]
        await asyncio.sleep(LOOKED_TWICE_SECONDS)
        assert east.log(FIRST).start == 3, "what is done goes"
        assert not (await mesh.channel(CHANNEL)).drain_holders

    play(scene)


def test_declarations_and_leaders_leave_lifted_retention_alone() -> None:
    async def scene(mesh: Mesh) -> None:
        await carrying(mesh, OFF)
        await away_for_days(mesh)
        mesh.kafka.named("east").start()
        await mesh.until_channel(CHANNEL, lambda channel: not channel.stranded, 20)
        mesh.kill((await mesh.leader()).instance)
        await mesh.leader()
        await asyncio.sleep(5)
        assert retention(mesh) == "-1", "a new leader configures every topic once"
        mesh.kafka.named("east").alter_topic_config(TOPIC, {"retention.ms": "3600000"})  # by one that was stopped
        await asyncio.sleep(TAIL_LOOK_SECONDS + 2)
        assert retention(mesh) == "-1"
        await mesh.move(to_cluster="west")
        await mesh.until_channel(CHANNEL, lambda channel: bool(channel.end_offsets), 10)
        await mesh.commit("east", "indexer", TOPIC, 3, 0)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 10)
        await mesh.until(lambda: retention(mesh) == str(168 * HOUR_MS), 5, "kept for ever")

    play(scene)


def test_a_second_absence_endangers_what_came_after_the_first() -> None:
    async def scene(mesh: Mesh) -> None:
        await carrying(mesh, OFF)
        east = mesh.kafka.named("east")
        await away_for_days(mesh)
        east.start()
        await mesh.until_channel(CHANNEL, lambda channel: not channel.stranded, 20)
        await mesh.append("east", TOPIC, 0, 2)
        await mesh.commit("east", "indexer", TOPIC, 3, 0)
        await asyncio.sleep(2 * TAIL_LOOK_SECONDS)
        assert retention(mesh) != "-1"
        await away_for_days(mesh, 4)
        east.start()
        await asyncio.sleep(LOOKED_TWICE_SECONDS)
        assert east.log(FIRST).start <= 3
        assert retention(mesh) == "-1"

    play(scene)
