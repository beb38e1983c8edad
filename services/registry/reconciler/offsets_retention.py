"""Watches how long clusters keep the offsets of groups without members.

Kafka reads `offsets.retention.minutes` when a broker starts, and refuses to change it later, so Braid can only say that
it is short. Each broker applies its own setting to the groups that it coordinates: the shortest one counts.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.traffic import OFFSETS_RETENTION_LOOK_SECONDS, OFFSETS_RETENTION_MINUTES_MIN
from braid.kernel.ports import KafkaAdmin
from braid.runtime.replica import Replica

_SETTING: Final = "offsets.retention.minutes"
_DEFAULT: Final = "10080"


class OffsetsRetention:
    """The shortest offsets retention of each cluster's brokers, as this term saw it last."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._minutes: dict[str, int] = {}
        self._due: dict[str, float] = {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """Offsets retention in seconds, by cluster; clusters that were not read yet are missing."""
        return {name: minutes * 60.0 for name, minutes in self._minutes.items()}

    async def look(self, name: str, admin: KafkaAdmin, brokers: Sequence[int]) -> None:
        """Reads a cluster's setting if that is due. A broker that does not tell leaves what was known."""
        now = self._replica.host.clock.elapsed()
        if now < self._due.get(name, now):
            return
        try:
            told = [(await admin.describe_broker(broker)).config.get(_SETTING, _DEFAULT) for broker in brokers]
            shortest = min(map(int, told))
        except (BraidError, ValueError):  # not now, no number, or no broker at all
            return
        self._due[name] = now + OFFSETS_RETENTION_LOOK_SECONDS
        if shortest < OFFSETS_RETENTION_MINUTES_MIN and shortest != self._minutes.get(name):
            self._replica.log.warning(
                "brokers forget the progress of groups without members early",
                cluster=name,
                minutes=shortest,
                remedy=f"set {_SETTING} to {OFFSETS_RETENTION_MINUTES_MIN} or more, and restart the brokers",
            )
        self._minutes[name] = shortest

    def forget(self, name: str) -> None:
        """Drops a cluster that was deleted."""
        self._minutes.pop(name, None)
        self._due.pop(name, None)
