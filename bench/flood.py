"""The cost of a flood on lane `bulk` for lane `live`, 99th percentile of its latency: `python -m bench.flood`.

Handlers that wait 5 ms, live records at a steady pace, from the call of `send` to the call of the handler. The flood
lies there when the consumer begins: a hundred records on `bulk` for each live one, more than its handlers can do
meanwhile, so that there is always one more. The peer is the loop one would write over plain aiokafka: both topics, a
task a record, as many at once as a semaphore lets through. A unit is the slowest live record of 100.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.consume import fill
from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.fixed_mesh import CHANNEL, PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.lateness import PACE_PER_S, WARM_UP_RECORDS, Contestants, Where, play, send_steadily, slowest_of_100
from bench.harness.rounds import ROUNDS_MIN, rows
from bench.harness.tables import Table, made_with
from braid.client.records.record import Record
from braid.kafka.cluster import AioKafka
from braid.kernel.ids import ChannelId
from braid.kernel.ports import Committed, OffsetAt, TopicPartition
from testbed.patience import until

HANDLER_SECONDS: Final = 0.005
CONCURRENCY: Final = 40  # who can do 8,000 in a second
FLOOD: Final = 100  # records on `bulk` for each live one
BEFORE_RECORDS: Final = 30_000  # of them that may be done before the first live one comes
BULK: Final = ChannelId(STREAM, "bulk", 1)
AIM: Final = 1.5
QUIET: Final = "live, quiet"
AGAIN: Final = "live, quiet, again"
FLOODED: Final = f"live, bulk flooded {FLOOD}×"
PEER_QUIET: Final = "aiokafka and a semaphore, quiet"
PEER_FLOODED: Final = f"aiokafka and a semaphore, flooded {FLOOD}×"
WAIT_SECONDS: Final = 300.0
TOLERANCE: Final = 0.35  # of the quiet 99th percentiles among themselves


class Handled:
    """A handler's observations: when live records came, and how many of the flood were done."""

    def __init__(self) -> None:
        self.live: dict[Where, float] = {}
        self.bulk = 0

    async def handle(self, topic: str, where: Where) -> None:
        """Handles a record, like an application that asks another one."""
        if topic == TOPIC:
            self.live[where] = time.perf_counter()
        await asyncio.sleep(HANDLER_SECONDS)
        self.bulk += topic != TOPIC


