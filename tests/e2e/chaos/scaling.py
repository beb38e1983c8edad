"""The number of members changes: from one to eight and back to one, all in order."""

import random
from typing import Final

from testbed.ground.field import Field
from testbed.ground.load import MEMBERS

MANY: Final = 8
OWNED_SECONDS: Final = 30.0


async def one_to_eight_to_one(field: Field, chance: random.Random) -> None:
    """Lets all members but one leave, seven others come, and leave again; then the usual ones are there."""
    stays, *others = MEMBERS
    guests = [f"member-{number}" for number in range(len(MEMBERS), MANY)]
    with field.marked(stays, "works alone, with seven others, and alone", hit=False) as mark:
        await _leave(field, others)
        for name in (*others, *guests):
            field.fleet.start(name)
        await _have_begun(field, guests, mark.begin_ms)
        await field.progress()
        await field.owned(OWNED_SECONDS)
        await _leave(field, [*others, *guests])
    for name in others:
        field.fleet.start(name)
    await field.owned(OWNED_SECONDS)
    await field.progress()


async def _have_begun(field: Field, names: list[str], since_ms: int) -> None:
    def begun() -> bool:
        return {*names} <= {line.process for line in field.journals.recent("started", since_ms)}

    await field.until(begun, f"{', '.join(names)} have begun")


async def _leave(field: Field, names: list[str]) -> None:
    """Ends members in order, one after the other; the remaining ones take over all partitions."""
    for name in names:
        await field.fleet.end(name)
    await field.owned(OWNED_SECONDS)
    await field.progress()
