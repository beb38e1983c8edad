"""Faults that meet: what an operator asks for, and a cluster of it that dies before it is done.

(A log cut short while its lane changes shape is `losing.return_cut_amid_repartition`.)
"""

import asyncio
import random
from collections.abc import Awaitable

from braid.kernel.errors import BraidError
from testbed.ground.field import Field, now_ms
from tests.e2e.chaos.faults import arrived, left_behind
from tests.e2e.chaos.operating import declare, forget, leave


async def move_to_the_dying(field: Field, chance: random.Random) -> None:
    """Moves the stream, and kills the cluster it goes to: before the registry has answered, or right after.

    A move that the death overtook may be refused; then the stream is where it was.
    """
    await field.healthy()
    source = field.carrier()
    target, early = field.other(source, chance), chance.random() < 0.5
    with field.marked(target, f"killed while it takes the stream from {source}") as mark:
        moving = asyncio.create_task(_refusal(field.move(target)))
        if not early:
            await moving
        await field.mesh.kill(target)
        field.kills += 1
        dead = now_ms()
        if refusal := await moving:
            mark.what += f"; the move was refused: {refusal}"
        else:
            await left_behind(field, target)
        line = await arrived(field, target, dead)
        if not refusal:
            field.measured("move_target_killed_to_first_ack_elsewhere_ms", line.ms - dead)
        await field.progress()
        await field.mesh.start(target)
    await field.progress()


async def emptied_dies(field: Field, chance: random.Random) -> None:
    """Empties the cluster that carries the stream; it dies before the traffic has left, or before its tail is drained.

    When it is back it is emptied to the end, forgotten, and declared again.
    """
    await field.healthy()
    name, early = field.carrier(), chance.random() < 0.5
    with field.marked(name, "killed while it is emptied") as mark:
        known = await leave(field, name)
        if not early:
            await arrived(field, name, mark.begin_ms)
        await field.mesh.kill(name)
        field.kills += 1
        dead = now_ms()
        await left_behind(field, name)
        await arrived(field, name, dead)
        await field.progress()
        await field.mesh.start(name)
    with field.marked(name, "emptied, forgotten, declared again", hit=False):
        await forget(field, name)
        await declare(field, known)
    await field.progress()


async def _refusal(asked: Awaitable[None]) -> BraidError | None:
    try:
        await asked
    except BraidError as error:
        return error
    return None