class Contest:
    """A number of live records beside a flood of a channel."""

    def __init__(self, bootstrap: str, live: int, flood: int, flooded: ChannelId = BULK) -> None:
        self._bootstrap = bootstrap
        self._live = live
        self._flood = flood
        self._flooded = flooded
        self.bulk_done: list[int] = []  # in each run that was flooded

    def contestants(self) -> Contestants:
        """By name; each returns seconds."""
        return {
            QUIET: lambda: self.braid(flooded=False),
            AGAIN: lambda: self.braid(flooded=False),
            FLOODED: lambda: self.braid(flooded=True),
            PEER_QUIET: lambda: self.peer(flooded=False),
            PEER_FLOODED: lambda: self.peer(flooded=True),
        }

    async def braid(self, *, flooded: bool) -> float:
        """A consumer of both lanes, which have equal shares."""
        seen = Handled()

        async def handle(record: Record) -> None:
            await seen.handle(record.topic, Where(record.partition, record.offset))

        group = await self._group(flooded)
        mesh = FixedMesh(self._bootstrap, (CHANNEL, self._flooded))
        async with mesh.consumer([STREAM], group=group, concurrency=CONCURRENCY) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            took = await self._measure(seen, flooded)
            running.cancel()
        if flooded:
            assert seen.bulk < self._flood, "the flood was over before the live records were: fill more"
            self.bulk_done.append(seen.bulk)
        return took

    async def peer(self, *, flooded: bool) -> float:
        """Both topics, in whatever order they come: live records may have to wait until the flood is over."""
        seen, free, tasks = Handled(), asyncio.Semaphore(CONCURRENCY), set[asyncio.Task[None]]()

        async def handle(topic: str, where: Where) -> None:
            try:
                await seen.handle(topic, where)
            finally:
                free.release()

        async def loop(consumer: AIOKafkaConsumer) -> None:
            async for record in consumer:
                await free.acquire()
                task = asyncio.create_task(handle(record.topic, Where(record.partition, record.offset)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        async with self._aiokafka(await self._group(flooded)) as consumer:
            running = asyncio.create_task(loop(consumer))
            took = await self._measure(seen, flooded)
            for task in (running, *tasks):
                task.cancel()
            await asyncio.gather(running, *tasks, return_exceptions=True)
        return took

    async def _measure(self, seen: Handled, flooded: bool) -> float:
        """Sends live records, and waits until they are handled."""
        async with FixedMesh(self._bootstrap).producer(STREAM, linger_ms=0) as producer:
            await producer.send(b"first")
            await until(lambda: bool(seen.live) and (seen.bulk > 0) is flooded, "first records", WAIT_SECONDS)
            sent = await send_steadily(producer, self._live)
            await until(lambda: sent.keys() <= seen.live.keys(), "all live records", WAIT_SECONDS)
        return slowest_of_100(sent, seen.live)

    @contextlib.asynccontextmanager
    async def _aiokafka(self, group: str) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=True, fetch_max_bytes=16 << 20
        )
        await consumer.start()
        consumer.assign([AioPartition(topic, number) for topic in self._topics for number in range(PARTITIONS)])
        try:
            yield consumer
        finally:
            await consumer.stop()

    @property
    def _topics(self) -> Sequence[str]:
        return TOPIC, self._flooded.topic("braid.")

    async def _group(self, flooded: bool) -> str:
        """A new group, at the end of `live`, and at the beginning or the end of the flood."""
        group = new_group()
        cluster = AioKafka("bench").cluster(self._bootstrap, "")
        admin, offsets = cluster.admin(), cluster.offsets()
        places = [TopicPartition(topic, number) for topic in self._topics for number in range(PARTITIONS)]
        ends = await admin.offsets_at(dict.fromkeys(places, OffsetAt.LATEST))
        starts = {place: 0 if flooded and place.topic != TOPIC else end for place, end in ends.items()}
        await offsets.commit(group, {place: Committed(start, "") for place, start in starts.items()}, None)
        await offsets.close()
        await admin.close()
        return group


async def contest(bootstrap: str, how: Asked) -> Table:
    """Plays the rounds; `how.units` are live records."""
    cluster = AioKafka("bench").cluster(bootstrap, "")
    flood = FLOOD * (how.units + WARM_UP_RECORDS) + BEFORE_RECORDS
    await fill(cluster, 1)
    await fill(cluster, flood, topic=BULK.topic("braid."))
    contest = Contest(bootstrap, how.units, flood)
    found = {row.name: row for row in rows(await play(contest.contestants(), how.rounds), QUIET, "wall")}
    costs = {name: row.wall_micros for name, row in found.items()}
    facts = {
        "work": f"{how.units:,} live records at {PACE_PER_S} a second, handlers of {HANDLER_SECONDS * 1e3:g} ms, "
        f"{CONCURRENCY} at once for both lanes, equal shares; {flood:,} records on bulk, of which at least "
        f"{min(contest.bulk_done):,} were done meanwhile; {cores()}",
        "peer": "the same consumer without a flood",
        "flooded over quiet": f"{costs[FLOODED] / costs[QUIET]:.2f} (aim <= {AIM:g}); "
        f"aiokafka and a semaphore {costs[PEER_FLOODED] / costs[PEER_QUIET]:.2f}",
    }
    apart = abs(costs[AGAIN] / costs[QUIET] - 1)
    void = f"not to be quoted: {how.rounds} rounds, fewer than {ROUNDS_MIN}" if how.rounds < ROUNDS_MIN else ""
    void = f"void: quiet runs are {apart:.0%} apart" if apart > TOLERANCE else void
    return Table("flood", "slowest of 100", "wall", void, facts, list(found.values()), made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when it is void."""
    return play_on_a_broker(__doc__, contest, units=1_000, quick_units=100)


if __name__ == "__main__":
    sys.exit(main())
