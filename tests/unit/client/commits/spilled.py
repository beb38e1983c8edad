"""Consumers whose progress is too large for one commit."""

import random

from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kernel.progress.fields import SpillPointer
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, killed, member, take

UNITS = 64  # a cluster that accepts little more than a pointer


COUNT = 2_000


_DICE = random.Random(1)


UNDONE = [
    0,
    *(offset for offset in range(1, COUNT + 1_000) if _DICE.random() < 0.3),
]  # with no pattern to write shortly


def undone(count: int = COUNT) -> list[int]:
    """The undone offsets among this many."""
    return [offset for offset in UNDONE if offset < count]


async def most(at: Bench, consumer: Consumer, count: int = COUNT) -> list[Record]:
    """Does most of so many records; returns those that are out."""
    out: list[Record] = []
    for record in await take(consumer, count):
        if record.offset not in UNDONE:
            at.sunk(record)
            record.ack()
        else:
            out.append(record)
    return out


def small(at: Bench, units: int = UNITS) -> None:
    """The cluster accepts so much metadata."""
    at.control.clusters["east"].groups.metadata_max_units = units


def pointed(at: Bench) -> SpillPointer | None:
    """Where the newest commit points."""
    return at.watch.last(TOPIC).fields.spill


async def left_by_the_first(at: Bench) -> None:
    """A member does most of the records, commits, and dies."""
    at.fill(COUNT)
    async with member(at, "one", FIRST) as (consumer, client):
        await most(at, consumer)
        await consumer.commit()
        client.kill()
        killed(consumer)
