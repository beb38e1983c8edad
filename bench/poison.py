"""One record in a thousand that fails for ever, beside none: what the others pay for it: `python -m bench.poison`.

Handlers wait 5 ms, 100 at once. A poison record is retried for ever, waiting 0.1 to 1 s; a run is over when all others
are done. The plain aiokafka loop tries its poison again on the spot, as it must to lose nothing, and stands there.
The second figure is of records sent at a steady rate: from the moment of sending to the end of the handler, with poison
among them and without, in turns. All is played on asyncio's loop and once more on uvloop's.
"""

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.concurrency import HANDLER_SECONDS
from bench.consume import fill
from bench.harness.arguments import Asked
from bench.harness.broker import cores, on_this_loop, play_on_both_loops
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.lateness import play as play_late
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.consumer_settings import Retry
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import Retryable
from braid.kernel.ports import Committed, OffsetAt, TopicPartition

IN_FLIGHT: Final = 100
ONE_IN: Final = 1_000
RETRY: Final = Retry(backoff_seconds=(0.1, 1.0))
PEER: Final = "braid run, no poison"
AGAIN: Final = "braid run, no poison again"
POISONED: Final = f"braid run, one poison in {ONE_IN:,}"
STALL_SECONDS: Final = 2.0  # beyond the time it would need, the plain loop is given up
STEADY_SECONDS: Final = 5.0
RATE_PER_S: Final = 2_000  # of the steady run
FIRST: Final = TopicPartition(TOPIC, 0)
STEADY: Final = TopicPartition(TOPIC, 1)  # where the records of the steady run are sent
LATE, LATE_AGAIN, LATE_POISONED = "no poison", "no poison again", "poison"
LATE_AIM: Final = 2.0  # times
LATE_TOLERANCE: Final = 0.2  # between equal runs: 99 of 100 of a few milliseconds


def is_poison(offset: int) -> bool:
    """Whether a record fails for ever, where any does."""
    return offset % ONE_IN == ONE_IN // 2


