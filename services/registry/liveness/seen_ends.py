"""Log ends as they were last read in one term. No I/O.

When a producer dies, its receipts are lost. Its acknowledged records lie below any log end that was read after its
death.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.registry.model.channels import ChannelRef

ChannelKey = tuple[str, ChannelRef]  # stream and channel


class SeenEnds(NamedTuple):
    """The log ends of one channel, as they were read.

    Attributes:
        at: The time of the reading, or earlier, on `Clock.elapsed`.
        ends: By partition, the highest end ever read.
    """

    at: float
    ends: tuple[int, ...]


@dataclass
class ChannelEnds:
    """Log ends by channel, for one term. A channel that no longer matters is forgotten with the next reading of its
    cluster."""

    _by_cluster: dict[str, dict[ChannelKey, SeenEnds]] = field(default_factory=dict)

    def take(
        self, cluster: str, channels: Collection[ChannelKey], found: Mapping[ChannelKey, Sequence[int]], at: float
    ) -> None:
        """Takes a reading of one cluster.

        Args:
            cluster: Its name.
            channels: All channels that still matter there.
            found: End offsets by partition, of those that could be read.
            at: When the reading began.
        """
        before = self._by_cluster.get(cluster, {})
        seen = {key: before[key] for key in channels if key in before}
        for key, ends in found.items():
            highest = map(max, ends, seen[key].ends) if key in seen else ends
            seen[key] = SeenEnds(at, tuple(highest))
        self._by_cluster[cluster] = seen

    def of(self, cluster: str, stream: str, channel: ChannelRef) -> SeenEnds | None:
        """The ends read of a channel's logs; None if none were."""
        return self._by_cluster.get(cluster, {}).get((stream, channel))
