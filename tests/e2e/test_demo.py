"""The demo itself, at a small scale: it ends with a verdict, tells the truth when it fails, leaves nothing running.

Its control ports are listened to meanwhile: nothing can be read there, and everything when it runs with --insecure.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pytest

import braid
from braid.api.dlq.v1.dead_letter_pb2 import DeadLetterContent
from braid.api.dlq.v1.dlq_service_pb2 import GetDeadLetterRequest, ListDeadLettersRequest, ListDeadLettersResponse
from braid.api.registry.v1.registry_service_pb2 import (
    GetStreamRequest,
    ListClustersRequest,
    ListClustersResponse,
    MoveStreamRequest,
    MoveStreamResponse,
)
from braid.api.registry.v1.stream_pb2 import Stream
from braid.kernel.errors import Refused
from demo.control import active_cluster
from demo.story import GROUP
from demo.traffic.shipper import STREAM
from devmesh.blueprint import SERVICES, kind_of
from devmesh.documents import ready_from_json
from devmesh.files import MeshFiles
from testbed.patience import until, wait
from tests.support.control_ports import ControlPorts, watched

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]

ROOT: Final = Path(__file__).parents[2]
RECORDS: Final = 12_000
RECORDS_OF_A_PART: Final = 10_000  # where the story does not come to its end
RATE_PER_S: Final = 700  # two cores bear it beside everything else, so that acts do not wait for the load
GONE_SECONDS: Final = 60.0
WITHOUT: Final = "--without-event-store"
DEAD_LETTERED: Final = "the handler is fixed"  # the demo says so once there is a dead letter


class Story(NamedTuple):
    """A demo that was played to its end.

    Attributes:
        directory: Of the run.
        status: With which it ended.
        said: What it printed.
        words: What was told over control ports and nobody else may read, by what it is.
        ports: What can be read there.
    """

    directory: Path
    status: int
    said: str
    words: Mapping[str, bytes]
    ports: ControlPorts


@contextmanager
def listening(directory: Path) -> Iterator[ControlPorts]:
    """Watches the control ports of a demo's mesh, from the first packet on."""
    files = MeshFiles(directory / "mesh")
    wait(lambda: bool(files.recall().ports), "ports of the mesh", GONE_SECONDS, poll=0.01)
    ports = [port for name, port in files.recall().ports.items() if kind_of(name) in SERVICES]
    with watched(ports) as found:
        yield found