class Contest:
    """Handlers of a number of records, with a number in flight and a fixed handling time."""

    def __init__(
        self, bootstrap: str, records: int, *, in_flight: int = IN_FLIGHT, handler_seconds: float = HANDLER_SECONDS
    ) -> None:
        self._bootstrap = bootstrap
        self._records = records
        self._in_flight = in_flight
        self._handler_seconds = handler_seconds
        self._poisoned = sum(map(is_poison, range(records)))

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: lambda: self.run(poison=False),
            AGAIN: lambda: self.run(poison=False),
            POISONED: lambda: self.run(poison=True),
        }

    async def run(self, *, poison: bool) -> int:
        """All of the first partition; returns how many were done."""
        wanted = self._records - self._poisoned * poison
        done, all_done = 0, asyncio.Event()

        async def counted(record: Record) -> None:
            nonlocal done
            await self._handle()
            if is_poison(record.offset) and poison:  # looked at in every run: who measures takes time, too
                raise Retryable("for ever")
            done += record.partition == 0
            if done == wanted:
                all_done.set()

        ends = await self._ends()
        async with self._handled(counted, {STEADY: ends[STEADY]}):  # what lies there is of other runs
            await all_done.wait()
        return done

    async def late(self, seconds: float, *, poison: bool) -> float:
        """How late records are that are sent at a steady rate meanwhile, 99 of 100 of them; in seconds."""
        late: list[float] = []
        wanted, ends = int(RATE_PER_S * seconds), await self._ends()
        first = ends[STEADY]
        offsets = range(first, first + wanted)
        due, all_done = sum(not (poison and is_poison(offset)) for offset in offsets), asyncio.Event()

        async def timed(record: Record) -> None:
            await self._handle()
            if poison and is_poison(record.offset):
                raise Retryable("for ever")
            late.append(time.time() - record.timestamp / 1_000)
            if len(late) == due:
                all_done.set()

        async with self._handled(timed, ends):
            await self._send_steadily(wanted)
            await all_done.wait()
        return statistics.quantiles(late, n=100)[-1]

    async def _ends(self) -> dict[TopicPartition, int]:
        admin = AioKafka("bench").cluster(self._bootstrap, "").admin()
        ends = await admin.offsets_at(dict.fromkeys((FIRST, STEADY), OffsetAt.LATEST))
        await admin.close()
        return dict(ends)

    async def stalled_at(self, seconds: float) -> int:
        """How many records the plain loop hands on before it is given up: it tries its poison again where it lies."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
        await consumer.start()
        place = AioPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        done = 0

        async def loop() -> None:
            nonlocal done
            while True:
                for found in (await consumer.getmany(timeout_ms=1_000, max_records=self._in_flight)).values():
                    await asyncio.gather(*(self._until_done(each.offset) for each in found))
                    done += len(found)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + self._records * self._handler_seconds / self._in_flight):
                await loop()
        await consumer.stop()
        return done

    async def _until_done(self, offset: int) -> None:
        await self._handle()
        while is_poison(offset):
            await asyncio.sleep(RETRY.backoff_seconds[0])
            await self._handle()

    async def _handle(self) -> None:
        """Waits, like an application that asks another one."""
        await asyncio.sleep(self._handler_seconds)

    async def _send_steadily(self, count: int) -> None:
        producer = (
            AioKafka("bench")
            .cluster(self._bootstrap, "")
            .producer(linger_ms=5, compression=None, max_batch_bytes=1 << 20)
        )
        await producer.start()
        began, sending = time.monotonic(), []
        for number in range(count):
            due = began + number / RATE_PER_S
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            sending.append(await producer.send(STEADY, bytes(100), None, [], int(time.time() * 1_000)))
        for each in sending:
            await each
        await producer.close(5.0)

    @contextlib.asynccontextmanager
    async def _handled(
        self, handler: Callable[[Record], object], starts: Mapping[TopicPartition, int]
    ) -> AsyncIterator[Consumer]:
        """A consumer that runs, from these offsets and from the beginning of the other partitions."""
        group = new_group()
        offsets = AioKafka("bench").cluster(self._bootstrap, "").offsets()
        await offsets.commit(group, {place: Committed(start, "") for place, start in starts.items()}, None)
        await offsets.close()
        mesh = FixedMesh(self._bootstrap)
        async with mesh.consumer([STREAM], group=group, concurrency=self._in_flight, retry=RETRY) as consumer:
            running = asyncio.ensure_future(consumer.run(handler))
            yield consumer
        await running


async def filled(bootstrap: str, how: Asked) -> None:
    """Makes the topic."""
    await fill(AioKafka("bench").cluster(bootstrap, ""), how.units, partitions=1)


async def contests(bootstrap: str, how: Asked) -> AsyncIterator[Table]:
    """Plays the rounds, then looks at what is late and at the plain loop."""
    contest = Contest(bootstrap, how.units)
    found = rows(await play(contest.contestants(), how.rounds), PEER, "wall")
    share = 0.02 if how.quick else 1.0
    seconds = STEADY_SECONDS * share
    late = await play_late(
        {
            LATE: lambda: contest.late(seconds, poison=False),
            LATE_AGAIN: lambda: contest.late(seconds, poison=False),
            LATE_POISONED: lambda: contest.late(seconds, poison=True),
        },
        how.rounds,
    )
    calm, again, poisoned = (statistics.median(each.wall_seconds for each in late[name]) for name in late)
    stalled = await contest.stalled_at(STALL_SECONDS * share)
    facts = {
        "work": f"{how.units:,} records of one partition, {IN_FLIGHT} in flight, {HANDLER_SECONDS * 1e3:g} ms each; "
        f"{cores()}",
        "event loop": asyncio.get_running_loop().__class__.__module__,
        "late": f"99 of 100 records sent at {RATE_PER_S:,} a second were handled within {1e3 * calm:.0f} ms without "
        f"poison ({1e3 * again:.0f} ms again), {1e3 * poisoned:.0f} ms with it: {poisoned / calm:.2f} x "
        f"(aim <= {LATE_AIM:g}); medians of {how.rounds} runs each",
        "peer": f"aiokafka's plain loop handed on {stalled:,} of {how.units:,} records and stood at its first poison",
    }
    apart = abs(again / calm - 1)
    void = f"void: equal runs are {apart:.0%} apart" if apart > LATE_TOLERANCE else verdict(found, AGAIN)
    yield Table(on_this_loop("poison"), "record", "wall", void, facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when a table is void."""
    return play_on_both_loops(__doc__, filled, contests, units=50_000, quick_units=3_000)


if __name__ == "__main__":
    sys.exit(main())
