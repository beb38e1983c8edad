"""Faults of a chaos run: processes and whole clusters killed and frozen, and moves amid that.

Each does its harm under load, sees work go on, and heals it.

What is hit is chosen by what carries traffic, or by a seeded choice. None waits for time to pass, except those that
freeze a process for a share of a lease or session: there the time is the fault.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from itertools import pairwise
from typing import Final

from braid.api.registry.v1.stream_pb2 import ChannelState
from braid.kernel.limits.registry.resources import FAILOVER_WINDOW_SECONDS, FAILOVERS_MAX
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from devmesh.mesh import DevMesh
from testbed.ground.field import Field, StuckError, now_ms
from testbed.ground.journals import Line
from testbed.ground.load import LANES, LEASE_SECONDS, MEMBERS, PRODUCERS

Fault = Callable[[Field, random.Random], Awaitable[None]]
Verb = Callable[[str], Awaitable[str]]
RECENT_MS: Final = 1_000
STALL_BEFORE_MS: Final = 1_000
HELD: Final = "move it by hand"
HELD_SECONDS: Final = 30.0  # that it may have been held for, until that is seen here


async def kill_member(field: Field, chance: random.Random) -> None:
    """Kills the member that processed last, so inside its commit interval; another goes on with its partitions."""
    line = await field.first("processed", now_ms(), lambda line: True, "a record processed")
    name, worked = line.process, _worked(field, line.process)
    with field.marked(name, "killed") as mark:
        field.fleet.kill(name)
        field.kills += 1
        survivor = await field.first(
            "processed",
            mark.begin_ms,
            lambda line: line.process != name and line.log in worked,
            f"another member with a record of {name}'s partitions",
        )
        field.measured("member_killed_to_first_record_ms", survivor.ms - mark.begin_ms)
        await field.progress()
        field.fleet.start(name)


def pause_member(leases: float) -> Fault:
    """Freezes a member at work for a share of its lease; past it the others go on with its partitions."""

    async def fault(field: Field, chance: random.Random) -> None:
        name = chance.choice(_at_work(field))
        with field.marked(name, f"frozen {leases:g} leases"):
            field.fleet.pause(name)
            field.kills += 1
            await asyncio.sleep(leases * LEASE_SECONDS)
            field.fleet.resume(name)
        await field.progress()

    return fault


async def kill_producer(field: Field, chance: random.Random) -> None:
    """Kills a producer in the middle of its sends."""
    name = chance.choice(PRODUCERS)
    with field.marked(name, "killed") as mark:
        field.fleet.kill(name)
        field.kills += 1
        field.fleet.start(name)
        await field.first("acked", mark.begin_ms, lambda line: line.process == name, f"{name} acknowledged anew")
    await field.progress()


async def pause_producer(field: Field, chance: random.Random) -> None:
    """Freezes a producer; the others go on."""
    name = chance.choice(PRODUCERS)
    with field.marked(name, "frozen"):
        field.fleet.pause(name)
        field.kills += 1
        await field.progress()
        field.fleet.resume(name)
    await field.first("acked", now_ms(), lambda line: line.process == name, f"{name} goes on")


def kill_leader(service: str) -> Fault:
    """Kills a service's leader; another replica leads."""

    async def fault(field: Field, chance: random.Random) -> None:
        name = await field.leader(service)
        with field.marked(name, "leader killed") as mark:
            await field.mesh.kill(name)
            field.kills += 1
            await field.progress()
            await field.next_leader(service, name)
            field.measured(f"{service}_leader_killed_to_next_ms", now_ms() - mark.begin_ms)
            await field.mesh.start(name)

    return fault


def pause_leader(service: str) -> Fault:
    """Freezes a service's leader beyond its session; it comes back to find another one."""

    async def fault(field: Field, chance: random.Random) -> None:
        name = await field.leader(service)
        with field.marked(name, "leader frozen 1.5 sessions"):
            await field.mesh.pause(name)
            field.kills += 1
            await asyncio.sleep(1.5 * SESSION_TTL_SECONDS)
            await go_on(field.mesh, name)
        await field.progress()

    return fault


async def go_on(mesh: DevMesh, name: str) -> None:
    """Lets a frozen replica go on. Others end one that was frozen while it wrote to the store: it is started again."""
    running = {each.name for each in (await mesh.status()).processes if each.pid is not None}
    await (mesh.resume if name in running else mesh.start)(name)


