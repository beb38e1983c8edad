"""`braid dev` as its users meet it: it carries records, breaks by name, comes back with its data, leaves nothing."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterHealth
from braid.api.registry.v1.registry_service_pb2 import (
    CreateStreamRequest,
    GetStreamRequest,
    ListClustersRequest,
    ListClustersResponse,
)
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from devmesh.documents import Ready, ready_from_json
from devmesh.files import MeshFiles
from devmesh.mesh import DevMesh
from testbed.mesh import processes_of, running_mesh, wait_gone
from testbed.patience import until
from tests.support.console.failover import watched_failover
from tests.support.planted import checked

BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
HANG_SECONDS: Final = 300.0  # by the wall: it ends what hangs, and judges nothing
BEHIND_SECONDS_MAX: Final = 5.0  # beside other tests; `make test-all` allows a second to the demo, alone
SMALL: Final = ("--registries", "1", "--assigners", "1", "--lagmons", "0", "--dlqs", "0", "--no-console")
SERVICES: Final = ("registry-0", "registry-1", "assigner-0", "assigner-1", "lagmon-0", "dlq-0")

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevMesh]:
    """One mesh for the tests that leave it whole."""
    with running_mesh(tmp_path_factory.mktemp("mesh"), lagmons=1, dlqs=1, secure=True, console=True) as running:
        yield running


def dev(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `braid dev …` to its end."""
    command = [*BRAID, "dev", *arguments, "--dir", str(directory)]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, env=variables)
    return checked(done, f"the output of braid dev {' '.join(arguments)}")


@contextmanager
def foreground(directory: Path, moment: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`braid dev` with one replica each, in the foreground, its output read up to a line."""
    command = [*BRAID, "dev", *SMALL, *arguments, "--dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            read = next((line for line in process.stdout if moment in line), None)
            assert read is not None, f"it ended before {moment!r}"
            yield process
        finally:
            process.kill()  # where a test failed; it has ended otherwise


def connected(ready: Ready) -> braid.Mesh:
    """A client with the certificate that the ready file names, if it names one."""
    return braid.connect(ready.endpoint, client_id="test", tls=ready.user_tls)


async def clusters_of(mesh: DevMesh) -> list[Cluster]:
    """Returns the registry's answer about every cluster."""
    async with connected(mesh.ready) as client:
        answer = await client.service("registry").unary("ListClusters", ListClustersRequest(), ListClustersResponse)
    return list(answer.clusters)


async def healthy(mesh: DevMesh) -> None:
    """Waits until the registry calls every cluster healthy: a starved broker is suspected for a moment."""

    async def all_healthy() -> bool:
        return {each.status.health for each in await clusters_of(mesh)} == {ClusterHealth.CLUSTER_HEALTH_HEALTHY}

    await until(all_healthy, "every cluster healthy")


async def create_stream(ready: Ready, name: str) -> None:
    """A stream with one lane of two partitions on both clusters."""
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=2)}, replication_factor=1)
    async with connected(ready) as client:
        request = CreateStreamRequest(name=name, spec=spec)
        await client.service("registry").unary("CreateStream", request, Stream, timeout_seconds=120.0)


async def produce(ready: Ready, stream: str, values: list[bytes]) -> set[str]:
    """Sends records; their clusters."""
    async with connected(ready) as client, client.producer(stream) as producer:
        return {(await producer.send(value, lane="live")).cluster for value in values}


async def consume(ready: Ready, stream: str, group: str, count: int) -> list[bytes]:
    """Takes and acknowledges records of a new or known group, in the order of their values."""
    values: list[bytes] = []
    async with (
        asyncio.timeout(HANG_SECONDS),
        connected(ready) as client,
        client.consumer([stream], group=group) as consumer,
    ):
        async for record in consumer:
            values.append(record.value or b"")
            record.ack()
            if len(values) == count:
                break
    return sorted(values)


async def test_the_ready_file_is_true(mesh: DevMesh) -> None:
    written = MeshFiles(Path(mesh.ready.dir)).ready.read_text()
    assert ready_from_json(written) == mesh.ready
    assert tuple(mesh.ready.services) == SERVICES
    assert {name: each.zone for name, each in mesh.ready.clusters.items()} == {"east": "a", "west": "b"}
    for service in mesh.ready.services.values():
        assert service.pid is not None
        os.kill(service.pid, 0)
    assert {each.name: each.spec.bootstrap for each in await clusters_of(mesh)} == {
        name: each.bootstrap for name, each in mesh.ready.clusters.items()
    }
    await healthy(mesh)


async def test_records_flow(mesh: DevMesh) -> None:
    await healthy(mesh)
    await create_stream(mesh.ready, "logs")
    values = [b"record %03d" % number for number in range(50)]
    assert len(await produce(mesh.ready, "logs", values)) == 1  # the cluster with more room on its disk just now
    assert await consume(mesh.ready, "logs", "flow", len(values)) == values


