"""Bytes that this process got over its open TCP connections, by broker, as the kernel counts them."""

import os
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeVar

import psutil

B = TypeVar("B")

_BYTES_RECEIVED: Final = 128  # where `struct tcp_info` of Linux has `tcpi_bytes_received`, 8 bytes


def received(ports: Mapping[int, B]) -> Counter[B]:
    """Counts the bytes that open connections of this process got so far.

    Args:
        ports: Brokers by the port on which they listen.
    """
    found: Counter[B] = Counter()
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status != psutil.CONN_ESTABLISHED:  # others may have no far end
            continue
        if (broker := ports.get(connection.raddr.port)) is not None:
            with socket.socket(fileno=os.dup(connection.fd)) as end:
                told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            found[broker] += struct.unpack_from("@Q", told, _BYTES_RECEIVED)[0]
    return found
