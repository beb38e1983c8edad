"""The demo itself, at a small scale: it ends with a verdict, tells the truth when it fails, leaves nothing running."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from testbed.patience import wait

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]

ROOT: Final = Path(__file__).parents[2]
RECORDS: Final = 20_000
RECORDS_OF_A_PART: Final = 10_000  # where the story does not come to its end
RATE_PER_S: Final = 1_200  # two cores bear it beside everything else, so that acts do not wait for the load
GONE_SECONDS: Final = 60.0
WITHOUT: Final = "--without-event-store"


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
        return "demo.shipper" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_the_story_ends_well(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with playing(directory, records=RECORDS) as process:
        said, _ = process.communicate()
    assert process.returncode == 0, said
    verdict = json.loads((directory / "verdict.json").read_text())
    assert verdict["ok"] is True
    records = verdict["records"]
    assert records["acked"] >= RECORDS
    assert records["lost"] == 0
    assert records["dead_lettered"] == 1
    assert records["replayed"] == 1
    assert records["processed"] == records["acked"]
    assert verdict["event_store"]["rows"] == records["acked"]
    assert verdict["failover"]["cluster"] in ("east", "west")
    assert verdict["failover"]["first_ack_elsewhere_ms"] > 0
    assert verdict["takeover"]["member_killed_to_first_record_ms"] > 0
    assert verdict["lag"]["final_seconds"] == 0
    assert said.splitlines()[-1].startswith("OK")
    assert "\x1b" not in said
    assert left_running(directory) == []


@pytest.mark.parametrize("moment", ["clusters", "under load of lanes"], ids=["starting", "a cluster is dead"])
def test_an_interrupt_ends_everything(tmp_path: Path, moment: str) -> None:
    directory = tmp_path / "run"
    with playing(directory, WITHOUT) as process:
        read_until(process, moment)
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)  # an impatient hand
        said = rest_of(process)
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert left_running(directory) == []
    assert not (directory / "verdict.json").exists()


def test_nothing_survives_its_sudden_death(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with playing(directory, WITHOUT) as process:
        read_until(process, "telemetry flows")
        assert left_running(directory)
        process.kill()
        wait(lambda: not left_running(directory), "everything gone", GONE_SECONDS, poll=0.5)


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
