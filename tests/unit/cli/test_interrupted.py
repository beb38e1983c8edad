"""Ctrl-C as a real SIGINT to a real process: while the command loads, while it asks, while it waits for the mesh."""

import os
import pty
import signal
import socket
import subprocess
import sys
from typing import Final

import pytest

_BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
# Ctrl-C at the instant at which a module begins to load.
_WHILE_LOADING: Final = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from braid.cli import main
main()
"""


@pytest.mark.parametrize(
    "module", ["braid.cli.app", "braid.cli.traffic.verbs", "braid.cli.core.session", "braid.cli.traffic.consume"]
)
def test_ctrl_c_while_loading_interrupts_without_a_traceback(module: str) -> None:
    command = [sys.executable, "-c", _WHILE_LOADING.format(module=module), "consume", "logs", "--endpoint", "[::1]:1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert "Traceback" not in ended.stderr
    assert "Abort" not in ended.stderr


@pytest.mark.parametrize(
    "line",
    [
        "consume logs",
        "consume logs --group g",
        "produce logs",
        "get streams -w",
        "delete stream logs --yes",
        "move stream logs --to west",
    ],
)
def test_ctrl_c_while_waiting_for_the_mesh_interrupts(line: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*_BRAID, *line.split(), "--endpoint", endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process, silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")


def test_ctrl_c_at_deletes_question_interrupts_and_keeps_all() -> None:
    ours, theirs = pty.openpty()
    command = [*_BRAID, "delete", "cluster", "east", "--endpoint", "[::1]:1"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b"to continue: "):
            part = os.read(process.stderr.fileno(), 1000)
            assert part, asked
            asked += part
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert b"Traceback" not in err
