"""Bytes of records that this process exchanges with clusters, by direction and zone: what crosses zones costs money.

Counted where records are acknowledged or fetched, read when somebody asks: `braid.zone_bytes`, or a reader of
OpenTelemetry's metrics where the process has one. Like those, the counts are the process's, whichever mesh they are of.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from opentelemetry import metrics

from braid.kernel.limits.client import ZONE_TALLIES_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.kernel.zones import same_zone

SENT: Final = "sent"
FETCHED: Final = "fetched"
OTHERS: Final = "(others)"
ZONE_IO: Final = MetricDeclaration(
    "braid.client.zone.io",
    "counter",
    "By",
    ("braid.direction", "braid.cluster", "braid.cluster.zone", "braid.client.zone", "braid.cross_zone"),
    "Bytes of records sent to and fetched from clusters; braid.cross_zone tells those that crossed zones",
)


class ZoneBytes(NamedTuple):
    """Bytes exchanged in one direction between this process and a cluster.

    Attributes:
        direction: `sent` (and acknowledged) or `fetched`.
        cluster: Its name; `(others)` beyond `ZONE_TALLIES_MAX`.
        cluster_zone: Where it is declared to stand; empty when it is not.
        client_zone: Where this process said it runs (`braid.connect(zone=…)`); empty when it did not.
        bytes: Keys and values, and headers of what was sent, uncompressed.
    """

    direction: str
    cluster: str
    cluster_zone: str
    client_zone: str
    bytes: int

    @property
    def cross_zone(self) -> bool:
        """Whether they crossed from one zone to another, as far as both are known."""
        known = self.cluster_zone and self.client_zone
        return bool(known) and not same_zone(self.cluster_zone, self.client_zone)


class Tally:
    """A count that only grows."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


_Key = tuple[str, str, str, str]
_tallies: Final[dict[_Key, Tally]] = {}


def tally(direction: str, cluster: str, cluster_zone: str, client_zone: str) -> Tally:
    """Returns the counter for one direction between this process and a cluster; the same for the same names."""
    key = (direction, cluster, cluster_zone, client_zone)
    if key not in _tallies and len(_tallies) >= ZONE_TALLIES_MAX:
        key = (direction, OTHERS, "", "")
    return _tallies.setdefault(key, Tally())


def zone_bytes() -> list[ZoneBytes]:
    """Returns the bytes that this process has sent to and fetched from clusters, by direction, cluster and zones."""
    counted = list(_tallies.items())  # at once: readers of metrics have threads of their own
    return [ZoneBytes(*key, each.bytes) for key, each in sorted(counted, key=lambda item: item[0])]


def _observed(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
    for each in zone_bytes():
        attributes: dict[str, str | bool] = {
            "braid.direction": each.direction,
            "braid.cluster": each.cluster,
            "braid.cluster.zone": each.cluster_zone,
            "braid.client.zone": each.client_zone,
            "braid.cross_zone": each.cross_zone,
        }
        yield metrics.Observation(each.bytes, attributes)


metrics.get_meter("braid").create_observable_counter(
    ZONE_IO.name, callbacks=[_observed], unit=ZONE_IO.unit, description=ZONE_IO.meaning
)