async def test_a_cluster_dies_and_returns_with_its_records(mesh: DevMesh) -> None:
    await healthy(mesh)
    await create_stream(mesh.ready, "kept")
    await produce(mesh.ready, "kept", [b"before"])
    pid = mesh.ready.clusters["east"].pid
    assert await mesh.kill("east") == f"east is dead (process {pid}, SIGKILL)"
    assert await produce(mesh.ready, "kept", [b"during"]) == {"west"}
    begun = time.monotonic()
    await mesh.start("east")
    print(f"east served again after {time.monotonic() - begun:.1f} s")
    assert await consume(mesh.ready, "kept", "returned", 2) == [b"before", b"during"]


async def test_the_console_shows_a_failover_at_once(mesh: DevMesh) -> None:
    """Somebody watches the stream's page while its cluster dies: the diagram moves, and the events say why."""
    await healthy(mesh)
    watched = await watched_failover(mesh, "watched")
    print(f"the page showed the move {watched.behind_seconds:.2f} s after its event, {watched.sent} records went on")
    assert watched.behind_seconds <= BEHIND_SECONDS_MAX
    assert watched.frames.keys() == {"before", "moved", "returned"}
    assert len({*watched.frames.values()}) == 3  # each moment looks different
    assert re.search(r"Traffic moved.*cluster (east|west) is DOWN", watched.events), watched.events


def test_verbs_and_status_on_the_command_line(mesh: DevMesh) -> None:
    where = Path(mesh.ready.dir)
    assert dev(where, "pause", "assigner-1").returncode == 0
    status = json.loads(dev(where, "status", "-o", "json").stdout)
    assert {each["name"]: each["state"] for each in status["processes"]}["assigner-1"] == "paused"
    assert dev(where, "resume", "assigner-1").returncode == 0
    printed = dev(where, "status").stdout
    assert printed.startswith("NAME ")
    assert max(map(len, printed.splitlines()[:-1])) <= 80
    print(printed)

    missing = dev(where, "kill", "nosuch")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert missing.stderr == (
        f"braid: this mesh has no 'nosuch'\n  try: it has east, west, {', '.join(SERVICES)}, console\n"
    )
    refused = dev(where)
    assert refused.returncode == 4
    assert f"a mesh runs in {where} already (process {mesh.supervisor_pid})" in refused.stderr


@pytest.mark.parametrize("name", ["lagmon-0", pytest.param("dlq-0", marks=pytest.mark.extended)])
async def test_what_reads_along_breaks_by_name_too(mesh: DevMesh, name: str) -> None:
    before = mesh.ready.services[name].pid
    assert await mesh.kill(name) == f"{name} is dead (process {before}, SIGKILL)"
    assert (await mesh.info()).services[name].pid is None
    await mesh.start(name)
    await mesh.pause(name)
    await mesh.resume(name)
    await mesh.stop(name)
    await mesh.start(name)
    states = {each.name: each.state for each in (await mesh.status()).processes}
    assert states[name] == "running"


async def test_a_second_mesh_dies_and_returns_elsewhere_then_in_place(mesh: DevMesh, tmp_path: Path) -> None:
    """Three lives of one directory: each finds what the one before left. The first one is in plain text."""
    where = tmp_path / "mesh"
    first = await _killed_at_once(mesh, where)
    wait_gone(where)
    assert (await mesh.status()).ready

    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = first.clusters["east"].bootstrap.rpartition(":")
        thief.bind((host, int(port)))
        thief.listen()
        second = await _detached_while_its_port_is_taken(where, tmp_path / "ready.json", first)
    wait_gone(where)
    assert not MeshFiles(where).ready.exists()

    with foreground(where, "end it:", "--secure") as process:
        third = ready_from_json(MeshFiles(where).ready.read_text())
        assert third.tls == second.tls
        assert third.endpoint == second.endpoint
        assert third.clusters["east"].bootstrap == second.clusters["east"].bootstrap
        assert await consume(third, "logs", "again", 2) == [b"one", b"two"]
        _ended_by(process, signal.SIGHUP)
    wait_gone(where)


async def _killed_at_once(beside: DevMesh, where: Path) -> Ready:
    """A life that carries a record and ends with its supervisor's kill -9."""
    mesh = DevMesh(where, clusters=["east"], registries=1, assigners=1, lagmons=0, dlqs=0, secure=False)
    ready = await mesh.up(print)
    try:
        assert mesh.tls is None
        assert ready.endpoint != beside.ready.endpoint
        assert len(processes_of(where)) >= 4
        await create_stream(ready, "logs")
        await produce(ready, "logs", [b"one"])
    finally:
        await mesh.kill_supervisor()
    return ready


