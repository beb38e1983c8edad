"""Kafka's Metadata answers, read without a Kafka client."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from braid.kernel.errors import Unavailable
from devmesh.processes.replication import ALL_TOPICS_REQUEST, ClusterCopies, PartitionCopies, ask_copies, read_copies


def text(value: str) -> bytes:
    """A string on the wire."""
    return struct.pack(">h", len(value)) + value.encode()


def nodes(*numbers: int) -> bytes:
    """An array of nodes."""
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def broker(node: int, rack: str | None) -> bytes:
    """A broker."""
    return (
        struct.pack(">i", node)
        + text("127.0.0.1")
        + struct.pack(">i", 9092)
        + (b"\xff\xff" if rack is None else text(rack))
    )


def partition(number: int, leader: int, replicas: bytes, in_sync: bytes) -> bytes:
    """A partition."""
    return struct.pack(">hii", 0, number, leader) + replicas + in_sync


def answer(*partitions: bytes) -> bytes:
    """The answer of two brokers about one topic."""
    head = struct.pack(">ii", 1, 2) + broker(1, "a") + broker(2, None) + struct.pack(">i", 2)
    topic = struct.pack(">ih", 1, 0) + text("logs") + b"\x00" + struct.pack(">i", len(partitions))
    return head + topic + b"".join(partitions)


def test_the_request_is_as_long_as_it_says() -> None:
    assert struct.unpack_from(">i", ALL_TOPICS_REQUEST)[0] == len(ALL_TOPICS_REQUEST) - 4


def test_an_answer_says_who_lacks_what() -> None:
    found = read_copies(
        answer(
            partition(0, 1, nodes(1, 2), nodes(2, 1)),
            partition(1, 2, nodes(1, 2), nodes(2)),
            partition(2, -1, nodes(1), nodes(1)),
        )
    )
    assert found.brokers == {1, 2}
    whole, behind, leaderless = found.partitions
    assert whole == PartitionCopies("logs", 0, 1, frozenset({1, 2}), frozenset({1, 2}))
    assert [each.whole for each in found.partitions] == [True, False, False]
    assert (str(behind), str(leaderless)) == ("logs-1 lacks broker 1", "logs-2 has no leader")


def test_an_answer_cut_short_is_none() -> None:
    whole = answer(partition(0, 1, nodes(1, 2), nodes(2, 1)))
    for end in range(len(whole)):
        with pytest.raises((struct.error, UnicodeDecodeError)):
            read_copies(whole[:end])


@contextmanager
def listening(*parts: bytes) -> Iterator[int]:
    """A broker that answers one question with these parts and ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1024) == ALL_TOPICS_REQUEST
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_an_answer_in_parts_is_read_whole() -> None:
    body = answer(partition(0, 1, nodes(1, 2), nodes(2, 1)))
    with listening(struct.pack(">i", len(body)), body[:20], body[20:]) as port:
        assert ask_copies(port, 10.0) == ClusterCopies(*read_copies(body))


@pytest.mark.parametrize("said", [b"", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x09short"])
def test_nonsense_is_no_answer(said: bytes) -> None:
    with listening(said) as port, pytest.raises(Unavailable, match=f"the broker on port {port}"):
        ask_copies(port, 10.0)