def kill_all(service: str) -> Fault:
    """Kills every replica of a service at once: producers and members go on, and decisions resume with its return."""

    async def fault(field: Field, chance: random.Random) -> None:
        names = [name for name in field.mesh.ready.services if name.startswith(service)]
        with ExitStack() as marks:
            for name in names:
                marks.enter_context(field.marked(name, "killed with all others"))
            await asyncio.gather(*(field.mesh.kill(name) for name in names))
            field.kills += len(names)
            await field.progress(processed=0)  # members' leases may end: acknowledgements must not
            await asyncio.gather(*(field.mesh.start(name) for name in names))
        await field.progress()

    return fault


async def kill_cluster(field: Field, chance: random.Random) -> None:
    """Kills the cluster that carries the traffic; it returns after the traffic went elsewhere."""
    await _lose_cluster(field, "killed", field.mesh.kill, field.mesh.start)


async def pause_cluster(field: Field, chance: random.Random) -> None:
    """Freezes the cluster that carries the traffic: connections stay open, nothing answers."""
    await _lose_cluster(field, "frozen", field.mesh.pause, field.mesh.resume)


async def _lose_cluster(field: Field, how: str, lose: Verb, heal: Verb) -> None:
    await field.healthy()
    name = field.carrier()
    with field.marked(name, how) as mark:
        await lose(name)
        field.kills += 1
        by_itself = await left_behind(field, name)
        line = await arrived(field, name, mark.begin_ms)
        if by_itself:
            field.measured(f"cluster_{how}_to_first_ack_elsewhere_ms", line.ms - mark.begin_ms)
        await field.progress()
        await heal(name)


async def left_behind(field: Field, name: str) -> bool:
    """Whether the stream leaves a lost cluster by itself. It does so only so often, and then asks for a person."""
    held: list[str] = []

    async def decided() -> bool:
        status = (await field.stream()).status
        held[:] = [status.blocked_reason] if HELD in status.blocked_reason else []
        used = (each for each in status.channels if each.state == ChannelState.CHANNEL_STATE_ACTIVE)
        return bool(held) or not any(each.cluster == name and each.lane in LANES for each in used)

    await field.asked(decided, f"the stream leaves {name}, or asks for somebody who moves it")
    if not held:
        return True
    if (left := await field.failovers(FAILOVER_WINDOW_SECONDS + HELD_SECONDS)) < FAILOVERS_MAX:
        raise StuckError(f"the stream is held on {name} after it moved {left} times: {held[0]}")
    with field.marked(name, "left by hand, for the stream moved too often", hit=False):
        await field.moved_away(name)
    return False


async def move(field: Field, chance: random.Random) -> None:
    """Moves the stream in order."""
    await field.healthy()
    source = field.carrier()
    target = field.other(source, chance)
    with field.marked(target, f"takes the stream from {source}", hit=False) as mark:
        await field.move(target)
        await arrived(field, source, mark.begin_ms)
        await field.progress()
        field.measured("planned_move_stall_ms", stall_ms(field, mark.begin_ms - STALL_BEFORE_MS, now_ms()))


async def move_without_leader(field: Field, chance: random.Random) -> None:
    """Moves the stream and kills the registry's leader right after: its successor finishes."""
    await field.healthy()
    source, leader = field.carrier(), await field.leader("registry")
    with field.marked(leader, "killed in a move") as mark:
        await field.move(field.other(source, chance))
        await field.mesh.kill(leader)
        field.kills += 1
        await arrived(field, source, mark.begin_ms)
        await field.progress()
        await field.mesh.start(leader)


async def arrived(field: Field, source: str, since_ms: int) -> Line:
    """The first record of lane live that is acknowledged elsewhere."""
    return await field.first(
        "acked", since_ms, lambda line: line.cluster != source and ".live." in line.topic, f"acknowledged off {source}"
    )


def stall_ms(field: Field, begin_ms: int, end_ms: int) -> float:
    """The longest time between two acknowledgements of any one producer within an interval."""
    longest = 0
    for name in PRODUCERS:
        times = sorted(line.ms for line in field.journals.recent("acked", begin_ms) if line.process == name)
        times = [time for time in times if time <= end_ms]
        longest = max([longest, *(after - before for before, after in pairwise(times))])
    return longest


def _at_work(field: Field) -> list[str]:
    """Members that processed something just now: one that has only just come back may hold nothing."""
    lines = field.journals.recent("processed", now_ms() - RECENT_MS)
    return sorted({line.process for line in lines}) or list(MEMBERS)


def _worked(field: Field, name: str) -> set[tuple[str, str, int]]:
    """Partitions a member processed records of just now."""
    lines = field.journals.recent("processed", now_ms() - RECENT_MS)
    worked = {line.log for line in lines if line.process == name}
    if not worked:
        raise StuckError(f"{name} processed nothing")
    return worked
