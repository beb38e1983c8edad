"""Ports for real processes that bind them later."""

import secrets
from typing import Final

from devmesh.processes.ports import is_free

# Below what systems give to outgoing connections (from 32768 on Linux), above what a local mesh wants. A port that a
# connection takes between the choice and the bind would fail whoever wanted it.
_FIRST: Final = 21_000
_LAST: Final = 32_000


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free, and that no outgoing connection takes."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that are free, and that no outgoing connection takes; in no order."""
    chosen: set[int] = set()
    while len(chosen) < count:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if is_free(port):
            chosen.add(port)
    return list(chosen)
