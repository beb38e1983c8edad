"""Micro-batches of 1,000 rows in Spark, beside Spark's own Kafka source: `python -m bench.spark_micro`.

A query takes a thousand rows per batch (`maxOffsetsPerTrigger`), to the `noop` sink with a checkpoint on disk. A batch
lasts from its trigger to its entry in the commit log, as Spark itself reports it (`durationMs.triggerExecution`). The
time of a round is the median over its batches, without the first ones, in which processes start and leases are taken. A
unit is a batch.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import SparkSession

from bench.harness.arguments import Asked, asked
from bench.harness.contest import tell_round
from bench.harness.rounds import Sample, order, rows, verdict
from bench.harness.single_jars import SPARK_KAFKA
from bench.harness.tables import Table, made_with
from bench.spark_session import DRIVER_MEMORY, PARTITIONS, Place, cpu_of, filled_stream, session

BATCH_ROWS: Final = 1_000
STARTING: Final = 4  # batches left out of a round's median
QUERY_SECONDS: Final = 600.0
PEER: Final = "Spark's own source"
AGAIN: Final = "Spark's own source again"
BRAID: Final = "braid source"
FORMATS: Final[Mapping[str, str]] = {PEER: "kafka", AGAIN: "kafka", BRAID: "braid"}


class Contest:
    """Runs one query after another over the same stream, each from its start."""

    def __init__(self, spark: SparkSession, jvm: psutil.Process, place: Place, directory: Path, batches: int) -> None:
        self._spark = spark
        self._jvm = jvm
        self._place = place
        self._directory = directory
        self._batches = batches

    def play(self, rounds: int) -> dict[str, list[Sample]]:
        """Every contestant once a round; the first round is discarded."""
        samples: dict[str, list[Sample]] = {name: [] for name in FORMATS}
        for number in range(rounds + 1):
            for at, name in enumerate(order(list(FORMATS), number)):
                sample = self._query(FORMATS[name], f"round-{number}-{at}")
                if number:
                    samples[name].append(sample)
            tell_round(number, rounds)
        return samples

    def _query(self, source: str, name: str) -> Sample:
        options = {**self._place.options(source), "maxOffsetsPerTrigger": str(BATCH_ROWS)}
        if source == "braid":
            options["group"] = name  # one without progress
        frame = self._spark.readStream.format(source).options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(self._directory / name))
        cpu = cpu_of(self._jvm)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(int(QUERY_SECONDS)):
            query.stop()
            raise AssertionError(f"{source} did not end within {QUERY_SECONDS:g} s")
        spent = (cpu_of(self._jvm) - cpu) / self._batches
        done = [each for each in query.recentProgress if each.numInputRows]
        found = [each.numInputRows for each in done]
        if found != [BATCH_ROWS] * self._batches:
            raise AssertionError(f"{self._batches} batches of {BATCH_ROWS} rows were due, {source} made {found}")
        lasted = [each.durationMs["triggerExecution"] for each in done[STARTING:]]
        return Sample(1, spent, statistics.median(lasted) / 1e3)


async def contest(place: Place, directory: Path, spark: SparkSession, jvm: psutil.Process, how: Asked) -> Table:
    """Plays the rounds over a stream of `how.units` batches; checkpoints go into the directory."""
    playing = Contest(spark, jvm, place, directory / "checkpoints", how.units)
    samples = await asyncio.to_thread(playing.play, how.rounds)
    found = rows(samples, PEER, "wall")
    facts = {
        "work": f"{how.units} micro-batches of {BATCH_ROWS:,} records of 100 B a round, {PARTITIONS} partitions, to "
        f"noop; the median from trigger to commit log, the first {STARTING} left out; local[2], driver of "
        f"{DRIVER_MEMORY}; the broker on the same cores; CPU is of a whole query, its start included",
        "peer": f"Spark's own JVM source ({SPARK_KAFKA.versions}), its defaults",
        "braid": "a member of a new group each round, progress committed as envelopes",
    }
    return Table("spark-micro", "batch", "wall", verdict(found, AGAIN), facts, found, made_with())


async def run(how: Asked) -> Table:
    """Fills a stream of a mesh and broker of its own, and plays."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as name, session() as (spark, jvm):
        directory = Path(name)
        async with filled_stream(directory / "mesh", how.units * BATCH_ROWS) as place:
            return await contest(place, directory, spark, jvm, how)


def main() -> int:
    """Runs the benchmark on a mesh and a Spark of its own; 1 when the run is void."""
    how = asked(__doc__, units=24, quick_units=STARTING + 2)
    table = asyncio.run(run(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
