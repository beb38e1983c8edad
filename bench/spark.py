"""A batch read of a stream in Spark, beside Spark's own Kafka source and a plain Python one: `python -m bench.spark`.

Rows go to the `noop` sink. Every source must give every record, counted before the rounds. `bench.spark_session` says
how the ground is laid out.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.single_jars import SPARK_KAFKA
from bench.harness.tables import Table, made_with
from bench.spark_session import DRIVER_MEMORY, KEPT, PARTITIONS, TUNED, Place, cpu_of, filled_stream, session

PEER: Final = "Spark's own source, tuned"
AGAIN: Final = "Spark's own source, tuned, again"
# By name: the format, and what it is told beside where the stream is.
SOURCES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    PEER: ("kafka", TUNED),
    AGAIN: ("kafka", TUNED),
    "Spark's own source, default": ("kafka", {}),
    "plain Python source (aiokafka)": ("plain", {}),
    "braid source": ("braid", {}),
}


class Contest:
    """Reads the same topic with each source."""

    def __init__(self, spark: SparkSession, place: Place, records: int) -> None:
        self._spark = spark
        self._place = place
        self._records = records

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {name: self._drained(name) for name in SOURCES}

    async def counted(self) -> None:
        """Sees that each source gives every row."""
        found = {name: await asyncio.to_thread(self._frame(name).count) for name in SOURCES if name != AGAIN}
        if set(found.values()) != {self._records}:
            raise AssertionError(f"{self._records} records were written, and read: {found}")

    def _drained(self, name: str) -> Contestant:
        async def drain() -> int:
            await asyncio.to_thread(self._frame(name).write.format("noop").mode("overwrite").save)
            return self._records

        return drain

    def _frame(self, name: str) -> DataFrame:
        source, options = SOURCES[name]
        return self._spark.read.format(source).options(**self._place.options(source), **options).load()


async def contest(place: Place, spark: SparkSession, jvm: psutil.Process, how: Asked) -> Table:
    """Plays the rounds over a stream of `how.units` records."""
    playing = Contest(spark, place, how.units)
    await playing.counted()
    samples = await play(playing.contestants(), how.rounds, lambda: cpu_of(jvm))
    found = rows(samples, PEER, "wall")
    facts = {
        "work": f"batch read of {how.units:,} records of 100 B and Braid's three headers, {PARTITIONS} partitions, to "
        f"noop; local[2], driver of {DRIVER_MEMORY}; the broker on the same cores",
        "peer": f"Spark's own JVM source ({SPARK_KAFKA.versions}); seven columns, no headers; tuned: "
        + ", ".join(f"{name}={value}" for name, value in {**TUNED, **KEPT}.items()),
        "plain": "a Python data source over aiokafka getmany(20,000), 8 MiB a partition, five columns, no headers",
        "braid": "all columns, ids and ingestion times read from the headers; includeHeaders is off, as by default",
    }
    return Table("spark-batch", "row", "wall", verdict(found, AGAIN), facts, found, made_with())


async def run(how: Asked) -> Table:
    """Fills a stream of a mesh and broker of its own, and plays."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory, session() as (spark, jvm):
        async with filled_stream(Path(directory) / "mesh", how.units) as place:
            return await contest(place, spark, jvm, how)


def main() -> int:
    """Runs the benchmark on a mesh and a Spark of its own; 1 when the run is void."""
    how = asked(__doc__, units=4_000_000, quick_units=20_000)
    table = asyncio.run(run(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