async def operate(directory: Path) -> dict[str, bytes]:
    """Asks the mesh as its operator would: for a dead letter in full, and for a move that is only planned.

    Returns what was said in both, by what it is.
    """
    ready = ready_from_json(MeshFiles(directory / "mesh").ready.read_text())
    reason = secrets.token_hex(16)
    async with braid.connect(ready.endpoint, client_id="operator", tls=ready.user_tls) as mesh:
        registry, dlq = mesh.service("registry"), mesh.service("dlq")
        found: list[str] = []

        async def listed() -> bool:
            asked = ListDeadLettersRequest(stream=STREAM)
            letters = (await dlq.unary("ListDeadLetters", asked, ListDeadLettersResponse)).letters
            found[:] = [each.name for each in letters]
            return bool(found)

        await until(listed, "a dead letter")
        letter = await dlq.unary("GetDeadLetter", GetDeadLetterRequest(name=found[0]), DeadLetterContent)
        stream = await registry.unary("GetStream", GetStreamRequest(name=STREAM), Stream)
        clusters = (await registry.unary("ListClusters", ListClustersRequest(), ListClustersResponse)).clusters
        here = active_cluster(list(stream.status.channels), "live")
        there = next(each.name for each in clusters if each.name != here)
        move = MoveStreamRequest(stream=STREAM, to_cluster=there, reason=reason, dry_run=True)
        with suppress(Refused):  # that cluster may be suspected just now; what was asked has travelled
            await registry.unary("MoveStream", move, MoveStreamResponse)
    return {
        "secret": reason.encode(),
        "record key": letter.key,
        "record": letter.value[:100],
        "stream": STREAM.encode(),
        "group": GROUP.encode(),
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Story:
    """The one that tests of a whole demo share: in `make test` without the event store, which needs a Spark."""
    directory = tmp_path_factory.mktemp("demo") / "run"
    options = [] if pytestconfig.getoption("--extended") else [WITHOUT]
    with playing(directory, *options, records=RECORDS) as process, listening(directory) as ports:
        said = read_until(process, DEAD_LETTERED)
        words = asyncio.run(operate(directory))
        ports.ask()
        rest, _ = process.communicate()
    return Story(directory, process.returncode, said + rest, words, ports)


@contextmanager
def playing(directory: Path, *options: str, records: int = RECORDS_OF_A_PART) -> Iterator[subprocess.Popen[str]]:
    """The demo in a session of its own, as a terminal would start it."""
    load = ("--records", str(records), "--rate", str(RATE_PER_S))
    command = [sys.executable, "-m", "demo", *load, "--directory", str(directory), *options]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """Output up to the line with a word."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(f"{word!r} never came:\n{said}")


def rest_of(process: subprocess.Popen[str]) -> str:
    """The remaining output of the demo, to its end."""
    wait(lambda: process.poll() is not None, "the end of the demo", GONE_SECONDS)
    assert process.stdout is not None
    return process.stdout.read()


def left_running(directory: Path) -> list[str]:
    """Processes whose command or environment names the directory."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            command, environment = process.cmdline(), process.environ()
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone, or a zombie that nobody has collected yet
            continue
        if process.pid != os.getpid() and any(str(directory) in word for word in (*command, *environment.values())):
            found.append(f"{process.pid} {' '.join(command)[:120]}")
    return found


def is_shipper(process: psutil.Process) -> bool:
    try:
        return "demo.traffic.shipper" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_the_story_ends_well(story: Story, pytestconfig: pytest.Config) -> None:
    directory, said = story.directory, story.said
    assert story.status == 0, said
    verdict = json.loads((directory / "verdict.json").read_text())
    assert verdict["ok"] is True
    records = verdict["records"]
    assert records["acked"] >= RECORDS
    assert records["lost"] == 0
    assert records["dead_lettered"] == 1
    assert records["replayed"] == 1
    assert records["processed"] == records["acked"]
    if pytestconfig.getoption("--extended"):
        assert verdict["event_store"]["rows"] == records["acked"]
    assert verdict["failover"]["cluster"] in ("east", "west")
    assert verdict["failover"]["first_ack_elsewhere_ms"] > 0
    assert verdict["takeover"]["member_killed_to_first_record_ms"] > 0
    assert verdict["responses"]["answered_ms"] > 0
    assert verdict["responses"]["undone_ms"] > 0
    assert verdict["lag"]["final_seconds"] == 0
    assert said.splitlines()[-1].startswith("OK")
    assert "\x1b" not in said
    assert left_running(directory) == []


def test_a_whole_demos_control_ports_show_nothing_readable(story: Story) -> None:
    assert story.ports.plain == set()
    assert story.ports.readable(story.words) == set()


def test_an_interrupt_while_it_starts_ends_everything(tmp_path: Path) -> None:
    with playing(tmp_path / "run", WITHOUT) as process:
        read_until(process, "clusters")
        check_interrupt(process, tmp_path / "run")


@pytest.mark.extended
def test_a_plaintext_demo_is_readable_and_an_interrupt_ends_it(tmp_path: Path) -> None:
    """The look that finds nothing on the ports of a secure mesh finds every word here."""
    directory = tmp_path / "run"
    with playing(directory, WITHOUT, "--insecure") as process, listening(directory) as ports:
        read_until(process, DEAD_LETTERED)
        words = asyncio.run(operate(directory))
        ports.ask()
        read_until(process, "under load of lanes")
        check_interrupt(process, directory)
    assert ports.plain
    assert ports.readable(words) == words.keys()


def check_interrupt(process: subprocess.Popen[str], directory: Path) -> None:
    """Ctrl-C, by an impatient hand, ends a demo and everything it started."""
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    said = rest_of(process)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert left_running(directory) == []
    assert not (directory / "verdict.json").exists()


@pytest.mark.extended
def test_nothing_survives_its_sudden_death(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with playing(directory, WITHOUT) as process:
        read_until(process, "telemetry flows")
        assert left_running(directory)
        process.kill()
        wait(lambda: not left_running(directory), "everything gone", GONE_SECONDS, poll=0.5)


@pytest.mark.extended
def test_a_part_that_dies_is_named_with_its_log(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with playing(directory, WITHOUT) as process:
        read_until(process, "telemetry flows")
        [shipper] = [each for each in psutil.Process(process.pid).children() if is_shipper(each)]
        shipper.kill()
        said = rest_of(process)
    assert process.returncode == 1, said
    assert "shipper ended with status -9" in said
    assert f"look first: {directory / 'shipper.log'}" in said
    verdict = json.loads((directory / "verdict.json").read_text())
    assert verdict["ok"] is False
    assert "event_store" not in verdict  # nothing is told of what was not played
    assert left_running(directory) == []
