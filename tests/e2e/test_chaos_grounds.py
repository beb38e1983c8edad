"""The basis of network and disk faults: links that are cut, disks that are filled, machines without either."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from testbed.ground.field import NotPlayedError
from testbed.ground.load import CLUSTERS
from tests.e2e.chaos import full_disks
from tests.e2e.chaos.full_disks import small_disks
from tests.e2e.chaos.namespaces import Namespace, namespace

pytestmark = [pytest.mark.real, pytest.mark.untimed]
SILENT_SECONDS: Final = 0.5
# Says a word to 127.0.0.1 whenever it is told to, and prints what comes back.
TALKER: Final = """
import socket, sys
talk = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
for line in sys.stdin:
    talk.sendall(line.encode())
    print(talk.recv(100).decode(), end="", flush=True)
"""


class Talk:
    """A process in a namespace and the other end of its connection."""

    def __init__(self, talker: subprocess.Popen[str], heard: socket.socket) -> None:
        self._talker = talker
        self._heard = heard
        assert talker.stdin is not None
        assert talker.stdout is not None
        self._words = talker.stdin
        self._answers = talker.stdout

    def says(self, word: str) -> None:
        """The process says a word."""
        self._words.write(f"{word}\n")
        self._words.flush()

    def hears(self) -> str:
        """The data that arrives here within a moment; '' if none does."""
        try:
            return self._heard.recv(100).decode().strip()
        except TimeoutError:
            return ""

    def answer(self, word: str) -> None:
        """Says a word to the process."""
        self._heard.sendall(f"{word}\n".encode())

    def waits(self) -> bool:
        """Whether the process has heard nothing for a moment."""
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        reading.join(SILENT_SECONDS)
        return reading.is_alive()

    def _read(self) -> None:
        self._answers.readline()


@contextmanager
def talking(net: Namespace) -> Iterator[Talk]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [*net.command, sys.executable, "-c", TALKER, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as talker:
            server.settimeout(10)
            heard, _ = server.accept()
            heard.settimeout(SILENT_SECONDS)
            try:
                yield Talk(talker, heard)
            finally:
                heard.close()
                talker.kill()


@contextmanager
def played() -> Iterator[Namespace | None]:
    """A namespace; None where the machine allows none, which chaos tells in the same words."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(namespace())
        except NotPlayedError as reason:
            assert "namespace" in str(reason), "whoever reads the report learns what is missing"
            yield None
        else:
            yield made


def test_a_process_in_a_namespace_has_a_link_that_can_be_cut() -> None:
    with played() as net:
        if net is None:
            return
        with talking(net) as talk:
            talk.says("hello")
            assert talk.hears() == "hello"
            net.cut_incoming()
            talk.answer("lost for now")
            assert talk.waits()
            net.heal()


def test_a_one_way_cut_delays_messages_until_the_link_is_healed() -> None:
    with played() as net:
        if net is None:
            return
        with talking(net) as talk:
            net.cut_outgoing()
            talk.says("late")
            assert talk.hears() == ""
            net.heal()
            assert any(talk.hears() == "late" for _ in range(20))


def test_a_small_disk_fills_to_its_last_byte_and_has_room_again(tmp_path: Path) -> None:
    with small_disks(tmp_path) as why_not:
        if why_not:
            assert "mount" in why_not, "whoever reads the report learns what is missing"
            return
        for path in (tmp_path / "clusters" / name for name in CLUSTERS):
            with full_disks.full(path), pytest.raises(OSError, match="No space left"):
                (path / "one more").write_bytes(b"1")
            (path / "room").write_bytes(b"1" * 4_096)
    assert [path.name for path in (tmp_path / "clusters" / CLUSTERS[0]).iterdir()] == []


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="Operation not permitted\n")

    monkeypatch.setattr(subprocess, "run", refused)


@pytest.mark.usefixtures("unprivileged")
def test_a_machine_that_allows_neither_says_why(tmp_path: Path) -> None:
    with small_disks(tmp_path) as why_not:
        assert why_not == "no small disk can be mounted here: Operation not permitted"
    refusal = "no network namespace can be made here: Operation not permitted"
    with pytest.raises(NotPlayedError, match=refusal), namespace():
        pass
