"""Addresses that refused a client's credentials a moment ago, so that nobody tries them again at once.

Brokers log each failed login, delay its answer, and hash the password for it. All clients of one cluster in a process
share what one of them was told.
"""

import asyncio

from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS, KAFKA_REFUSALS_MAX

_Address = tuple[str, int]


class Refusals:
    """Refusals of one set of credentials by one cluster's brokers, for `KAFKA_DENIED_SECONDS`."""

    def __init__(self) -> None:
        self._refused: dict[_Address, tuple[float, ClusterAccessDenied]] = {}

    def standing(self, address: _Address) -> ClusterAccessDenied | None:
        """A refusal that is too young to try again."""
        found = self._refused.get(address)
        if found is None:
            return None
        until, denied = found
        if asyncio.get_running_loop().time() < until:
            return ClusterAccessDenied(denied.message, remedy=denied.remedy, metadata=denied.metadata)
        del self._refused[address]
        return None

    def note(self, address: _Address, denied: ClusterAccessDenied) -> None:
        """A broker refused the credentials. Anything else that it refuses needs no new connection."""
        if denied.metadata.get("access") != "authentication":
            return
        if len(self._refused) >= KAFKA_REFUSALS_MAX and address not in self._refused:
            self._refused.clear()
        self._refused[address] = asyncio.get_running_loop().time() + KAFKA_DENIED_SECONDS, denied
