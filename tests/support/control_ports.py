"""Everything readable on the control ports of a mesh: by listening, or else by asking in plain text.

Listening needs root or CAP_NET_RAW. Without it ports are asked, while the mesh runs, whether they speak plain text.
"""

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tests.support.loopback_capture import LoopbackCapture, found_in

TLS_HANDSHAKE: Final = b"\x16\x03"  # RFC 8446, section 5.1
_ASK_SECONDS: Final = 30.0
_SETTINGS: Final = 4  # of HTTP/2, RFC 9113, section 6.5
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


class ControlPorts:
    """Ports and what is known of them.

    Args:
        ports: Of services.
        capture: Of all their traffic; None where this process may not listen.
    """

    def __init__(self, ports: Collection[int], capture: LoopbackCapture | None) -> None:
        self._ports = ports
        self._capture = capture
        self._asked: set[int] = set()

    def ask(self) -> None:
        """Asks each port, where nobody may listen: a capture is to hold nothing but the mesh's own traffic."""
        if self._capture is None:
            print("not listened to, which needs root or CAP_NET_RAW: ports are asked instead")
            self._asked = {port for port in self._ports if answers_plain_text(port)}

    @property
    def plain(self) -> set[int]:
        """Ports that take or give anything but TLS.

        Raises:
            AssertionError: the capture is not whole, or holds nothing.
        """
        if self._capture is None:
            return self._asked
        flows = self._capture.flows
        assert flows and self._capture.is_whole, f"{len(flows)} flows, {self._capture.lost_packets} packets lost"
        plain = [flow for flow in flows if not flow.data.startswith(TLS_HANDSHAKE)]
        return {*self._ports}.intersection(port for flow in plain for port in (flow.source, flow.target))

    def readable(self, words: Mapping[str, bytes]) -> set[str]:
        """Names of the words that can be read; where nobody may listen, all of them or none."""
        if self._capture is None:
            return {*words} if self._asked else set()
        return found_in(self._capture.flows, words)


@contextmanager
def watched(ports: Collection[int]) -> Iterator[ControlPorts]:
    """Listens to ports until the block ends, where this process may."""
    try:
        capture = LoopbackCapture(ports)
    except PermissionError:
        yield ControlPorts(ports, None)
        return
    with capture:
        yield ControlPorts(ports, capture)


def answers_plain_text(port: int) -> bool:
    """Whether a port of this machine answers HTTP/2 without TLS."""
    try:
        with socket.create_connection(("127.0.0.1", port), _ASK_SECONDS) as wire:
            wire.sendall(_PREFACE)
            return wire.recv(4)[3:] == bytes([_SETTINGS])
    except ConnectionError:
        return False
