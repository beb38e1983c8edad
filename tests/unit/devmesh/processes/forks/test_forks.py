"""A module that is forked begins, lives and ends as one that is started as a program."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid._mesh import mesh_command
from devmesh.blueprint import python_modules
from devmesh.processes.forks.child import Child, ForkedChild
from devmesh.processes.guard import preloaded, spawn_guarded
from testbed.patience import wait

MODULE = "tests.support.forkable"
OTHER = "tests.support.preloaded"
ROOT = Path(__file__).parents[5]
SECONDS = 60.0  # ends a hang

# A process that has a module loaded and forked, and then does what the test wants of it: prints the fork, and waits.
_PARENT = f"""
import sys, time
from pathlib import Path
from braid._mesh import mesh_command
from devmesh.processes.guard import preloaded, spawn_guarded
with preloaded(["{MODULE}"]):
    child = spawn_guarded(mesh_command("{MODULE}", sys.argv[1], "wait"), Path(sys.argv[2]))
    print(child.pid, type(child).__name__, flush=True)
    time.sleep(600)
"""


class Started:
    """A module started with arguments, variables and an output of its own."""

    def __init__(self, directory: Path, how: str, module: str = MODULE) -> None:
        self.report, self.log = directory / "report", directory / "log"
        self.command = mesh_command(module, str(self.report), how)
        self.environment = {**os.environ, "BRAID_WORD": "here", "MORE": "x" * 100_000}
        self.child: Child = spawn_guarded(self.command, self.log, self.environment)

    def told(self) -> dict[str, Any]:
        """Returns the report of the module about itself."""
        wait(lambda: self.report.exists() or self.child.poll() is not None, "it tells", SECONDS)
        told: dict[str, Any] = json.loads(self.report.read_text())
        return told


@pytest.fixture
def forks() -> Iterator[ExitStack]:
    """A process that has the module loaded; it ends when the stack is closed."""
    with ExitStack() as stack:
        stack.enter_context(preloaded([MODULE]))
        yield stack


def test_a_fork_finds_around_itself_what_a_program_finds(
    forks: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forked").mkdir()
    (tmp_path / "plain").mkdir()
    forked = Started(tmp_path / "forked", "0")
    told, code = forked.told(), forked.child.wait(SECONDS)
    forks.close()
    plain = Started(tmp_path / "plain", "0")
    expected, expected_code = plain.told(), plain.child.wait(SECONDS)
    assert isinstance(forked.child, ForkedChild)
    assert not isinstance(plain.child, ForkedChild)
    assert (code, forked.log.read_text()) == (expected_code, plain.log.read_text())
    assert told["pid"] == told["session"] == forked.child.pid
    assert told["parent"] == expected["parent"] == os.getpid()
    assert told["arguments"] == forked.command[-2:]
    own = ("pid", "session", "arguments", "files", "loaded in")
    assert {name: told[name] for name in told if name not in own} == {
        name: expected[name] for name in expected if name not in own
    }
    assert [each.replace("/forked/", "/plain/") for each in told["files"]] == expected["files"], "a file is left open"


@pytest.mark.parametrize(("how", "code", "words"), [("7", 7, "output"), ("raise", 1, "ValueError: as asked")])
def test_its_exit_code_and_last_words_are_known(
    forks: ExitStack, tmp_path: Path, how: str, code: int, words: str
) -> None:
    started = Started(tmp_path, how)
    assert isinstance(started.child, ForkedChild)
    assert started.child.wait(SECONDS) == code
    assert started.child.returncode == started.child.poll() == code
    assert words in started.log.read_text()


def test_signals_reach_it_and_its_end_is_told_by_them(forks: ExitStack, tmp_path: Path) -> None:
    started = Started(tmp_path, "wait")
    started.told()
    process = psutil.Process(started.child.pid)
    started.child.send_signal(signal.SIGSTOP)
    wait(lambda: process.status() == psutil.STATUS_STOPPED, "it stands still", SECONDS)
    with pytest.raises(subprocess.TimeoutExpired):
        started.child.wait(0.01)
    started.child.send_signal(signal.SIGCONT)
    started.child.terminate()
    assert started.child.wait(SECONDS) == -signal.SIGTERM
    started.child.kill()  # whose process id is somebody else's by now


def test_tools_show_its_own_command_and_variables(forks: ExitStack, tmp_path: Path) -> None:
    started = Started(tmp_path, "wait")
    try:
        started.told()
        process = psutil.Process(started.child.pid)
        assert process.cmdline() == started.command
        assert process.environ()["BRAID_WORD"] == "here"
        assert process.ppid() == os.getpid()
    finally:
        started.child.kill()
        started.child.wait()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path, state: str) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "report"), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as parent:
        assert parent.stdout is not None
        pid, kind = parent.stdout.readline().split()
        wait((tmp_path / "report").exists, "it runs", SECONDS)
        if state == "stopped":
            os.kill(int(pid), signal.SIGSTOP)
        family = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
        assert kind == "ForkedChild"
        assert int(pid) in {each.pid for each in family}
        assert len(family) == 2, "the one that forks, and the fork"
        wait(lambda: not any(_lives(each) for each in family), "all of them are gone", SECONDS)


def test_it_outlives_the_one_that_forked_it(forks: ExitStack, tmp_path: Path) -> None:
    started = Started(tmp_path, "wait")
    started.told()
    forks.close()
    try:
        assert started.child.poll() is None
    finally:
        started.child.kill()
    assert started.child.wait() == -signal.SIGKILL


def test_a_fork_forks_in_turn_without_loading_anything(forks: ExitStack, tmp_path: Path) -> None:
    started = Started(tmp_path, "fork")
    assert started.child.wait(SECONDS) == 7, started.log.read_text()
    told, inner = started.told(), json.loads((tmp_path / "report-of-fork").read_text())
    assert inner["parent"] == told["pid"]
    assert inner["loaded in"] == told["loaded in"] != told["pid"]


def test_where_the_server_is_gone_modules_start_as_programs(forks: ExitStack, tmp_path: Path) -> None:
    first = Started(tmp_path, "0")
    first.child.wait(SECONDS)
    (server,) = [each for each in psutil.Process().children() if "devmesh.processes.forks" in each.cmdline()]
    server.kill()
    second = Started(tmp_path, "7")
    assert not isinstance(second.child, ForkedChild)
    assert second.child.wait(SECONDS) == 7


def test_what_was_not_loaded_starts_as_a_program(forks: ExitStack, tmp_path: Path) -> None:
    started = Started(tmp_path, "1", module=OTHER)
    assert not isinstance(started.child, ForkedChild)
    started.child.kill()
    started.child.wait()
    script = spawn_guarded([sys.executable, "-c", "print('hello')"], tmp_path / "script")
    assert (script.wait(SECONDS), (tmp_path / "script").read_text()) == (0, "hello\n")


def test_many_threads_ask_at_once_and_each_gets_its_own(forks: ExitStack, tmp_path: Path) -> None:
    started: list[Started] = []

    def start(number: int) -> None:
        directory = tmp_path / str(number)
        directory.mkdir()
        started.append(Started(directory, str(number)))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.child.wait(SECONDS) for each in started) == list(range(8))
    assert all(each.told()["arguments"][1] == str(each.child.returncode) for each in started)


@pytest.mark.slow
def test_services_can_be_forked_and_say_what_they_lack(tmp_path: Path) -> None:
    """Nothing they load starts a thread, which a fork would lose: then they would start as programs."""
    with preloaded(python_modules(console=True)):
        for module in python_modules(console=True):
            service = Started(tmp_path, "0", module)
            assert isinstance(service.child, ForkedChild), module
            assert service.child.wait(SECONDS) != 0
    words = (tmp_path / "log").read_text()
    assert all(setting in words for setting in ("BRAID_INSTANCE", "BRAID_CONSOLE_HOME")), words


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_within_another_nothing_is_loaded_again(forks: ExitStack, tmp_path: Path) -> None:
    with preloaded([MODULE]):
        pass
    child = Started(tmp_path, "0").child
    assert isinstance(child, ForkedChild), "the outer one still forks"
    assert child.wait(SECONDS) == 0
    with pytest.raises(RuntimeError, match="other modules"), preloaded([OTHER]):
        pass