async def _detached_while_its_port_is_taken(where: Path, ready_file: Path, before: Ready) -> Ready:
    """A life in the background, elsewhere than before and with its data, until `braid dev down`."""
    try:
        ready = _detached(where, ready_file)
        assert ready.clusters.keys() == {"east"}
        assert ready.clusters["east"].bootstrap != before.clusters["east"].bootstrap
        async with connected(ready) as client:
            await client.service("registry").unary("GetStream", GetStreamRequest(name="logs"), Stream)
        assert await consume(ready, "logs", "moved", 1) == [b"one"]
        await produce(ready, "logs", [b"two"])
    finally:
        ended = dev(where, "down")
    _was_down(ended, where, ready_file)
    return ready


def _detached(where: Path, ready_file: Path) -> Ready:
    """`braid dev --detach` returned, and the mesh is there."""
    started = dev(where, *SMALL, "--detach", "--ready-file", str(ready_file))
    assert started.returncode == 0, started.stdout + started.stderr
    assert "it runs in the background" in started.stdout
    assert "WARNING     this mesh spoke plain text before and is secure now" in started.stdout
    ready = ready_from_json(ready_file.read_text())
    assert ready.user_tls is not None
    return ready


def _was_down(ended: subprocess.CompletedProcess[str], where: Path, ready_file: Path) -> None:
    """`braid dev down` ended a mesh; a second one finds none."""
    assert (ended.returncode, "ended after" in ended.stdout) == (0, True), ended.stderr
    assert not ready_file.exists()
    again = dev(where, "down")
    assert again.returncode == 3
    assert again.stderr.startswith(f"braid: no mesh runs in {where}")


def _ended_by(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """A signal ends `braid dev` in order."""
    process.send_signal(number)
    assert process.stdout is not None
    rest = process.stdout.read()
    assert process.wait(HANG_SECONDS) == 0, rest
    assert "everything has ended" in rest


@pytest.mark.extended
async def test_histories_in_etcd(tmp_path: Path) -> None:
    async with DevMesh(tmp_path, clusters=["east"], store="etcd", registries=1, assigners=1, lagmons=0, dlqs=0) as mesh:
        assert mesh.ready.store == "etcd"
        await create_stream(mesh.ready, "logs")
        await mesh.kill("etcd")
        await mesh.start("etcd")
        await produce(mesh.ready, "logs", [b"one"])
        assert await consume(mesh.ready, "logs", "etcd", 1) == [b"one"]
    wait_gone(tmp_path)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "starting east"),
        pytest.param(signal.SIGTERM, "registry-0 serves", marks=pytest.mark.extended),
    ],
)
def test_a_signal_during_the_start_leaves_nothing(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    with foreground(tmp_path / "mesh", moment, "--clusters", "east") as process:
        _ended_by(process, number)
    wait_gone(tmp_path / "mesh")


@pytest.mark.parametrize("moment", [pytest.param("starting east", marks=pytest.mark.extended), "registry-0 serves"])
def test_a_kill_during_the_start_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with foreground(tmp_path / "mesh", moment, "--clusters", "east") as process:
        assert processes_of(tmp_path / "mesh")
        process.kill()
    wait_gone(tmp_path / "mesh")


@pytest.mark.extended
def test_a_half_written_database_is_named(tmp_path: Path) -> None:
    database = MeshFiles(tmp_path).database
    database.parent.mkdir()
    database.write_bytes(b"SQLite format 3\0" + b"\x07" * 700)
    started = dev(tmp_path, "--clusters", "east", *SMALL, "--detach")
    assert started.returncode == 3
    assert str(database) in started.stderr
    print(started.stderr)
    wait_gone(tmp_path)


def test_no_java_is_said_with_how_to_install_it(tmp_path: Path) -> None:
    code = "from devmesh.toolchain import java; java._JVM_DIRECTORIES = (); from braid.cli import main; main()"
    command = [sys.executable, "-c", code, "dev", "--dir", str(tmp_path)]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PATH": "/nonexistent", "JAVA_HOME": "", "PYTHONPATH": str(root)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=HANG_SECONDS)
    assert ended.returncode == 3
    assert "Kafka needs Java 17 or 21" in ended.stderr
    assert not processes_of(tmp_path)


def test_wrong_usage_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for arguments, complaint in (
        (("--store", "redis"), "braid: --store: 'redis' is no store\n  try: one of sqlite, etcd\n"),
        (("--clusters", "East"), "--clusters"),
        (("--nonsense",), "No such option"),
    ):
        ended = dev(tmp_path / "mesh", *arguments)
        assert ended.returncode == 2
        assert complaint in ended.stderr
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = dev(tmp_path / "mesh", "--port", str(port))
        assert (ended.returncode, f"port {port} is in use" in ended.stderr) == (4, True)
    (tmp_path / "file").touch()
    ended = dev(tmp_path / "file" / "mesh")
    assert (ended.returncode, "choose another --dir" in ended.stderr) == (4, True)
    assert not processes_of(tmp_path)
