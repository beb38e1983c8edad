"""Support for the consumer's tests: a member on a scripted assigner, a sink, and a watch over every commit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kernel.envelope.spill import TOPIC as TOPIC_OF_SPILL
from braid.kernel.ports import TopicPartition
from tests.support.commit_watch import CommitWatch, fill
from tests.support.scripted_control import Client, Control

LIVE: Final = "logs/live/1"
TOPIC: Final = "braid.logs.live.1"
FIRST: Final = f"{LIVE}/0"
SECOND: Final = f"{LIVE}/1"
Place = tuple[str, str, int, int]


@dataclass
class Bench:
    """One stream with a channel of lane `live` on east, one of `bulk` there too, and a dlq on west."""

    control: Control
    watch: CommitWatch
    sink: list[tuple[Place, int]] = field(default_factory=list)  # where, and under which epoch

    def fill(self, count: int, *, channel: str = LIVE, partition: int = 0) -> None:
        """Puts records into a channel, their values counting up."""
        known = self.control.channels[channel]
        cluster = self.control.clusters[known.cluster]
        place = TopicPartition(known.topic, partition)
        now_ms = self.control.process.clock.now_ms()
        while count > 0:
            first = cluster.log(place).end
            fill(cluster, place, [b"%d" % (first + n) for n in range(min(count, 1_000))], now_ms)
            count -= 1_000

    def sunk(self, record: Record) -> None:
        """The sink takes a record; only then may it be acknowledged."""
        place = (record.cluster, record.topic, record.partition, record.offset)
        self.sink.append((place, record.epoch))
        self.watch.done(*place)

    async def handle(self, record: Record) -> None:
        """A handler that takes a moment."""
        await asyncio.sleep(0.001)
        self.sunk(record)

    def offsets(self, topic: str = TOPIC, partition: int = 0) -> list[int]:
        """Offsets of a partition in the sink, in order of processing."""
        return [place[3] for place, _ in self.sink if place[1:3] == (topic, partition)]


@asynccontextmanager
async def bench(lease_ms: int = 3_000) -> AsyncIterator[Bench]:
    """Everything but members."""
    control = await Control(lease_ms=lease_ms).start()
    control.add_channel(LIVE, "east")
    control.add_channel("logs/bulk/1", "east")
    control.add_channel("logs/dlq/1", "west", partitions=1)
    await control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
    made = Bench(control, CommitWatch(control.clusters))
    yield made
    assert made.watch.untrue == []


@asynccontextmanager
async def member(at: Bench, name: str, *leases: str, **settings: object) -> AsyncIterator[tuple[Consumer, Client]]:
    """A member that holds these leases."""
    client = at.control.client(name)
    consumer = client.mesh.consumer(["logs"], group="g", **settings)  # type: ignore[arg-type]  # forwarded as they are
    async with client.mesh, consumer:
        if leases:
            await at.control.grant(-1, *leases)
        yield consumer, client


async def take(consumer: Consumer, count: int, seconds: float = 5.0) -> list[Record]:
    """Takes this many records; fewer if no more arrive in time."""
    taken: list[Record] = []
    while len(taken) < count and (record := await consumer.take(seconds)) is not None:
        taken.append(record)
    return taken


def killed(consumer: Consumer) -> None:
    """Its context is left without a word, as after kill -9."""
    consumer._background.closed = True


def no_room_beside_commits(at: Bench) -> None:
    """Commits on east hold little, and nothing can be written beside them."""
    east = at.control.clusters["east"]
    east.groups.metadata_max_units = 100
    east.create_topic(TOPIC_OF_SPILL, 1, 1, {"max.message.bytes": "0"})


def is_rejected(offset: int) -> bool:
    """Whether `reject_some` rejects what lies there: three of seven."""
    return offset % 7 < 3


async def reject_some(at: Bench, consumer: Consumer, count: int) -> None:
    """Takes so many records; the sink gets those that are not rejected."""
    for record in await take(consumer, count):
        if is_rejected(record.offset):
            record.reject("not ours")
        else:
            at.sunk(record)
            record.ack()
