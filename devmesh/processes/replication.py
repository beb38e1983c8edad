"""Replication state of partitions as a broker reports it, by Kafka's Metadata request without a Kafka client.

A rolling restart asks it before it goes on to the next broker.
"""

import socket
import struct
from typing import Final, NamedTuple

from braid.kernel.errors import Unavailable
from devmesh.limits import DEV_METADATA_BYTES_MAX

# Metadata about all topics (version 1, correlation id 1, client id "dev").
ALL_TOPICS_REQUEST: Final = b"\x00\x00\x00\x11" + b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x03dev\xff\xff\xff\xff"
_CORRELATION_BYTES: Final = 4
_NO_LEADER: Final = -1


class PartitionCopies(NamedTuple):
    """A partition as reported by a broker.

    Attributes:
        topic: Its topic.
        partition: Its number.
        leader: Node of the leader; -1 while it has none.
        replicas: Nodes that should have a copy.
        in_sync: Nodes whose copy is in sync.
    """

    topic: str
    partition: int
    leader: int
    replicas: frozenset[int]
    in_sync: frozenset[int]

    @property
    def whole(self) -> bool:
        """Whether it has a leader and every copy is in sync."""
        return self.leader != _NO_LEADER and self.in_sync >= self.replicas

    def __str__(self) -> str:
        if self.leader == _NO_LEADER:
            return f"{self.topic}-{self.partition} has no leader"
        behind = ", ".join(map(str, sorted(self.replicas - self.in_sync)))
        return f"{self.topic}-{self.partition} lacks broker {behind}"


class ClusterCopies(NamedTuple):
    """Cluster metadata as reported by one broker.

    Attributes:
        brokers: Nodes that are registered and not fenced.
        partitions: Of all topics.
    """

    brokers: frozenset[int]
    partitions: tuple[PartitionCopies, ...]


def ask_copies(port: int, timeout: float) -> ClusterCopies:
    """Asks the broker on a port of 127.0.0.1 for metadata.

    Args:
        port: Where it serves clients.
        timeout: Seconds, for each step.

    Raises:
        Unavailable: it does not answer, or with something else.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(ALL_TOPICS_REQUEST)
            size = struct.unpack(">i", _received(connection, 4))[0]
            if not 0 < size <= DEV_METADATA_BYTES_MAX:
                raise Unavailable(f"the broker on port {port} answers with {size} bytes of metadata")
            return read_copies(_received(connection, size))
    except (OSError, struct.error, UnicodeDecodeError) as error:
        raise Unavailable(f"the broker on port {port} does not say how its cluster is: {error}") from error


def read_copies(answer: bytes) -> ClusterCopies:
    """Reads an answer of version 1 without its length. Raises `struct.error` when it is cut short."""
    reader = _Reader(answer, _CORRELATION_BYTES)
    brokers = frozenset(reader.broker() for _ in range(reader.number("i")))
    reader.number("i")  # the controller, which is any broker under KRaft
    partitions: list[PartitionCopies] = []
    for _ in range(reader.number("i")):
        reader.number("h")
        topic = reader.text()
        reader.number("?")
        partitions += (reader.partition(topic) for _ in range(reader.number("i")))
    return ClusterCopies(brokers, tuple(partitions))


class _Reader:
    """Kafka's primitive types, from a position on."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self, kind: str) -> int:
        """Reads one integer of a `struct` format."""
        form = f">{kind}"
        value = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        """A string; empty for null."""
        size = max(0, self.number("h"))
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def nodes(self) -> frozenset[int]:
        """An array of nodes."""
        return frozenset(self.number("i") for _ in range(self.number("i")))

    def broker(self) -> int:
        """A broker's node; its host, port and rack are passed over."""
        node = self.number("i")
        self.text()
        self.number("i")
        self.text()
        return node

    def partition(self, topic: str) -> PartitionCopies:
        """Reads one partition of a topic."""
        self.number("h")
        number, leader = self.number("i"), self.number("i")
        replicas, in_sync = self.nodes(), self.nodes()
        return PartitionCopies(topic, number, leader, replicas, in_sync)


def _received(connection: socket.socket, size: int) -> bytes:
    """The next bytes, this many. Raises `OSError` when the other side ends before."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the connection ended")
        parts += part
    return bytes(parts)
