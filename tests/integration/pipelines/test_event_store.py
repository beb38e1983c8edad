"""The event store on real Spark and real Kafka, through kills of everything it stands on, against a ledger.

The ledger is what `send` acknowledged. At the end the table holds each of it once, in order per key and producer.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest
from deltalake import DeltaTable

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kernel.errors import BraidError
from devmesh.mesh import DevMesh
from pipelines.table.reading import open_table
from pipelines.table.rows import out_of_order
from testbed.patience import until, wait
from tests.support.grounds import wait_healthy

ROOT: Final = Path(__file__).parents[3]
RECORDS_PER_SEND: Final = 10
GROWN_ROWS: Final = 40
STREAM: Final = "clicks"
SECONDS: Final = 90.0
HANGS_SECONDS: Final = 600.0  # by the wall
TWICE: Final = "import sys; from pipelines.reprocess import main; sys.exit(main(sys.argv[1:]) or main(sys.argv[1:]))"

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def local(two_clusters: DevMesh) -> DevMesh:
    """Two clusters, one registry, one assigner, and a stream."""
    wait_healthy(two_clusters)
    asyncio.run(create(two_clusters.ready.endpoint, STREAM))
    return two_clusters


async def create(endpoint: str, stream: str) -> None:
    """Makes a stream."""
    async with braid.connect(endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=3)}, replication_factor=1)
        await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name=stream, spec=spec), Stream)


class Job:
    """An event store as a process of its own.

    Args:
        arguments: After the module's name.
        log: Gets its output.
    """

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._arguments = arguments
        self.log = log
        self._process = self._spawn()

    def _spawn(self, *more: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "pipelines.event_store", *self._arguments, *more]
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def kill_driver(self) -> None:
        """The application's process."""
        self._process.kill()
        self._process.wait()

    def kill_spark(self) -> int:
        """Spark's own process, the JVM; returns the exit code that makes of the application."""
        self._one(lambda command: "org.apache.spark.deploy.SparkSubmit" in command, first=True).kill()
        return self._ended()

    def kill_worker(self) -> None:
        """A Python process in which tasks run."""
        self._one(lambda command: "pyspark.daemon" in command, leaf=True).kill()

    def kill_planner(self) -> None:
        """The Python process that holds the leases."""
        self._one(lambda command: "python_streaming_source_runner" in command).kill()

    def start(self) -> None:
        """Runs the job again, with the same arguments."""
        self._process = self._spawn()

    def run_once(self) -> int:
        """Runs the job again until everything present has been read; returns the exit code."""
        self._process = self._spawn("--once")
        return self._ended()

    def terminate(self) -> int:
        """In order; returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._ended()

    def end(self) -> None:
        """Kills the rest of its processes."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def events(self, name: str) -> list[dict[str, int]]:
        """Lines of progress of one kind."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{")]
        return [found for line in lines if (found := json.loads(line))["event"] == name]

    def _ended(self) -> int:
        wait(lambda: self._process.poll() is not None, "the application ends", SECONDS)
        return self._process.returncode

    def _one(self, wanted: Callable[[str], bool], *, leaf: bool = False, first: bool = False) -> psutil.Process:
        """The newest that is wanted; the first, where a process may be about to become another (fork, exec)."""
        found: list[psutil.Process] = []

        def look() -> list[psutil.Process]:
            family = [process for process in self._family() if wanted(_command(process))]
            found[:] = [process for process in family if not leaf or not _children(process)]
            return found

        wait(look, "there is such a process")
        return min(found, key=psutil.Process.create_time) if first else found[-1]

    def _family(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children()
    return []


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return " ".join(process.cmdline())
    return ""


@pytest.fixture
def job(local: DevMesh, tmp_path: Path) -> Iterator[Job]:
    """An event store of the stream into a table of its own."""
    running = Job(source(local, tmp_path), tmp_path / "job.log")
    try:
        yield running
    finally:
        running.end()
        print(running.log.read_text(errors="replace")[-6_000:])


def source(local: DevMesh, directory: Path) -> list[str]:
    given = {
        "endpoint": local.ready.endpoint,
        "stream": STREAM,
        "group": "events",
        "table": str(directory / "table"),
        "checkpoint": str(directory / "checkpoint"),
        "trigger-seconds": "0.2",
        "driver-memory": "512m",
    }
    return [part for name, value in given.items() for part in (f"--{name}", value)]


@dataclass
class Scene:
    """A stream that is written to, and the event store that follows it."""

    local: DevMesh
    job: Job
    table: Path
    ledger: set[str]


Act = Callable[[Scene], Awaitable[None]]


async def worker_dies(scene: Scene) -> None:
    """Spark starts another one for the tasks that it had."""
    await asyncio.to_thread(scene.job.kill_worker)


async def planner_dies(scene: Scene) -> None:
    """The query fails, and the application starts it again."""
    await asyncio.to_thread(scene.job.kill_planner)


async def driver_dies(scene: Scene) -> None:
    """The application's process dies, and is started again."""
    await asyncio.to_thread(scene.job.kill_driver)
    scene.job.start()


