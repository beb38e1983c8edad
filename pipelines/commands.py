"""Parts that the jobs' commands share: arguments, start, progress, errors and exit codes.

Exit codes are the `braid` command's: 0 done, 2 wrong usage, 3 not reachable, 4 refused. The ready line goes to stdout,
progress to stderr as one JSON object a line.
"""

import argparse
import asyncio
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import braid
from braid.client.mesh import connect
from braid.client.reading.channel_addresses import channel_places
from braid.kernel import errors
from braid.kernel.errors import BraidError, Code, Invalid, Unavailable
from braid.kernel.ids import check_name
from braid.kernel.limits.rpc import CLI_CHANGE_SECONDS
from pipelines.limits import PIPELINE_POLL_SECONDS

EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REFUSED: Final = 4
_EXIT_CODES: Final = {
    Code.INVALID_ARGUMENT: EXIT_USAGE,
    Code.UNAVAILABLE: EXIT_UNREACHABLE,
    Code.DEADLINE_EXCEEDED: EXIT_UNREACHABLE,
}
_AGO: Final = re.compile(r"(\d{1,6})(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RAISED: Final = re.compile(r"braid\.kernel\.errors\.(\w+): ([^\n]+)")
_CAUSE: Final = re.compile(r"(?m)^(?:Caused by|)[:\s]*([\w.]+(?:Error|Exception)(?:: .+)?)$")

Fact = str | int | float | bool | None
T = TypeVar("T")


def say(event: str, **facts: Fact) -> None:
    """Writes one line of progress to stderr."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
    print(json.dumps(line), file=sys.stderr, flush=True)


def ready(text: str) -> None:
    """Writes a line to stdout for the process that started the command."""
    print(text, flush=True)


def run(name: str, job: Callable[[threading.Event], None]) -> int:
    """Runs a job until it ends or is told to stop.

    Args:
        name: Of the command, before its errors.
        job: Gets an event that SIGTERM and SIGINT set.

    Returns:
        The exit code.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        job(stop)
    except BraidError as error:
        return fail(name, error)
    return 0


def fail(name: str, error: BraidError) -> int:
    """Reports an error and its remedy; returns the exit code."""
    where = f"{error.field}: " if error.field and error.field not in error.message else ""
    lines = [f"{name}: {where}{error.message}", *([f"  try: {error.remedy}"] if error.remedy else [])]
    print("\n".join(lines), file=sys.stderr, flush=True)
    return _EXIT_CODES.get(error.code, EXIT_REFUSED)


def parser(prog: str, description: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    """An empty parser whose help begins with examples."""
    return argparse.ArgumentParser(
        prog=f"python -m {prog}",
        description="\n".join([description, "", *(f"  {example}" for example in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_source(arguments: argparse.ArgumentParser, *, required: bool) -> None:
    """Adds the arguments for the stream and the table."""
    arguments.add_argument(
        "--endpoint", default="", help="any replica of any service, host:port (default: of the mesh that `braid` finds)"
    )
    arguments.add_argument("--stream", required=required, default="", help="the stream to read")
    arguments.add_argument("--lanes", default="", help="only these, separated by commas (default: all but dlq)")
    arguments.add_argument("--table", required=True, type=Path, metavar="DIR", help="the table's directory")
    arguments.add_argument("--format", choices=("parquet", "delta"), default="parquet", help="of the table")


def add_spark(arguments: argparse.ArgumentParser) -> None:
    """Adds the arguments for Spark."""
    arguments.add_argument("--master", default="", help="Spark's master (default: two cores of this machine)")
    arguments.add_argument("--driver-memory", default="768m", help="heap of the driver (default: %(default)s)")
    arguments.add_argument("--tasks", type=_positive, default=2, help="merge side by side (default: %(default)s)")


def check_source(given: argparse.Namespace) -> None:
    """Finds the mesh if none is named. Raises `Invalid` for names out of form, or if there is no mesh."""
    try:
        given.endpoint = given.endpoint or braid.find_endpoint()
    except Invalid as error:
        raise Invalid(
            error.message, field="--endpoint", remedy="give --endpoint HOST:PORT, or set BRAID_ENDPOINT"
        ) from error
    check_name(given.stream, "--stream")
    for lane in filter(None, given.lanes.split(",")):
        check_name(lane, "--lanes")


def check_mesh(given: argparse.Namespace) -> None:
    """Asks the mesh whether the stream and lanes exist, because Spark's own error would be long.

    Raises:
        NotFound: it does not.
        Unavailable: nobody answers.
    """

    async def ask() -> None:
        async with asyncio.timeout(CLI_CHANGE_SECONDS), connect(given.endpoint, client_id="pipelines") as mesh:
            await channel_places(mesh.service("registry"), given.stream, lanes_of(given))

    try:
        asyncio.run(ask())
    except TimeoutError as error:
        raise Unavailable(
            f"no registry answers through {given.endpoint}", field="--endpoint", remedy="see what does: braid doctor"
        ) from error


def lanes_of(given: argparse.Namespace) -> tuple[str, ...]:
    """Returns the lanes asked for; none for the default."""
    return tuple(filter(None, given.lanes.split(",")))


def parse_time(text: str, now: datetime, field: str) -> datetime:
    """Reads a time: ISO 8601 with a zone, milliseconds since the epoch, or `10m`, `2h`, `3d` ago.

    Args:
        text: What was typed.
        now: The present.
        field: Named in the error.

    Raises:
        Invalid: it is none of these.
    """
    if found := _AGO.fullmatch(text):
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if text.isdecimal() and 10 < len(text) < 16:
        return datetime.fromtimestamp(int(text) / 1_000, UTC)
    remedy = "for example 2026-11-21T14:03:00Z, 10m (ago), or milliseconds since the epoch"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text!r} is not a time", field=field, remedy=remedy) from None
    if parsed.tzinfo is None:
        raise Invalid(f"{text!r} has no zone", field=field, remedy=f"write {text}Z for UTC")
    return parsed


def raised_in_spark(text: str) -> BraidError | None:
    """Returns Braid's error from one of Spark's processes, read from Spark's message; None if there is none."""
    found = _RAISED.findall(text)
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BraidError)):
        return None
    return kind(message.strip())


def spark_error(error: PySparkException | Py4JError | ConnectionError) -> BraidError:
    """Returns the user's error for a failure that came through Spark."""
    if found := raised_in_spark(str(error)):
        return found
    again = "start the job again with the same arguments: it goes on where it was"
    if isinstance(error, PySparkException | Py4JJavaError):
        return Unavailable(f"Spark failed: {summary_of(str(error))}", remedy=again)
    return Unavailable("Spark's driver is gone", remedy=again)


def unless_stopped(spark: SparkSession, stop: threading.Event, work: Callable[[], T]) -> T | None:
    """Runs a Spark job in this thread, which owns the session; another thread cancels it when told to stop.

    Returns:
        What it returned; None when it was stopped.
    """
    if stop.is_set():
        return None
    done = threading.Event()
    canceller = threading.Thread(target=_cancel_when, args=(spark, stop, done), daemon=True)
    canceller.start()
    try:
        return work()
    except (PySparkException, Py4JJavaError):
        if stop.is_set():
            return None
        raise
    finally:
        done.set()
        canceller.join()


def _cancel_when(spark: SparkSession, stop: threading.Event, done: threading.Event) -> None:
    while not done.wait(PIPELINE_POLL_SECONDS):
        if stop.is_set():  # again and again: it may be between two jobs
            spark.sparkContext.cancelAllJobs()


def summary_of(account: str) -> str:
    """Returns the line of a long error text that says what happened: the last error named, else the first line."""
    raised = _CAUSE.findall(account)
    lines = account.strip().splitlines()
    return str(raised[-1]).strip() if raised else (lines[0] if lines else "no reason given")


def stop_spark(spark: SparkSession) -> None:
    """Stops Spark, even if it has ended by itself."""
    try:
        spark.stop()
    except (Py4JError, ConnectionError) as error:
        say("not stopped", reason=summary_of(str(error)))


def now_ms() -> int:
    """Returns the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)
