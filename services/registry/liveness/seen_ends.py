"""How far logs went when they were last looked at, in one term. No I/O.

A producer that dies takes its receipts with it. Whatever it had acknowledged lies below the end of the log that
somebody saw after its death.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.registry.model.channels import ChannelRef

ChannelKey = tuple[str, ChannelRef]  # stream and channel


class SeenEnds(NamedTuple):
    """Where one channel's logs ended when they were looked at.

    Attributes:
        at: The logs were looked at then or later, on `Clock.elapsed`.
        ends: By partition, the highest end that was ever seen.
    """

    at: float
    ends: tuple[int, ...]


@dataclass
class ChannelEnds:
    """By channel. One that nobody looks at any more is forgotten with the next look at its cluster."""

    _by_cluster: dict[str, dict[ChannelKey, SeenEnds]] = field(default_factory=dict)

    def take(
        self, cluster: str, channels: Collection[ChannelKey], found: Mapping[ChannelKey, Sequence[int]], at: float
    ) -> None:
        """A cluster was looked at.

        Args:
            cluster: Its name.
            channels: All that still matter there.
            found: Where the logs end, by partition, of those that could be seen.
            at: When the look began.
        """
        before = self._by_cluster.get(cluster, {})
        seen = {key: before[key] for key in channels if key in before}
        for key, ends in found.items():
            highest = map(max, ends, seen[key].ends) if key in seen else ends
            seen[key] = SeenEnds(at, tuple(highest))
        self._by_cluster[cluster] = seen

    def of(self, cluster: str, stream: str, channel: ChannelRef) -> SeenEnds | None:
        """What was seen of a channel's logs; None when nothing was."""
        return self._by_cluster.get(cluster, {}).get((stream, channel))
