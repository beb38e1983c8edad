"""Producers die and tell nothing, and then a cluster loses its logs: what is told as lost has no wrong end.

Where somebody has seen how far the logs went since, it has the right one; else it has none.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from braid.kernel.limits.assigner.leases import PRODUCER_SESSION_SECONDS
from braid.kernel.limits.registry.resources import LOG_ENDS_SECONDS
from braid.kernel.offset_ranges import OPEN
from services.registry.liveness.producer_sessions import Sessions
from services.registry.reconciler.log_ends import EndsReader
from tests.unit.registry.mesh import Mesh, Producer, open_producer
from tests.unit.registry.scenarios.returning_without import CHANNEL, TOPIC, filled, is_lost, leave, named, play

EXACT = [(0, 0, 9), (1, 0, 4)]
UNKNOWN = [(0, 0, OPEN), (1, 0, OPEN)]
Meanwhile = Callable[[Mesh, Producer], Awaitable[Producer]]


async def told(mesh: Mesh, meanwhile: Meanwhile) -> list[tuple[int, int, int]]:
    """A producer dies with five records of a partition that nobody else writes to; the loss that is told at last."""
    staying = await filled(mesh)
    dying = await open_producer(mesh, "dying", process="dying")
    await mesh.until(lambda: bool(dying.routes), 2, "no route")
    await dying.acknowledge(dying.routes[-1].revision)
    await mesh.append("east", TOPIC, 1, 5)
    mesh.network.kill("dying")
    staying = await meanwhile(mesh, staying)
    east = mesh.kafka.named("east")
    east.kill()
    await leave(mesh, staying)
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 3 * PRODUCER_SESSION_SECONDS)
    east.empty(replaced=False)
    east.start()
    return named((await mesh.until_channel(CHANNEL, is_lost, 60)).lost)


async def look_nowhere(reader: EndsReader) -> None:
    """In place of `EndsReader.run`."""


async def nothing(mesh: Mesh, staying: Producer) -> Producer:
    return staying


async def forgotten(mesh: Mesh, staying: Producer) -> Producer:
    """Nobody counts the dead one any more."""
    await asyncio.sleep(3 * PRODUCER_SESSION_SECONDS)
    return staying


async def another_leads(mesh: Mesh, staying: Producer) -> Producer:
    """One that never heard of the dead producer."""
    await mesh.start_registry("registry-1")
    mesh.kill("registry-0")
    await mesh.leader()
    staying = await open_producer(mesh, "staying")
    await mesh.until(lambda: bool(staying.routes), 2, "no route")
    await staying.acknowledge(staying.routes[-1].revision)
    return staying


async def another_leads_for_long(mesh: Mesh, staying: Producer) -> Producer:
    staying = await another_leads(mesh, staying)
    await asyncio.sleep(PRODUCER_SESSION_SECONDS + 2 * LOG_ENDS_SECONDS)
    return staying


def test_who_died_just_now_may_have_written_to_any_end() -> None:
    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, nothing) == UNKNOWN

    play(scene)


def test_a_long_dead_producer_wrote_below_the_end_seen_since() -> None:
    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, forgotten) == EXACT

    play(scene)


def test_a_leader_that_never_heard_of_the_dead_says_no_end() -> None:
    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, another_leads) == UNKNOWN

    play(scene)


def test_a_leader_claiming_to_know_all_leaves_losses_unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: five acknowledged records are gone without a word."""
    monkeypatch.setattr(EndsReader, "run", look_nowhere)
    monkeypatch.setattr(Sessions, "_unheard", lambda *_: False)

    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, another_leads) == [(0, 0, 9)]

    play(scene)


def test_a_leader_that_has_seen_the_logs_since_knows_their_end() -> None:
    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, another_leads_for_long) == EXACT

    play(scene)


@pytest.mark.parametrize("meanwhile", [forgotten, another_leads_for_long])
def test_where_nobody_could_look_there_is_no_end(meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for what looking at ends is for."""
    monkeypatch.setattr(EndsReader, "run", look_nowhere)

    async def scene(mesh: Mesh) -> None:
        assert await told(mesh, meanwhile) == UNKNOWN

    play(scene)
