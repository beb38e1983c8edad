"""Partitions between real processes: a member or a producer in a network namespace is cut off, one way or both."""

import asyncio
import random
from typing import Final

from testbed.ground.field import Field, StuckError, now_ms
from testbed.ground.load import LEASE_SECONDS, MEMBERS, PRODUCERS
from tests.e2e.chaos.faults import Fault
from tests.e2e.chaos.namespaces import Namespace, namespace

BOTH: Final = "nothing passes"
SAYS: Final = "what it says is lost"
HEARS: Final = "what it would hear is lost"
CUT_SECONDS: Final = 3 * LEASE_SECONDS


def cut_member(how: str) -> Fault:
    """Cuts a member off for three leases: the others go on with its partitions, and what it says later is refused."""

    async def fault(field: Field, chance: random.Random) -> None:
        await _cut(field, chance.choice(MEMBERS), how, "processed")

    return fault


async def cut_producer(field: Field, chance: random.Random) -> None:
    """Cuts a producer off: the others go on, and it sends again what was not acknowledged."""
    await _cut(field, chance.choice(PRODUCERS), BOTH, "acked")


async def _cut(field: Field, name: str, how: str, kind: str) -> None:
    """Moves an application into a namespace, cuts its link, heals it, and moves the application back."""
    with namespace() as net, field.marked(name, f"in a network of its own: {how}"):
        await _begin_again(field, name, kind, net)
        cut_ms = now_ms()
        _cut_link(net, how)
        try:
            await asyncio.sleep(CUT_SECONDS)
            await field.progress()
        finally:
            net.heal()
        healed_ms = now_ms()
        await _works(field, name, kind, healed_ms)
        field.measured(f"cut_{name.partition('-')[0]}_healed_to_{kind}_ms", now_ms() - healed_ms)
        was_cut(field, name, kind, cut_ms, healed_ms)
        await _begin_again(field, name, kind, None)
    await field.progress()


def _cut_link(net: Namespace, how: str) -> None:
    if how in (BOTH, SAYS):
        net.cut_outgoing()
    if how in (BOTH, HEARS):
        net.cut_incoming()


async def _begin_again(field: Field, name: str, kind: str, net: Namespace | None) -> None:
    """Ends an application in order and starts it, in a namespace or beside all others; waits until it works."""
    await field.fleet.end(name)
    begun = now_ms()
    field.fleet.start(name, inside=net.command if net else ())
    await _works(field, name, kind, begun)


async def _works(field: Field, name: str, kind: str, since_ms: int) -> None:
    await field.first(kind, since_ms, lambda line: line.process == name, f"{name} works")


def was_cut(field: Field, name: str, kind: str, cut_ms: int, healed_ms: int) -> None:
    """Raises `StuckError` when the application worked on to the end of the cut: then nothing was cut."""
    late = cut_ms + (healed_ms - cut_ms) // 2
    lines = [line for line in field.journals.recent(kind, late) if line.process == name and line.ms < healed_ms]
    if lines:
        raise StuckError(f"{name} was cut off and worked on: {lines[0]}")
