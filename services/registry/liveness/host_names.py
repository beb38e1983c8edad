"""Which host each connection is on: the first one it names. No I/O.

A host is one witness of a cluster's health. A client may open any number of streams over one connection, each with
another name; they are one witness all the same. The name is kept a while after the connection's last stream, for as
long as what was said under it counts.
"""

from collections import deque
from dataclasses import dataclass

from braid.kernel.limits.health import COMPLAINT_PAUSE_SECONDS


@dataclass(slots=True)
class _Named:
    """What is known of one connection.

    Attributes:
        host: The first name it gave.
        streams: How many of its streams are open.
        left_at: When the last one that ended did.
    """

    host: str
    streams: int = 0
    left_at: float = 0.0


class HostNames:
    """Host names by connection, as transports tell connections apart; all with an open stream, and some after."""

    def __init__(self) -> None:
        self._named: dict[str, _Named] = {}
        self._left: deque[tuple[float, str]] = deque()

    def __len__(self) -> int:
        """How many connections are known."""
        return len(self._named)

    def enter(self, connection: str, host: str, now: float) -> str:
        """A stream over a connection begins, and names a host. Returns the host that it counts for."""
        self._forget(now)
        named = self._named.setdefault(connection, _Named(host))
        named.streams += 1
        return named.host

    def leave(self, connection: str, now: float) -> None:
        """A stream that entered ends."""
        named = self._named[connection]
        named.streams -= 1
        named.left_at = now
        self._left.append((now, connection))

    def _forget(self, now: float) -> None:
        while self._left and now - self._left[0][0] > COMPLAINT_PAUSE_SECONDS:
            at, connection = self._left.popleft()
            named = self._named.get(connection)
            if named is not None and not named.streams and named.left_at == at:
                del self._named[connection]