async def cluster_and_spark_die(scene: Scene) -> None:
    """A cluster dies, and Spark's JVM before the cluster is back."""
    await scene.local.kill("east")
    try:
        await grows(scene.table, scene.ledger)
        assert await asyncio.to_thread(scene.job.kill_spark) == 3
        scene.job.start()
    finally:
        await scene.local.start("east")


async def written_and_not_committed(scene: Scene) -> None:
    """The job, which has ended, was killed between a batch's write and its entry in Spark's commit log.

    It then runs to its end, and finds every row of the batch in the table.
    """
    directory, job, table = scene.table.parent, scene.job, scene.table
    newest = max(int(path.name) for path in (directory / "checkpoint" / "offsets").glob("[0-9]*"))
    for name in (f"{newest}", f".{newest}.crc"):
        (directory / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    rows = rows_of(table)
    assert await asyncio.to_thread(job.run_once) == 0
    again = job.events("merged")[-1]
    assert (again["batch"], again["added"], again["rows"]) == (newest, 0, rows)
    assert again["repeats"] >= 1
    compare(table, scene.ledger)


@pytest.mark.parametrize(
    ("acts", "afterwards"),
    [
        pytest.param((planner_dies, cluster_and_spark_die), (), id="few"),
        pytest.param(
            (worker_dies, planner_dies, driver_dies, cluster_and_spark_die),
            (written_and_not_committed,),
            id="all",
            marks=pytest.mark.extended,
        ),
    ],
)
async def test_the_table_equals_the_ledger_after_kills(
    acts: Sequence[Act], afterwards: Sequence[Act], local: DevMesh, job: Job, tmp_path: Path
) -> None:
    scene, stop = Scene(local, job, tmp_path / "table", set()), asyncio.Event()
    sending = asyncio.create_task(ship(local.ready.endpoint, scene.ledger, stop))
    try:
        await grows(scene.table, scene.ledger)
        for act in acts:
            await act(scene)
            await grows(scene.table, scene.ledger)
    finally:
        stop.set()
        await sending
    table, ledger = scene.table, scene.ledger
    await until(lambda: rows_of(table) >= len(ledger), "every acknowledged record is a row", SECONDS)
    assert await asyncio.to_thread(job.terminate) == 0
    compare(table, ledger)
    assert len(job.events("restarting")) >= 1
    print(f"{len(ledger)} acknowledged, {rows_of(table)} rows, {open_table(table).manifest.repeats} repeats merged")
    for act in afterwards:
        await act(scene)


@pytest.mark.extended
async def test_reprocessing_gives_the_same_rows_and_the_same_in_delta(local: DevMesh, tmp_path: Path) -> None:
    """Records sent meanwhile lie beyond the range; reading makes no group."""
    ledger, live, stop, before = set[str](), set[str](), asyncio.Event(), await groups(local)
    await ship(local.ready.endpoint, ledger, None)
    table, end = tmp_path / "again", str(time.time_ns() // 1_000_000 + 1)
    sending = asyncio.create_task(ship(local.ready.endpoint, live, stop))
    await until(lambda: len(live) > 0, "live traffic")
    done = await asyncio.to_thread(reprocess_twice, local, table, "1h", end)
    sent = len(live)
    await until(lambda: len(live) > sent, "traffic that goes on")
    stop.set()
    await sending
    assert done.returncode == 0, done.stderr[-3_000:]
    first, second = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{") and "merged" in line]
    assert first["added"] == first["rows"]
    assert (second["added"], second["rows"]) == (0, first["rows"])
    assert second["repeats"] >= first["rows"]
    compare(table, ledger)
    rows = sorted(str(row.id) for row in open_table(table).ids())
    assert not live & set(rows)
    assert sorted(DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist()) == rows
    assert await groups(local) == before


async def groups(local: DevMesh) -> set[str]:
    """Names of the groups there are."""
    async with braid.connect(local.ready.endpoint) as mesh:
        asked, assigner = assigner_api.ListGroupsRequest(page_size=1_000), mesh.service("assigner")
        found = await assigner.unary("ListGroups", asked, assigner_api.ListGroupsResponse)
        return {group.name for group in found.groups}


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        ({"--stream": "nobody"}, 4, "nobody"),
        ({"--endpoint": "127.0.0.1:1"}, 3, "127.0.0.1:1"),
    ],
)
async def test_what_the_mesh_does_not_have_is_refused(
    local: DevMesh, tmp_path: Path, changed: dict[str, str], code: int, says: str
) -> None:
    arguments = source(local, tmp_path)
    for name, value in changed.items():
        if name in arguments:
            arguments[arguments.index(name) + 1] = value
        else:
            arguments += [name, value]
    command = [sys.executable, "-m", "pipelines.event_store", *arguments]
    done = await asyncio.to_thread(run, command)
    assert done.returncode == code, done.stderr
    assert "Spark" not in done.stderr, "it is told before Spark is started"
    assert says in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]


