"""How long a drained topic is kept: by the time that registries led, whatever wall clocks say."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from braid.kernel.limits.runtime import CLOCKS_APART_SECONDS
from braid.runtime.clocks import led_time
from braid.runtime.clocks import waits as runtime_waits
from services.registry.model.channels import ChannelRef, ChannelState
from services.registry.model.stream_commands import IntendRetirement
from services.registry.model.topics import HOUR_MS
from services.registry.policy import decommission
from services.registry.policy.decommission import kept_for_ms
from services.registry.policy.plan import plan, waits
from services.registry.policy.world import World
from tests.support.virtual_time import run_virtual
from tests.unit.registry.histories import StreamHistory, cluster, created, led
from tests.unit.registry.mesh import DRAINED, Mesh, two_clusters

CHANNEL, TOPIC = "logs/live/1", "braid.logs.live.1"
DAY_MS = 86_400_000
RETIREMENT = IntendRetirement(ChannelRef("live", 1))
COUNT_SECONDS = 5.0


def step(mesh: Mesh, days: float, names: Sequence[str] = ()) -> None:
    """The wall clocks of some processes step, or those of all: then nobody can tell."""
    for name in names or mesh.processes:
        mesh.processes[name].clock.skew_ms += round(days * DAY_MS)


async def drained(mesh: Mesh, registries: int = 1, **spec: object) -> None:
    """Channel logs/live/1 has moved and is drained."""
    await two_clusters(mesh, registries=registries, **spec)
    await mesh.append("east", TOPIC, 0, 3)
    await mesh.move(to_cluster="west")
    await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 20)


def play(scene: Coroutine[Any, Any, None]) -> None:
    run_virtual(scene)


async def kept(mesh: Mesh, seconds: float) -> None:
    """The drained topic stays for so long."""
    await asyncio.sleep(seconds)
    assert (await mesh.channel(CHANNEL)).state == DRAINED
    assert mesh.kafka.named("east").topic_config(TOPIC)["retention.ms"] == str(HOUR_MS)


async def gone(mesh: Mesh, seconds: float) -> None:
    """The drained topic is retired within so long."""
    await mesh.until_channel(CHANNEL, lambda channel: channel.state != DRAINED, seconds)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of retention lasts a minute; counts and comparisons come as often in it."""
    monkeypatch.setattr(decommission, "HOUR_MS", 60_000)
    monkeypatch.setattr(runtime_waits, "LED_COUNT_SECONDS", COUNT_SECONDS)
    monkeypatch.setattr(runtime_waits, "CLOCKS_COMPARE_SECONDS", 3.0)
    monkeypatch.setattr(led_time, "LED_GAP_SECONDS", 6.0)


@pytest.mark.usefixtures("minutes")
@pytest.mark.parametrize("days", [8.0, -8.0])
def test_a_step_of_the_leaders_clock_deletes_no_drained_topic(days: float) -> None:
    async def scene() -> None:
        mesh = Mesh()
        await drained(mesh, retention_hours=1)
        step(mesh, days)
        await kept(mesh, 57)
        await gone(mesh, 10)

    play(scene())


@pytest.mark.usefixtures("minutes")
def test_led_time_survives_leaders_and_leaves_out_gaps() -> None:
    async def scene() -> None:
        mesh = Mesh()
        await drained(mesh, registries=2, retention_hours=1)
        await kept(mesh, 28)
        first = (await mesh.leader()).instance
        mesh.kill(first)
        await kept(mesh, 14)
        (second,) = [name for name in mesh.replicas if name.startswith("registry")]
        mesh.kill(second)
        await asyncio.sleep(600)  # nobody leads
        await mesh.start_registry("registry-2")
        await mesh.leader()
        await kept(mesh, 14)
        await gone(mesh, 2 * COUNT_SECONDS + 15)  # each death costs one count at most, and the time without a leader

    play(scene())


@pytest.mark.usefixtures("minutes")
def test_a_leader_that_was_stopped_for_long_does_not_count_that() -> None:
    async def scene() -> None:
        mesh = Mesh()
        await drained(mesh, retention_hours=1)
        (name,) = [each for each in mesh.processes if each.startswith("registry")]
        mesh.processes[name].pause()
        await asyncio.sleep(600)
        mesh.processes[name].resume()
        await mesh.leader()
        await kept(mesh, 45)
        await gone(mesh, 25)

    play(scene())


@pytest.mark.usefixtures("minutes")
def test_disagreeing_clocks_delete_nothing_and_are_reported() -> None:
    async def scene() -> None:
        mesh = Mesh()
        await drained(mesh, registries=2, retention_hours=1)
        leader = await mesh.leader()
        (other,) = [each for each in mesh.replicas if each.startswith("registry") and each != leader.instance]
        step(mesh, 8.0, [other])
        await kept(mesh, 120)
        assert list(leader.waits.apart) == [other]
        assert leader.waits.stopped == f"clocks disagree: {other} is {8 * 86_400} s ahead of most"
        labels = {"replica": other}
        assert leader.metrics.registry.get_sample_value("braid_clock_ahead_seconds", labels) == 8 * 86_400
        step(mesh, -8.0, [other])
        await gone(mesh, 10)
        assert not leader.waits.stopped

    play(scene())


@pytest.mark.usefixtures("minutes")
def test_clocks_within_the_bound_hold_nothing() -> None:
    async def scene() -> None:
        mesh = Mesh()
        await drained(mesh, registries=2, retention_hours=1)
        leader = await mesh.leader()
        step(mesh, 0.9 * CLOCKS_APART_SECONDS / 86_400, [leader.instance])
        await gone(mesh, 70)

    play(scene())


# --- the plan


def a_drained_channel() -> StreamHistory:
    history = created()
    channel = replace(history.channel("live", 1), state=ChannelState.DRAINED, state_since_ms=history.now_ms)
    history.state = history.state.with_channel(channel)
    return history


def wanted(world: World) -> bool:
    return RETIREMENT in [each.command for each in plan(world)]


def test_the_plan_goes_by_recorded_waits_alone() -> None:
    history = a_drained_channel()
    clusters = {each.name: each for each in (cluster("east"), cluster("west"))}
    late = World(history.now_ms + 9 * DAY_MS, clusters, {"logs": history.state})
    channel = history.state.channel(ChannelRef("live", 1))
    assert waits(late) == {CHANNEL: history.now_ms}
    assert not wanted(late) and kept_for_ms(late, history.state, channel) == 168 * HOUR_MS
    assert wanted(led(late))
    assert not wanted(replace(led(late), unsure="clocks disagree"))
    other = replace(late, waited={(CHANNEL, history.now_ms - 1): 9 * DAY_MS})
    assert not wanted(other), "that was an earlier wait"
    early = replace(late, now_ms=0, waited={(CHANNEL, history.now_ms): 168 * HOUR_MS})
    assert wanted(early), "wall clocks that went back hold nothing either"
