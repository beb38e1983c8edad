"""Real brokers as `devmesh` runs them: identity kept across deaths, faults that do what they say, clear refusals."""

import asyncio
import re
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from braid.kafka.cluster import AioKafka
from braid.kernel.errors import NotFound, Refused, Unavailable
from braid.kernel.ports import KafkaAdmin, TopicPartition
from devmesh.archives.making import ensure_archive
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.storage import template, template_name
from devmesh.toolchain.cache import cache_directory
from devmesh.toolchain.class_archive import archive_options
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import FORMAT_CLASS, KafkaJvm
from testbed.brokers import READY_SECONDS, new_broker, running_broker
from testbed.patience import POLL_SECONDS, Deadline
from testbed.ports import free_port

pytestmark = [pytest.mark.untimed, pytest.mark.timeout(600)]


def _cluster_id(broker: KafkaBroker) -> str:
    lines = (broker.directory / "data" / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id="))


def _properties(broker: KafkaBroker) -> dict[str, str]:
    lines = (broker.directory / "data" / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def _jvm() -> KafkaJvm:
    return KafkaJvm(str(java_binary()), kafka_classpath())


def _cpu_seconds(broker: KafkaBroker) -> float:
    used = psutil.Process(broker.pid).cpu_times()
    return float(used.user + used.system)


def _runs(broker: KafkaBroker) -> bool:
    return broker.pid is not None


def test_a_broker_keeps_its_identity_through_kill_pause_and_stop(tmp_path: Path) -> None:
    with running_broker("east", tmp_path / "east") as broker:
        identity, first_pid = _cluster_id(broker), broker.pid
        with pytest.raises(Refused, match="running already"):
            broker.start()

        broker.pause()
        with pytest.raises(Unavailable, match="not ready"):
            broker.wait_ready(0.3)
        broker.resume()
        broker.wait_ready(READY_SECONDS)
        assert broker.pid == first_pid

        broker.pause()
        broker.kill()
        assert not _runs(broker)
        broker.start()
        broker.wait_ready(READY_SECONDS)
        assert broker.pid not in (None, first_pid)
        assert _cluster_id(broker) == identity

        broker.stop()
        assert not _runs(broker)
        broker.kill()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        broker = new_broker("east", tmp_path)
        broker.port = other.getsockname()[1]
        with pytest.raises(Refused, match=str(broker.port)):
            broker.start()


def test_a_directory_that_cannot_be_formatted_says_why(tmp_path: Path) -> None:
    broker = new_broker("east", tmp_path, {"process.roles": "nonsense"})
    with pytest.raises(Unavailable, match="nonsense"):
        broker.start()


def test_a_java_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    broker = KafkaBroker("east", tmp_path, free_port(), free_port(), "none", "a", java="/nonexistent/java")
    with pytest.raises(Unavailable, match="/nonexistent/java"):
        broker.start()
    assert not (cache_directory() / template_name("none")).exists()


async def test_brokers_of_one_template_are_clusters_of_their_own(tmp_path: Path) -> None:
    with running_broker("east", tmp_path / "east") as east, running_broker("west", tmp_path / "west") as west:
        ours, theirs = _properties(east), _properties(west)
        assert {"cluster.id", "directory.id", "node.id", "version"} == ours.keys() == theirs.keys()
        assert len({each[key] for each in (ours, theirs) for key in ("cluster.id", "directory.id")}) == 4
        assert await _append(east) == (ours["cluster.id"], 0)
        assert await _append(west) == (theirs["cluster.id"], 0)

        await asyncio.to_thread(east.kill)
        east.start()
        await asyncio.to_thread(east.wait_ready, READY_SECONDS)
        assert await _append(east) == (ours["cluster.id"], 1), "its identity and its data came back"
        assert _properties(east) == ours


async def _append(broker: KafkaBroker) -> tuple[str, int]:
    """Writes a record; returns what the cluster calls itself, and the record's offset."""
    admin = AioKafka("test").cluster(broker.bootstrap, "").admin()
    try:
        if "logs" not in await admin.list_topics():
            await admin.create_topic("logs", 1, 1, {})
        return (await admin.describe_cluster()).cluster_id, await _appended(admin)
    finally:
        await admin.close()


async def _appended(admin: KafkaAdmin) -> int:
    """A broker that has just started may not lead its partitions yet."""
    deadline = Deadline(READY_SECONDS)
    while True:
        try:
            return (await admin.try_append(TopicPartition("logs", 0), b"record", 10.0)).offset
        except (NotFound, Unavailable):
            assert not deadline.passed, f"nothing could be written within {deadline}"
            await asyncio.sleep(POLL_SECONDS)


def test_the_template_is_what_kafkas_tool_writes(tmp_path: Path) -> None:
    """The tool itself, run anew on a broker's own configuration, writes the same but for ids and times."""
    broker = new_broker("east", tmp_path / "tool")
    jvm, kept = _jvm(), template(_jvm())
    broker.directory.mkdir()
    config = broker.write_config()
    command = jvm.command(FORMAT_CLASS, "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config))
    subprocess.run(command, check=True, capture_output=True, timeout=READY_SECONDS)
    written = _properties(broker)
    assert written["cluster.id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert written.keys() == {line.partition("=")[0] for line in kept.meta.splitlines() if not line.startswith("#")}
    checkpoint = (broker.directory / "data" / "bootstrap.checkpoint").read_bytes()
    assert len(checkpoint) == len(kept.checkpoint)
    assert re.findall(rb"[a-z.]{8,}", checkpoint) == re.findall(rb"[a-z.]{8,}", kept.checkpoint) != []


def test_a_format_cut_short_is_mended_by_the_next_start(tmp_path: Path) -> None:
    broker = new_broker("east", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bootstrap.checkpoint").write_bytes(template(_jvm()).checkpoint[:40])
    (tmp_path / "data" / ".meta.properties.new").write_text("version=1\nclus")
    try:
        broker.start()
        broker.wait_ready(READY_SECONDS)
    finally:
        broker.kill()
    assert _properties(broker)["node.id"] == "1"


def test_brokers_share_the_class_archive(tmp_path: Path) -> None:
    """The archive saves half of a start; the test asserts only that it saves any, in CPU time."""
    archive = ensure_archive(_jvm(), print)
    assert archive is not None
    with running_broker("east", tmp_path / "with") as broker:
        mapped = {each.path for each in psutil.Process(broker.pid).memory_maps()}
        shared = _cpu_seconds(broker)
        assert str(archive) in mapped
        assert broker.log_path.read_text() == ""
    plain = new_broker("east", tmp_path / "without", jvm_options=())
    try:
        plain.start()
        plain.wait_ready(READY_SECONDS)
        assert str(archive) not in {each.path for each in psutil.Process(plain.pid).memory_maps()}
        assert shared < _cpu_seconds(plain)
    finally:
        plain.kill()


@pytest.mark.parametrize(
    "harm", ["garbage", *(pytest.param(each, marks=pytest.mark.extended) for each in ("missing", "other jars"))]
)
def test_an_archive_that_the_jvm_refuses_is_skipped_silently(tmp_path: Path, harm: str) -> None:
    jvm = _jvm()
    ensure_archive(jvm, print)
    options = archive_options(jvm)
    if harm == "other jars":
        (tmp_path / "other.jar").write_bytes((Path(jvm.classpath.split(":")[0])).read_bytes())
        jvm = jvm._replace(classpath=f"{tmp_path}/other.jar:{jvm.classpath}")
    else:
        if harm == "garbage":
            (tmp_path / "bad.jsa").write_bytes(b"garbage" * 100_000)
        options = [f"-XX:SharedArchiveFile={tmp_path}/bad.jsa", *options[1:]]
    command = jvm.command(FORMAT_CLASS, "random-uuid", options=options)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=READY_SECONDS)
    assert re.fullmatch(r"[\w-]{22}\n", done.stdout)
    assert done.stderr == ""


def test_a_broker_that_ends_while_starting_is_noticed_at_once(tmp_path: Path) -> None:
    broker = new_broker("east", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    broker.start()
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="ended while starting"):
        broker.wait_ready(READY_SECONDS)
    assert time.monotonic() - begun < READY_SECONDS / 2
