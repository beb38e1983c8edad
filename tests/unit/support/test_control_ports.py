"""Readable words on watched ports are found: the control for tests that find none on the ports of a secure mesh."""

import socket
import threading

import pytest

from tests.support.control_ports import TLS_HANDSHAKE, ControlPorts, answers_plain_text
from tests.support.loopback_capture import LoopbackCapture

WORDS = {"record": b"of nobody's business", "stream": b"elsewhere"}
SETTINGS_FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("first", "plain", "readable"),
    [(b"PRI * " + WORDS["record"], True, {"record"}), (TLS_HANDSHAKE + b"\x01" + bytes(64), False, set())],
    ids=["plain text", "TLS"],
)
def test_words_in_plain_text_are_read(first: bytes, plain: bool, readable: set[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        try:
            capture = LoopbackCapture([port])
        except PermissionError:
            return  # ports are asked instead: the test below
        with capture, socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as end:
            client.sendall(first)
            assert end.recv(len(first), socket.MSG_WAITALL) == first
    ports = ControlPorts([port], capture)
    assert (bool(ports.plain), ports.readable(WORDS)) == (plain, readable)


@pytest.mark.parametrize(("answer", "plain"), [(SETTINGS_FRAME, True), (TLS_HANDSHAKE, False), (b"", False)])
def test_a_port_that_speaks_plain_text_is_known_by_its_answer(answer: bytes, plain: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as end:
                end.recv(1)
                end.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        assert answers_plain_text(server.getsockname()[1]) == plain
        serving.join()
