"""Records what TCP carries over the loopback device to and from some ports, and puts each direction together again.

It needs the right to open packet sockets: root's, or CAP_NET_RAW.
"""

import ctypes
import socket
import struct
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Self

CAPTURED_BYTES_MAX: Final = 256 << 20
_IPV4: Final = 0x0800
_PACKET_BYTES_MAX: Final = 1 << 17
_QUEUE_BYTES: Final = 64 << 20
_LOOK_SECONDS: Final = 0.2
_SYN: Final = 0x02
# Of <linux/socket.h>, <linux/if_packet.h>.
_SO_ATTACH_FILTER: Final = 26
_SO_RCVBUFFORCE: Final = 33
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
# Codes of the packet filter.
_LOAD_BYTE: Final = 0x30
_LOAD_HEADER_LENGTH: Final = 0xB1
_LOAD_TWO_BEHIND_HEADER: Final = 0x48
_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_INSTRUCTION_BYTES: Final = 8


class Flow(NamedTuple):
    """One direction of one connection.

    Attributes:
        source: Port of the sender.
        target: Port of the receiver.
        data: What was sent, in order.
    """

    source: int
    target: int
    data: bytes


class LoopbackCapture:
    """A recording that runs from entering the context to leaving it.

    Args:
        ports: Those of which either side is to be recorded.
    """

    def __init__(self, ports: Collection[int]) -> None:
        """Raises `PermissionError` where packet sockets are not allowed."""
        self._ports = ports
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._ending = False
        self._connections: dict[tuple[int, int], int] = {}
        self._segments: dict[tuple[int, int, int], dict[int, bytes]] = {}
        self.captured_bytes = 0
        self.lost_packets = 0

    def __enter__(self) -> Self:
        program = _filter(self._ports)
        kept = ctypes.create_string_buffer(program, len(program))
        described = struct.pack("HL", len(program) // _INSTRUCTION_BYTES, ctypes.addressof(kept))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _QUEUE_BYTES)
        self._socket.settimeout(_LOOK_SECONDS)
        self._socket.bind(("lo", _IPV4))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._thread.join()
        counted = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.lost_packets = struct.unpack("II", counted)[1]
        self._socket.close()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing; true or false once it has ended."""
        return not self.lost_packets and self.captured_bytes <= CAPTURED_BYTES_MAX

    @property
    def flows(self) -> list[Flow]:
        """Both directions of every connection that carried data."""
        return [Flow(source, target, _joined(each)) for (source, target, _), each in self._segments.items() if each]

    def _record(self) -> None:
        while not self._ending:
            try:
                self._take(self._socket.recv(_PACKET_BYTES_MAX))
            except TimeoutError:
                continue
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while self.captured_bytes <= CAPTURED_BYTES_MAX:
                self._take(self._socket.recv(_PACKET_BYTES_MAX))

    def _take(self, packet: bytes) -> None:
        """One IPv4 packet (RFC 791) with a TCP segment (RFC 9293)."""
        start = 4 * (packet[0] & 0x0F)
        source, target, sequence = struct.unpack_from("!HHI", packet, start)
        header, flags = 4 * (packet[start + 12] >> 4), packet[start + 13]
        payload = packet[start + header : struct.unpack_from("!H", packet, 2)[0] or None]
        if flags & _SYN:  # another connection of the same ports begins
            self._connections[source, target] = self._connections.get((source, target), 0) + 1
        if not payload or self.captured_bytes > CAPTURED_BYTES_MAX:
            return
        self.captured_bytes += len(payload)
        connection = (source, target, self._connections.get((source, target), 0))
        self._segments.setdefault(connection, {}).setdefault(sequence, payload)


def found_in(flows: Collection[Flow], words: Mapping[str, bytes]) -> set[str]:
    """Names of the words that any flow carries as they are."""
    return {name for name, word in words.items() if any(word in flow.data for flow in flows)}


def _joined(segments: Mapping[int, bytes]) -> bytes:
    """Segments by sequence number, which wraps at 2^32, as one; what was sent twice counts once."""
    first = next(iter(segments))
    data, end = bytearray(), None
    for offset, payload in sorted(
        ((number - first + (1 << 31)) % (1 << 32), each) for number, each in segments.items()
    ):
        known = 0 if end is None else max(0, end - offset)
        data += payload[known:]
        end = max(end or 0, offset + len(payload))
    return bytes(data)


def _filter(ports: Collection[int]) -> bytes:
    """A program of the classic Berkeley packet filter: TCP from or to one of the ports, of packets without link header.

    An instruction is a code, two jumps and a value (<linux/filter.h>); a jump counts from the next instruction.
    """
    refuse = 5 + 2 * len(ports)
    accept = refuse + 1
    protocol, header_length = (_LOAD_BYTE, 0, 0, 9), (_LOAD_HEADER_LENGTH, 0, 0, 0)
    steps = [protocol, (_IF_EQUAL, 0, refuse - 2, socket.IPPROTO_TCP), header_length]
    for offset in (0, 2):  # of the source's and the target's port
        steps.append((_LOAD_TWO_BEHIND_HEADER, 0, 0, offset))
        for port in ports:
            steps.append((_IF_EQUAL, accept - len(steps) - 1, 0, port))
    steps += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, _PACKET_BYTES_MAX)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
