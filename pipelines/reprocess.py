"""Reprocessing: a range of time of a stream into a table of its own, beside live traffic.

`python -m pipelines.reprocess --stream logs --from 2h --table DIR`

It takes no lease and commits no progress: readers and writers of the stream notice nothing. The range is, in each
partition, from the first record at or after `--from` to the last before the first one at or after `--to`, by the
records' own time. It is read in slices, each merged as one transaction like a micro-batch of the event store, so that
running it again, after a kill or for no reason, changes nothing.
"""

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from braid.kernel.errors import Invalid
from braid.spark import BraidDataSource
from pipelines import commands
from pipelines.commands import ready, say
from pipelines.frames import merge_frame
from pipelines.session import spark_session
from pipelines.slices import Slice, slices
from pipelines.table.writer import TableWriter


def main(argv: Sequence[str]) -> int:
    """Runs the command. See `commands.run` for the exit codes."""
    given = arguments().parse_args(argv)
    return commands.run("reprocess", lambda stop: run(given, stop))


def arguments() -> argparse.ArgumentParser:
    """Defines and reads the command line."""
    parser = commands.parser(
        "pipelines.reprocess",
        "Reads a range of time of a stream into a table: every record once, in order per key and producer.",
        (
            "--stream logs --from 2h --table again",
            "--stream logs --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z --table saturday",
        ),
    )
    commands.add_source(parser, required=True)
    parser.add_argument("--from", required=True, dest="start", metavar="TIME", help="ISO 8601, 10m (ago), or ms")
    parser.add_argument("--to", dest="end", default="", metavar="TIME", help="the same (default: now)")
    parser.add_argument("--slice-minutes", type=float, default=60.0, help="read at once (default: %(default)s)")
    commands.add_spark(parser)
    return parser


def run(given: argparse.Namespace, stop: threading.Event) -> None:
    """Merges slice after slice until the range is done or it is told to stop.

    Raises:
        BraidError: what is asked cannot be done, or Spark failed.
    """
    commands.check_source(given)
    parts = range_of(given, datetime.now(UTC))
    writer = TableWriter.open(given.table, stream=given.stream, table_format=given.format, clock_ms=commands.now_ms)
    commands.check_mesh(given)
    spark = spark_session(f"reprocess {given.stream}", master=given.master, driver_memory=given.driver_memory)
    try:
        spark.dataSource.register(BraidDataSource)
        done = merge_slices(given, spark, writer, parts, stop)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise commands.spark_error(error) from error
    finally:
        commands.stop_spark(spark)
    outcome = "done" if done == len(parts) else f"stopped after {done} of {len(parts)} slices"
    ready(f"{outcome}: stream {given.stream} → {given.table}, {writer.manifest.rows} rows")


def range_of(given: argparse.Namespace, now: datetime) -> list[Slice]:
    """Returns the slices asked for. Raises `Invalid` naming the argument."""
    if given.slice_minutes <= 0:
        raise Invalid("must be positive", field="--slice-minutes", remedy="leave it out")
    start = commands.parse_time(given.start, now, "--from")
    end = commands.parse_time(given.end, now, "--to") if given.end else now
    return slices(start, end, timedelta(minutes=given.slice_minutes), now)


def merge_slices(
    given: argparse.Namespace, spark: SparkSession, writer: TableWriter, parts: Sequence[Slice], stop: threading.Event
) -> int:
    """Merges the slices and reports each; returns how many there were."""
    for number, part in enumerate(parts, 1):
        begun = time.monotonic()
        frame = read(given, spark, part)
        merged = commands.unless_stopped(spark, stop, partial(merge_frame, frame, writer, given.tasks))
        if merged is None:
            return number - 1
        writer.compact()
        say(
            "merged",
            slice=number,
            slices=len(parts),
            until=part.end.isoformat(),
            added=merged.added,
            repeats=merged.repeats,
            rows=merged.manifest.rows,
            seconds=round(time.monotonic() - begun, 3),
        )
    return len(parts)


def read(given: argparse.Namespace, spark: SparkSession, part: Slice) -> DataFrame:
    """Reads the records of a slice."""
    source = (
        spark.read.format("braid")
        .option("endpoint", given.endpoint)
        .option("stream", given.stream)
        .option("includeHeaders", "true")
        .option("startingTimestamp", part.start.isoformat())
        .option("endingTimestamp", part.end.isoformat())
    )
    return (source.option("lanes", given.lanes) if given.lanes else source).load()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
