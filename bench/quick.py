"""Every benchmark but `kills` once, quickly, on shared ground: `python -m bench.quick`. The numbers mean nothing.

It shows that they run: one broker, one mesh and one Spark carry all of them, in one process.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import (
    acks,
    commit,
    concurrency,
    consume,
    envelope,
    flood,
    lag_decode,
    placement,
    poison,
    produce,
    spark,
    spark_micro,
)
from bench.harness.arguments import Asked
from bench.harness.broker import broker
from bench.harness.fixed_mesh import TOPIC
from bench.harness.tables import DIRECTORY, Table
from bench.spark_session import filled_stream_on, session
from braid.kafka.cluster import AioKafka

RECORDS: Final = 2_000
REQUESTS: Final = 5
IN_FLIGHT_RECORDS: Final = 200
LIVE_RECORDS: Final = 100
COMMITS: Final = 5_000
PARTITIONS: Final = 200
BATCHES: Final = spark_micro.STARTING + 1


def main(arguments: list[str] | None = None) -> int:
    """Runs them, writes their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=DIRECTORY / "quick", help="of the tables (default: %(default)s)")
    into: Path = parser.parse_args(arguments).into
    tables = asyncio.run(without_a_broker(into))
    with broker(apart=False) as serving:
        tables += asyncio.run(on_a_broker(serving.bootstrap, into))
        tables += in_spark(serving.bootstrap, into)
    for table in tables:
        table.publish(into)
    return 0


def quickly(units: int, into: Path) -> Asked:
    """One round of so many units."""
    return Asked(quick=True, rounds=1, units=units, directory=into)


async def without_a_broker(into: Path) -> list[Table]:
    """Runs the benchmarks that need only this process."""
    return [
        await lag_decode.contest(quickly(COMMITS, into)),
        await placement.contest(quickly(PARTITIONS, into)),
        await acks.contest(quickly(COMMITS, into)),
        await envelope.contest(quickly(REQUESTS, into)),
    ]


async def on_a_broker(bootstrap: str, into: Path) -> list[Table]:
    """Runs the benchmarks that need a broker; each creates and deletes the topic."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    tables = [await consume.contest(bootstrap, quickly(RECORDS, into))]
    await admin.delete_topic(TOPIC)
    await concurrency.filled(bootstrap, quickly(IN_FLIGHT_RECORDS, into))
    tables += [each async for each in concurrency.contests(bootstrap, quickly(IN_FLIGHT_RECORDS, into))]
    await admin.delete_topic(TOPIC)
    await poison.filled(bootstrap, quickly(RECORDS, into))
    tables += [each async for each in poison.contests(bootstrap, quickly(RECORDS, into))]
    await admin.delete_topic(TOPIC)
    tables.append(await flood.contest(bootstrap, quickly(LIVE_RECORDS, into)))
    await admin.delete_topic(TOPIC)
    tables.append(await produce.contest(bootstrap, quickly(RECORDS, into)))
    await admin.delete_topic(TOPIC)
    tables += await commit.contests(bootstrap, quickly(REQUESTS, into))
    for topic in await admin.list_topics():  # a mesh takes no cluster with topics that may be another mesh's
        if topic.startswith("braid."):
            await admin.delete_topic(topic)
    await admin.close()
    return tables


def in_spark(bootstrap: str, into: Path) -> list[Table]:
    """Runs the benchmarks that need Spark, over the same stream."""
    rows = BATCHES * spark_micro.BATCH_ROWS

    async def play(directory: Path) -> list[Table]:
        async with filled_stream_on(bootstrap, directory / "mesh", rows) as place:
            with session() as (running, jvm):
                return [
                    await spark.contest(place, running, jvm, quickly(rows, into)),
                    await spark_micro.contest(place, directory, running, jvm, quickly(BATCHES, into)),
                ]

    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        return asyncio.run(play(Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
