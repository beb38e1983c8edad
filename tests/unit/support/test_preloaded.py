"""Commands of pages are forks of a loaded one: what a caller passes arrives, and how they end is told."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from testbed.patience import wait
from tests.support.preloaded import preloaded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def braid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command to call."""
    with preloaded(tmp_path_factory.mktemp("commands")) as found:
        yield str(found / "braid")


def called(*command: str, **more: str) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **more}, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("--version",), {}),
        (("get", "--help"), {"COLUMNS": "60"}),
        (("get", "streams", "--endpoint", "127.0.0.1:1"), {}),
        (("get", "streams"), {"BRAID_ENDPOINT": "127.0.0.1:2"}),
        (("nonsense",), {}),
    ],
)
def test_a_fork_says_and_ends_as_the_command(braid: str, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    own = str(Path(sys.executable).parent / "braid")
    assert called(braid, *arguments, **variables) == called(own, *arguments, **variables)


def test_a_fork_reads_its_callers_input_and_directory(braid: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text("kind: Nothing\n")
    told = called("bash", "-c", f"cd {tmp_path}; {braid} apply -f here.yaml --endpoint 127.0.0.1:1")
    assert "here.yaml" in told[2]
    piped = called(
        "bash", "-c", f"printf 'apiVersion: braid/v1\\nkind: Piped\\n' | {braid} apply -f - --endpoint 127.0.0.1:1"
    )
    assert "Piped" in piped[2]


def test_a_closed_pipe_ends_a_fork_without_a_word(braid: str) -> None:
    assert called("bash", "-o", "pipefail", "-c", f"{braid} --help | true") == (0, "", "")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_to_the_caller_reaches_the_fork(braid: str, number: signal.Signals, status: int) -> None:
    command = [braid, "apply", "-f", "-", "--endpoint", "127.0.0.1:1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None
        running.stdin.write(b"kind: ")
        running.stdin.flush()
        wait(partial(is_read, running.stdin.fileno()), "the fork reads")
        running.send_signal(number)
        assert running.wait(60) == status


def is_read(pipe: int) -> bool:
    """Whether nothing waits in a pipe."""
    return fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4)


def test_what_still_runs_ends_with_the_loaded_command(tmp_path: Path) -> None:
    with preloaded(tmp_path) as found:
        running = subprocess.Popen([str(found / "braid"), "apply", "-f", "-"], stdin=subprocess.PIPE)
        assert running.stdin is not None
        running.stdin.write(b"kind: ")
        running.stdin.flush()
        wait(partial(is_read, running.stdin.fileno()), "the fork reads")
    assert running.wait(60) == 137
    running.stdin.close()
