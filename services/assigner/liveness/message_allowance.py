"""How many messages a peer may send: a burst, and then a number a second. Pure.

The token bucket of every traffic policer: what was not used gathers, up to what may come at once. A pause of either
side, or of the network between, sends a burst that is nobody's fault; a flood goes on.
"""

from typing import Final

from braid.kernel.errors import Exhausted
from braid.kernel.limits.assigner.leases import HEARTBEAT_MESSAGES_AT_ONCE, HEARTBEAT_MESSAGES_PER_SECOND

_REMEDY: Final = "send one for each heartbeat time that the welcome named"


class Allowance:
    """The message allowance of one stream."""

    def __init__(
        self,
        now: float,
        at_once: float = HEARTBEAT_MESSAGES_AT_ONCE,
        per_second: float = HEARTBEAT_MESSAGES_PER_SECOND,
    ) -> None:
        """Full at `now`, in seconds on `Clock.elapsed`."""
        self._at = now
        self._left = self._at_once = at_once
        self._per_second = per_second

    def take(self, now: float) -> None:
        """Counts one message. Raises `Exhausted` when it is one too many."""
        self._left = min(self._at_once, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            lasting = f"lastingly more than {self._per_second:g} messages with heartbeats a second"
            raise Exhausted(lasting, field="heartbeat", remedy=_REMEDY)
        self._left -= 1
