"""Faults of a chaos run: processes and whole clusters killed and frozen, and moves amid that.

Each does its harm under load, sees work go on, and heals it.

What is hit is chosen by what carries traffic, or by a seeded choice. None waits for time to pass, except those that
freeze a process for a share of a lease or session: there the time is the fault.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Final

from braid.kernel.limits import SESSION_TTL_SECONDS
from tests.e2e.chaos.field import Field, StuckError, now_ms
from tests.e2e.chaos.load import LEASE_SECONDS, MEMBERS, PRODUCERS

Fault = Callable[[Field, random.Random], Awaitable[None]]
RECENT_MS: Final = 1_000
STALL_BEFORE_MS: Final = 1_000


async def kill_member(field: Field, chance: random.Random) -> None:
    """Kills the member that processed last, so inside its commit interval; another goes on with its partitions."""
    line = await field.first("processed", now_ms(), lambda line: True, "a record processed")
    name, worked = line.process, _worked(field, line.process)
    at = now_ms()
    field.fleet.kill(name)
    field.kills += 1
    survivor = await field.first(
        "processed",
        at,
        lambda line: line.process != name and line.log in worked,
        f"another member with a record of {name}'s partitions",
    )
    field.measured("member_killed_to_first_record_ms", survivor.ms - at)
    field.mark(name, "killed", at)
    await field.progress()
    field.fleet.start(name)


def pause_member(leases: float) -> Fault:
    """Freezes a member for a share of its lease; past it the others go on with its partitions."""

    async def fault(field: Field, chance: random.Random) -> None:
        name, at = chance.choice(MEMBERS), now_ms()
        field.fleet.pause(name)
        field.kills += 1
        await asyncio.sleep(leases * LEASE_SECONDS)
        field.fleet.resume(name)
        field.mark(name, f"frozen {leases:g} leases", at)
        await field.progress()

    return fault


async def kill_producer(field: Field, chance: random.Random) -> None:
    """Kills a producer in the middle of its sends."""
    name, at = chance.choice(PRODUCERS), now_ms()
    field.fleet.kill(name)
    field.kills += 1
    field.fleet.start(name)
    field.mark(name, "killed", at)
    await field.first("acked", at, lambda line: line.process == name, f"{name} acknowledged anew")
    await field.progress()


async def pause_producer(field: Field, chance: random.Random) -> None:
    """Freezes a producer; the others go on."""
    name, at = chance.choice(PRODUCERS), now_ms()
    field.fleet.pause(name)
    field.kills += 1
    await field.progress()
    field.fleet.resume(name)
    field.mark(name, "frozen", at)
    await field.first("acked", now_ms(), lambda line: line.process == name, f"{name} goes on")


def kill_leader(service: str) -> Fault:
    """Kills a service's leader; another replica leads."""

    async def fault(field: Field, chance: random.Random) -> None:
        name, at = await field.leader(service), now_ms()
        await field.mesh.kill(name)
        field.kills += 1
        await field.progress()
        await field.next_leader(service, name)
        field.measured(f"{service}_leader_killed_to_next_ms", now_ms() - at)
        await field.mesh.start(name)
        field.mark(name, "leader killed", at)

    return fault


def pause_leader(service: str) -> Fault:
    """Freezes a service's leader beyond its session; it comes back to find another one."""

    async def fault(field: Field, chance: random.Random) -> None:
        name, at = await field.leader(service), now_ms()
        await field.mesh.pause(name)
        field.kills += 1
        await asyncio.sleep(1.5 * SESSION_TTL_SECONDS)
        await field.mesh.resume(name)
        field.mark(name, "leader frozen 1.5 sessions", at)
        await field.progress()

    return fault


def kill_all(service: str) -> Fault:
    """Kills every replica of a service at once: producers and members go on, and decisions resume with its return."""

    async def fault(field: Field, chance: random.Random) -> None:
        names = [name for name in field.mesh.ready.services if name.startswith(service)]
        at = now_ms()
        await asyncio.gather(*(field.mesh.kill(name) for name in names))
        field.kills += len(names)
        await field.progress(processed=0)  # members' leases may end: acknowledgements must not
        await asyncio.gather(*(field.mesh.start(name) for name in names))
        for name in names:
            field.mark(name, "killed with all others", at)
        await field.progress()

    return fault


async def kill_cluster(field: Field, chance: random.Random) -> None:
    """Kills the cluster that carries the traffic; it returns after the traffic went elsewhere."""
    await _lose_cluster(field, chance, "killed", field.mesh.kill, field.mesh.start)


async def pause_cluster(field: Field, chance: random.Random) -> None:
    """Freezes the cluster that carries the traffic: connections stay open, nothing answers."""
    await _lose_cluster(field, chance, "frozen", field.mesh.pause, field.mesh.resume)


async def _lose_cluster(
    field: Field,
    chance: random.Random,
    how: str,
    lose: Callable[[str], Awaitable[str]],
    heal: Callable[[str], Awaitable[str]],
) -> None:
    """A stream fails over by itself only so often; beyond that a person would decide, here by a move in order."""
    if not field.may_fail_over():
        await move(field, chance)
        return
    await field.healthy()
    name, at = field.carrier(), now_ms()
    await lose(name)
    field.kills += 1
    line = await field.first(
        "acked", at, lambda line: line.cluster != name and ".live." in line.topic, "acknowledged by another cluster"
    )
    field.measured(f"cluster_{how}_to_first_ack_elsewhere_ms", line.ms - at)
    await field.progress()
    await heal(name)
    field.mark(name, how, at)


async def move(field: Field, chance: random.Random) -> None:
    """Moves the stream in order."""
    await field.healthy()
    source, at = field.carrier(), now_ms()
    target = field.other(source, chance)
    await field.move(target)
    await arrived(field, source, at)
    await field.progress()
    field.measured("planned_move_stall_ms", stall_ms(field, at - STALL_BEFORE_MS, now_ms()))
    field.mark(target, f"takes the stream from {source}", at)


async def move_without_leader(field: Field, chance: random.Random) -> None:
    """Moves the stream and kills the registry's leader right after: its successor finishes."""
    await field.healthy()
    source, at, leader = field.carrier(), now_ms(), await field.leader("registry")
    await field.move(field.other(source, chance))
    await field.mesh.kill(leader)
    field.kills += 1
    await arrived(field, source, at)
    await field.progress()
    await field.mesh.start(leader)
    field.mark(leader, "killed in a move", at)


async def arrived(field: Field, source: str, since_ms: int) -> None:
    """Waits for the first record that is acknowledged elsewhere."""
    await field.first(
        "acked", since_ms, lambda line: line.cluster != source and ".live." in line.topic, "the move arrived"
    )


def stall_ms(field: Field, begin_ms: int, end_ms: int) -> float:
    """The longest time between two acknowledgements of any one producer within an interval."""
    longest = 0
    for name in PRODUCERS:
        times = sorted(line.ms for line in field.journals.recent("acked", begin_ms) if line.process == name)
        times = [time for time in times if time <= end_ms]
        longest = max([longest, *(after - before for before, after in pairwise(times))])
    return longest


def _worked(field: Field, name: str) -> set[tuple[str, str, int]]:
    """Partitions a member processed records of just now."""
    lines = field.journals.recent("processed", now_ms() - RECENT_MS)
    worked = {line.log for line in lines if line.process == name}
    if not worked:
        raise StuckError(f"{name} processed nothing")
    return worked
