"""Handlers that wait 5 ms, many in flight over one partition: `python -m bench.concurrency`.

The ceiling is what an event loop of this process does when as many tasks do nothing but wait: no client can be faster.
All is played on asyncio's loop and once more on uvloop's, whose timers cost half. Plain aiokafka beside it hands every
record to a task of its own, as many at once as a semaphore lets through, or handles what a `getmany` brings together,
or one record after the other. The package pyrallel-consumer has that semaphore's idea; it asks for Python 3.12, which
is not what this is measured on. What the process holds when it begins is frozen, for all of them, as the guide advises
who has many handlers: full garbage collections then pass over it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.consume import fill
from bench.harness.arguments import Asked
from bench.harness.broker import cores, on_this_loop, play_on_both_loops
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.records.record import Record
from braid.kafka.cluster import AioKafka

IN_FLIGHT: Final = (100, 1_000)
HANDLER_SECONDS: Final = 0.005
KEYS: Final = 1_000
ALONE_RECORDS: Final = 200  # of who handles one at a time: more only take longer
PEER: Final = "the event loop alone"
AGAIN: Final = "the event loop alone again"


async def handle(record: object) -> None:
    """Waits, like an application that asks another one."""
    await asyncio.sleep(HANDLER_SECONDS)


class Contest:
    """A number of handlers in flight, over a number of records."""

    def __init__(self, bootstrap: str, in_flight: int, records: int) -> None:
        self._bootstrap = bootstrap
        self._in_flight = in_flight
        self._records = records

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: self.alone,
            AGAIN: self.alone,
            "braid run, no order": lambda: self.run("none"),
            f"braid run, by key, {KEYS:,} keys": lambda: self.run("key"),
            "aiokafka and a semaphore": self.by_semaphore,
            "aiokafka, each getmany together": self.gathered,
            "aiokafka, one after the other": self.one_by_one,
        }

    async def alone(self) -> int:
        """No Kafka at all."""
        left = iter(range(self._records))

        async def slot() -> None:
            for number in left:
                await handle(number)

        await asyncio.gather(*(slot() for _ in range(self._in_flight)))
        return self._records

    async def run(self, ordering: str) -> int:
        """A consumer's `run`; progress is committed."""
        group, done, all_done = new_group(), 0, asyncio.Event()

        async def counted(record: Record) -> None:
            nonlocal done
            await asyncio.sleep(HANDLER_SECONDS)
            done += 1
            if done == self._records:
                all_done.set()

        mesh = FixedMesh(self._bootstrap)
        async with mesh.consumer([STREAM], group=group, concurrency=self._in_flight, ordering=ordering) as consumer:
            running = asyncio.ensure_future(consumer.run(counted))
            waiting = asyncio.ensure_future(all_done.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        await running
        assert done >= self._records, "the consumer ended before all was handled"
        return done

    async def by_semaphore(self) -> int:
        """A task a record, out of order; what may be committed nobody knows, so nothing is."""
        consumer, _ = await self._aiokafka()
        free, tasks = asyncio.Semaphore(self._in_flight), set[asyncio.Task[None]]()

        async def handled(record: object) -> None:
            await asyncio.sleep(HANDLER_SECONDS)
            free.release()

        done = 0
        while done < self._records:
            for found in (await consumer.getmany(timeout_ms=1_000, max_records=5_000)).values():
                for record in found[: self._records - done]:
                    await free.acquire()
                    task = asyncio.create_task(handled(record))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    done += 1
        await asyncio.gather(*tasks)
        await consumer.stop()
        return done

    async def gathered(self) -> int:
        """Handles as many at once as are in flight; the slowest of them delays the next ones."""
        return await self._in_turns(self._in_flight, self._records)

    async def one_by_one(self) -> int:
        """The loop of every tutorial."""
        return await self._in_turns(1, min(ALONE_RECORDS, self._records))

    async def _aiokafka(self) -> tuple[AIOKafkaConsumer, AioPartition]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=new_group(), enable_auto_commit=False, fetch_max_bytes=16 << 20
        )
        await consumer.start()
        place = AioPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        return consumer, place

    async def _in_turns(self, at_once: int, records: int) -> int:
        consumer, place = await self._aiokafka()
        done = 0
        while done < records:
            for found in (await consumer.getmany(timeout_ms=1_000, max_records=at_once)).values():
                await asyncio.gather(*map(handle, found))
                done += len(found)
                if at_once > 1 or done % 100 == 0:
                    await consumer.commit({place: found[-1].offset + 1})
        await consumer.stop()
        return done


async def contest(bootstrap: str, in_flight: int, how: Asked) -> Table:
    """Plays the rounds with so many handlers in flight; `how.units` are records for each hundred of them."""
    records = how.units * in_flight // IN_FLIGHT[0]
    found = rows(await play(Contest(bootstrap, in_flight, records).contestants(), how.rounds), PEER, "wall")
    facts = {
        "work": f"{records:,} records of one partition, {in_flight} in flight, {HANDLER_SECONDS * 1e3:g} ms each: "
        f"ideal {in_flight / HANDLER_SECONDS:,.0f} a second; {cores()}",
        "peer": "as many tasks as are in flight, each of which only waits",
        "event loop": asyncio.get_running_loop().__class__.__module__,
    }
    name = on_this_loop(f"concurrency-{in_flight}")
    return Table(name, "record", "wall", verdict(found, AGAIN), facts, found, made_with())


async def filled(bootstrap: str, how: Asked) -> None:
    """Makes the topic, with as many records as any of them wants."""
    most = how.units * IN_FLIGHT[-1] // IN_FLIGHT[0]
    await fill(AioKafka("bench").cluster(bootstrap, ""), most, partitions=1, keys=KEYS)


async def contests(bootstrap: str, how: Asked) -> AsyncIterator[Table]:
    """One table for each number in flight."""
    for in_flight in IN_FLIGHT:
        yield await contest(bootstrap, in_flight, how)


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when a table is void."""
    return play_on_both_loops(__doc__, filled, contests, units=30_000, quick_units=300)


if __name__ == "__main__":
    sys.exit(main())
