"""The twin's retention by time: what Kafka deletes, and when it looks."""

import asyncio
from collections.abc import Awaitable, Callable

from braid.kafka.memory import MemoryCluster, MemoryKafka
from braid.kafka.memory.log import NewRecord
from braid.kafka.memory.retention import FIRST_LOOK_MS, LOOK_INTERVAL_MS
from braid.kernel.ports import TopicPartition
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

PARTITION = TopicPartition("logs", 0)
HOUR_SECONDS = 3_600
SECOND = 1_000
Scenario = Callable[[MemoryCluster, Callable[[], int]], Awaitable[None]]


def play(scenario: Scenario, **config: str) -> None:
    """Runs a scenario over a cluster whose one topic keeps an hour, and a clock."""

    async def run() -> None:
        clock = virtual_host(running_loop(), seed=1).clock
        cluster = MemoryKafka(clock).add_cluster("east")
        cluster.create_topic("logs", 1, 1, {"retention.ms": str(HOUR_SECONDS * SECOND), **config})
        await scenario(cluster, clock.now_ms)

    run_virtual(run())


def write(cluster: MemoryCluster, *times_ms: int) -> None:
    cluster.append(PARTITION, [NewRecord(at, None, b"x", ()) for at in times_ms])


def test_the_next_look_deletes_only_records_past_retention() -> None:
    async def scenario(cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        write(cluster, now_ms())
        await asyncio.sleep(HOUR_SECONDS / 2)
        write(cluster, now_ms())
        await asyncio.sleep(HOUR_SECONDS / 2)
        assert cluster.log(PARTITION).start == 0, "no older than that"
        await asyncio.sleep(LOOK_INTERVAL_MS / SECOND)
        assert (cluster.log(PARTITION).start, cluster.log(PARTITION).end) == (1, 2)

    play(scenario)


def test_a_batch_stays_for_its_youngest_record() -> None:
    async def scenario(cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        write(cluster, 0, now_ms(), 1)
        await asyncio.sleep(HOUR_SECONDS / 2)
        assert cluster.log(PARTITION).start == 0

    play(scenario)


def test_a_broker_that_starts_looks_only_after_a_while() -> None:
    async def scenario(cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        write(cluster, now_ms())
        cluster.kill()
        await asyncio.sleep(10 * HOUR_SECONDS)
        cluster.start()
        await asyncio.sleep(FIRST_LOOK_MS / SECOND - 1)
        assert cluster.log(PARTITION).start == 0
        await asyncio.sleep(2)
        assert cluster.log(PARTITION).start == 1

    play(scenario)


def test_a_broker_that_was_stopped_by_a_signal_looks_at_once() -> None:
    async def scenario(cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        write(cluster, now_ms())
        cluster.pause()
        await asyncio.sleep(10 * HOUR_SECONDS)
        assert cluster.log(PARTITION).start == 0
        cluster.resume()
        assert cluster.log(PARTITION).start == 1

    play(scenario)


def test_what_keeps_everything_or_is_compacted_loses_nothing() -> None:
    async def scenario(cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        write(cluster, now_ms())
        await asyncio.sleep(10 * HOUR_SECONDS)
        assert cluster.log(PARTITION).start == 0

    play(scenario, **{"retention.ms": "-1"})
    play(scenario, **{"cleanup.policy": "compact"})
