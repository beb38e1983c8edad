"""The event store: a stream as a table in which every record stands once, in order per key and producer.

`python -m pipelines.event_store --stream logs --group events --table DIR --checkpoint DIR`

It reads the stream as a member of the group and merges each micro-batch into the table by record id, in one transaction
with the exact set of ids the table holds. What Spark runs again, after whatever kill, finds its ids there. The bound on
memory is a task's (`pipelines.table.merging`) and a micro-batch's (`--max-rows`), never the table's; nothing is
forgotten. A query that fails is started again, a bounded number of times; a refusal ends the job at once.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from braid.kernel.errors import (
    BraidError,
    Fenced,
    GroupOccupied,
    Invalid,
    NotFound,
    OffsetOutOfRange,
    Refused,
    Unavailable,
    Unsupported,
)
from braid.kernel.ids import check_name
from braid.spark import BraidDataSource
from pipelines import checkpoint, commands
from pipelines.checkpoint import Binding
from pipelines.commands import ready, say
from pipelines.frames import merge_frame
from pipelines.limits import PIPELINE_BATCH_ROWS, PIPELINE_POLL_SECONDS, PIPELINE_RESTART_SECONDS, PIPELINE_RESTARTS_MAX
from pipelines.session import spark_session
from pipelines.table import directory
from pipelines.table.reading import open_table
from pipelines.table.rows import out_of_order
from pipelines.table.writer import TableWriter

# Trying again cannot help with these.
_FINAL: Final = (Invalid, NotFound, Unsupported, GroupOccupied, OffsetOutOfRange, Fenced)


def main(argv: Sequence[str]) -> int:
    """Runs the command. See `commands.run` for the exit codes."""
    given = arguments().parse_args(argv)
    if given.count or given.check:
        return commands.run("event_store", lambda _: summarise(given.table, given.check))
    return commands.run("event_store", lambda stop: run(given, stop))


def arguments() -> argparse.ArgumentParser:
    """Defines and reads the command line."""
    parser = commands.parser(
        "pipelines.event_store",
        "Keeps a stream as a table: every record once, in order per key and producer.",
        (
            "--stream logs --group events --table events --checkpoint events.checkpoint",
            "--table events --count        how many rows there are",
            "--table events --check        read all of it: each once, in order",
        ),
    )
    commands.add_source(parser, required=False)
    parser.add_argument("--group", default="", help="the group whose member the query becomes")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="how far the query has read; never delete it")
    parser.add_argument("--trigger-seconds", type=float, default=1.0, help="between micro-batches (default: 1)")
    parser.add_argument("--once", action="store_true", help="read what there is now, then end")
    parser.add_argument(
        "--max-rows", type=int, default=PIPELINE_BATCH_ROWS, help="of one micro-batch (default: %(default)s)"
    )
    parser.add_argument(
        "--skip-lost", action="store_true", help="go on without records that left the log unread; a warning names them"
    )
    commands.add_spark(parser)
    parser.add_argument("--count", action="store_true", help="print what the table holds, and end")
    parser.add_argument("--check", action="store_true", help="read the whole table and print what is wrong, and end")
    return parser


def run(given: argparse.Namespace, stop: threading.Event) -> None:
    """Checks everything that can be checked, starts Spark, and keeps the query running until told to stop.

    Raises:
        BraidError: what is asked cannot be done, or the query failed too often.
    """
    check_arguments(given)
    take_table(given)
    commands.check_mesh(given)
    spark = spark_session(f"event-store {given.stream}", master=given.master, driver_memory=given.driver_memory)
    try:
        spark.dataSource.register(BraidDataSource)
        EventStoreJob(given, spark).keep_running(stop)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise commands.spark_error(error) from error
    finally:
        commands.stop_spark(spark)


def take_table(given: argparse.Namespace) -> TableWriter:
    """Opens the table, and binds the checkpoint to it. Raises `BraidError` if either belongs to another query."""
    found = directory.current(given.table)
    checkpoint.check(given.checkpoint, given.stream, given.group, found.table if found else None)
    writer = TableWriter.open(given.table, stream=given.stream, table_format=given.format, clock_ms=commands.now_ms)
    checkpoint.bind(given.checkpoint, Binding(given.stream, given.group, writer.manifest.table))
    return writer


def check_arguments(given: argparse.Namespace) -> None:
    """Raises `Invalid` naming the argument and what to write."""
    if given.checkpoint is None:
        raise Invalid("is missing", field="--checkpoint", remedy="name a directory that lives as long as the table")
    commands.check_source(given)
    check_name(given.group, "--group")
    if given.trigger_seconds < 0 or given.max_rows < 1:
        raise Invalid("must be positive", field="--trigger-seconds, --max-rows", remedy="leave them out")
    if given.checkpoint.resolve() == given.table.resolve():
        raise Invalid("must not be the table's directory", field="--checkpoint", remedy="name one beside it")


class EventStoreJob:
    """Runs one streaming query after another, each with the table opened anew.

    Args:
        given: The command line.
        spark: The session.
    """

    def __init__(self, given: argparse.Namespace, spark: SparkSession) -> None:
        self._given = given
        self._spark = spark
        self._writer: TableWriter | None = None
        self._refusal: BraidError | None = None
        self._progressed = False
        self._announced = False

    def keep_running(self, stop: threading.Event) -> None:
        """Runs queries until told to stop, or until `--once` is done.

        Raises:
            BraidError: a refusal, or the last of too many failures in a row.
        """
        failures = 0
        while not stop.is_set():
            self._writer, self._progressed = take_table(self._given), False
            query = self._start()
            try:
                failure = self._watch(query, stop)
            finally:
                _stop_query(query)
            if stop.is_set() or (failure is None and self._given.once):
                break
            failures = 1 if self._progressed else failures + 1
            self._judge(failure, failures)
            stop.wait(min(PIPELINE_RESTART_SECONDS[0] * 2 ** (failures - 1), PIPELINE_RESTART_SECONDS[1]))
        say("stopped", rows=self._writer.manifest.rows if self._writer else None)

    def merge(self, frame: DataFrame, batch: int) -> None:
        """Merges a micro-batch; Spark calls this for each one, perhaps again for one it has called before."""
        if self._writer is None:
            raise Unavailable("the table is not open")
        begun = time.monotonic()
        try:
            merged = merge_frame(frame, self._writer, self._given.tasks)
            self._writer.compact()
        except BraidError as error:
            self._refusal = error
            raise
        self._progressed = True
        say(
            "merged",
            batch=batch,
            added=merged.added,
            repeats=merged.repeats,
            rows=merged.manifest.rows,
            files=len(self._writer.manifest.files),
            seconds=round(time.monotonic() - begun, 3),
        )

    def _start(self) -> StreamingQuery:
        given = self._given
        source = (
            self._spark.readStream.format("braid")
            .option("endpoint", given.endpoint)
            .option("stream", given.stream)
            .option("group", given.group)
            .option("includeHeaders", "true")
            .option("failOnDataLoss", str(not given.skip_lost).lower())
            .option("maxOffsetsPerTrigger", str(given.max_rows))
        )
        if given.lanes:
            source = source.option("lanes", given.lanes)
        sink = source.load().writeStream.foreachBatch(self.merge).option("checkpointLocation", str(given.checkpoint))
        if given.once:
            return sink.trigger(availableNow=True).start()
        return sink.trigger(processingTime=f"{round(given.trigger_seconds * 1_000)} milliseconds").start()

    def _watch(self, query: StreamingQuery, stop: threading.Event) -> str | None:
        """Waits until the query ends; returns Spark's error text, None without an error."""
        while query.isActive and not stop.is_set():
            self._announce(query)
            stop.wait(PIPELINE_POLL_SECONDS)
        if stop.is_set():
            return None
        self._announce(query)
        failure = query.exception()
        return None if failure is None else str(failure)

    def _announce(self, query: StreamingQuery) -> None:
        if not self._announced and (query.lastProgress is not None or "Waiting" in query.status["message"]):
            self._announced = True
            ready(f"ready: stream {self._given.stream} → {self._given.table} as group {self._given.group}")

    def _judge(self, failure: str | None, failures: int) -> None:
        error = self._refusal or (commands.raised_in_spark(failure) if failure else None)
        if isinstance(error, OffsetOutOfRange):  # in the words of this command
            remedy = "say --skip-lost to go on without them, or name a new --checkpoint"
            raise OffsetOutOfRange(error.message, field="--skip-lost", remedy=remedy) from error
        if isinstance(error, _FINAL) or type(error) is Refused:  # other refusals (a lost lease) pass
            raise error
        summary = str(error) if error else commands.summary_of(failure or "it ended")
        if failures > PIPELINE_RESTARTS_MAX:
            raise Unavailable(
                f"the query failed {failures} times in a row: {summary}",
                remedy="see what answers: braid doctor; then start the job again",
            )
        self._refusal = None
        say("restarting", failures=failures, reason=summary)


def summarise(path: Path, check: bool) -> None:
    """Prints what a table holds as JSON; with `check`, reads all of it.

    Raises:
        NotFound: there is no table.
        Refused: it is not as it must be.
    """
    table = open_table(path)
    state = table.manifest
    facts: dict[str, object] = {
        "rows": state.rows,
        "repeats": state.repeats,
        "stream": state.stream,
        "format": state.format,
        "files": len(state.files),
        "bytes": sum(file.bytes for file in state.files),
        "seen_bytes": sum(file.bytes for file in state.seen),
    }
    if check:
        facts["read"] = sum(block.num_rows for block in table.batches(("sequence",)))
        facts["wrong"] = sum(1 for _ in out_of_order(table.ordered(())))
    ready(json.dumps(facts))
    if check and (facts["read"] != state.rows or facts["wrong"]):
        raise Invalid(f"{path} is not as it must be", field="--table", remedy="build it anew: pipelines.reprocess")


def _stop_query(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError, ConnectionError) as error:
        say("not stopped", reason=commands.summary_of(str(error)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
