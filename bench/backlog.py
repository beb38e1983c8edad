"""Latency of new records beside a backlog, 99th percentile: quiet, split and not split: `python -m bench.backlog`.

One partition, handlers that wait 5 ms, live records at a steady pace, from the call of `send` to the call of the
handler. A backlog lies there already; a split gives it a fifth of the handlers. A unit is the slowest record of 100.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final

import braid
from bench.consume import fill
from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.fixed_mesh import PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.lateness import PACE_PER_S, Where, play, send_steadily, slowest_of_100
from bench.harness.rounds import rows
from bench.harness.tables import Table, made_with
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kafka.cluster import AioKafka
from braid.kafka.partitioner import partition_of
from braid.kernel.ports import Committed, OffsetAt, TopicPartition
from testbed.patience import until

HANDLER_SECONDS: Final = 0.005
CONCURRENCY: Final = 64
SHARE: Final = 0.2
AIM: Final = 1.5
QUIET: Final = "no backlog"
AGAIN: Final = "no backlog, again"
SPLIT: Final = f"beside a backlog, split, share {SHARE:g}"
NOT_SPLIT: Final = "behind a backlog, not split"
WAIT_SECONDS: Final = 300.0
KEY: Final = next(key for key in map(b"%d".__mod__, count()) if not partition_of(key, PARTITIONS))  # of the backlog's
BEFORE_RECORDS: Final = 30_000  # that are handled before a consumer looks how old its records are
TOLERANCE: Final = 0.35  # of the quiet 99th percentiles among themselves


class Contest:
    """A number of live records beside a backlog."""

    def __init__(self, bootstrap: str, live: int, backlog: int) -> None:
        self._bootstrap = bootstrap
        self._live = live
        self._backlog = backlog

    def contestants(self) -> dict[str, Callable[[], Awaitable[float]]]:
        """By name; each returns seconds."""
        return {QUIET: self.quiet, AGAIN: self.quiet, SPLIT: self.split, NOT_SPLIT: self.not_split}

    async def quiet(self) -> float:
        """The group is where the log ends."""
        return await self._play(behind=False, policy=None)

    async def split(self) -> float:
        """The group is far behind, and works at both places."""
        return await self._play(behind=True, policy=braid.Backlog(split_after_seconds=0.001, share=SHARE))

    async def not_split(self) -> float:
        """The group is far behind, and works on everything in order."""
        return await self._play(behind=True, policy=None)

    async def _play(self, *, behind: bool, policy: braid.Backlog | None) -> float:
        handled: dict[Where, float] = {}

        async def handle(record: Record) -> None:
            handled[Where(record.partition, record.offset)] = time.perf_counter()
            await asyncio.sleep(HANDLER_SECONDS)

        group, end = await self._group(behind)
        mesh = FixedMesh(self._bootstrap)
        settled = mesh.consumer([STREAM], group=group, concurrency=CONCURRENCY, backlog=policy)
        async with settled as consumer, mesh.producer(STREAM, linger_ms=0) as producer:
            running = asyncio.ensure_future(consumer.run(handle))
            await _ready(consumer, producer, handled, policy is not None)
            sent = await send_steadily(producer, self._live, KEY)
            await until(lambda: sent.keys() <= handled.keys(), "all live records", WAIT_SECONDS)
            left = end - sum(each.partition == 0 and each.offset < end for each in handled) if behind else 0
            assert policy is None or left > 0, "the backlog was done before the live records were: fill more"
            running.cancel()
        return slowest_of_100(sent, handled)

    async def _group(self, behind: bool) -> tuple[str, int]:
        """A new group's name, at the backlog's beginning or at the log's end; and where that is."""
        group = new_group()
        cluster = AioKafka("bench").cluster(self._bootstrap, "")
        admin, offsets = cluster.admin(), cluster.offsets()
        place = TopicPartition(TOPIC, 0)
        end = (await admin.offsets_at({place: OffsetAt.LATEST}))[place]
        await offsets.commit(group, {place: Committed(end - self._backlog if behind else end, "")}, None)
        await offsets.close()
        await admin.close()
        return group, end


async def _ready(consumer: Consumer, producer: braid.Producer, handled: dict[Where, float], splits: bool) -> None:
    """Records come, and where a split is wanted it is made."""
    if splits:
        await until(lambda: any(each.behind for each in consumer.explain()), "a split", WAIT_SECONDS)
    first = await producer.send(b"first", key=KEY)
    if splits:
        await until(lambda: Where(first.partition, first.offset) in handled, "a first live record", WAIT_SECONDS)
    await until(lambda: bool(handled), "a first record", WAIT_SECONDS)


async def contest(bootstrap: str, how: Asked) -> Table:
    """Plays the rounds; `how.units` are live records."""
    backlog = how.units * 100 + BEFORE_RECORDS
    await fill(AioKafka("bench").cluster(bootstrap, ""), backlog, partitions=1)
    contestants = Contest(bootstrap, how.units, backlog).contestants()
    found = {row.name: row for row in rows(await play(contestants, how.rounds), QUIET, "wall")}
    facts = {
        "work": f"{how.units:,} live records at {PACE_PER_S} a second, handlers of {HANDLER_SECONDS * 1e3:g} ms, "
        f"{CONCURRENCY} at once, {backlog:,} records behind; {cores()}",
        "split over quiet": f"{found[SPLIT].wall_micros / found[QUIET].wall_micros:.2f} (aim <= {AIM:g})",
    }
    apart = abs(found[AGAIN].wall_micros / found[QUIET].wall_micros - 1)
    void = f"void: quiet runs are {apart:.0%} apart" if apart > TOLERANCE else ""
    return Table("backlog", "slowest of 100", "wall", void, facts, list(found.values()), made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when it is void."""
    return play_on_a_broker(__doc__, contest, units=1_000, quick_units=100)


if __name__ == "__main__":
    sys.exit(main())