def compare(table: Path, ledger: set[str]) -> None:
    """Every acknowledged id once, nothing twice, in order per key and producer."""
    rows = [row.id for row in open_table(table).ids()]
    assert len(rows) == len(set(rows)), "twice"
    assert ledger <= set(rows), f"missing {len(ledger - set(rows))}"
    assert list(out_of_order(open_table(table).ordered(()))) == []
    assert len(rows) == open_table(table).count()


async def ship(endpoint: str, ledger: set[str], stop: asyncio.Event | None) -> None:
    """Sends records until told to stop, or a few, and notes the ids of those that were acknowledged."""
    number = 0
    async with braid.connect(endpoint) as mesh, mesh.producer(STREAM) as producer:
        while not (stop.is_set() if stop else number >= 10 * RECORDS_PER_SEND):
            records = [
                braid.Outgoing(b"value-%d" % (number + n), key=b"key-%d" % (n % 5)) for n in range(RECORDS_PER_SEND)
            ]
            number += RECORDS_PER_SEND
            ledger.update(receipt.id for receipt in await producer.send_many(records))
            await asyncio.sleep(0.1)


async def grows(table: Path, ledger: set[str]) -> None:
    """Waits until what is acknowledged by now has been merged, by number: everything before a kill may lag behind."""
    wanted = rows_of(table) + GROWN_ROWS
    await until(lambda: rows_of(table) >= wanted and len(ledger) >= wanted, f"{wanted} rows", SECONDS)


def rows_of(table: Path) -> int:
    """Rows of a table; none while there is none."""
    try:
        return open_table(table).count()
    except BraidError:
        return 0


def reprocess_twice(local: DevMesh, table: Path, start: str, end: str) -> subprocess.CompletedProcess[str]:
    """The command, and again, in one process: Spark's JVM starts once."""
    arguments = ["--endpoint", local.ready.endpoint, "--stream", STREAM, "--from", start, "--to", end]
    into = ["--table", str(table), "--format", "delta", "--driver-memory", "512m"]
    return run([sys.executable, "-c", TWICE, *arguments, *into])


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_SECONDS, env=environment)
