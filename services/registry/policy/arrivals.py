"""Limits how many streams change over to one cluster at once when traffic leaves another automatically. Pure.

A stream changes over until its producers have left the old channels: their first load on the target falls in this time.
It counts at most for `CHANGE_OVER_SECONDS`, because a producer that hangs must not delay other streams.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from braid.kernel.limits.registry.traffic import ARRIVALS_AT_ONCE, CHANGE_OVER_SECONDS
from services.registry.model.channels import Channel, DrainStep
from services.registry.model.streams import Stream
from services.registry.policy.world import World


class Arrivals:
    """Free slots on each cluster; counted only when somebody asks.

    Attributes:
        held: Whether some stream found no slot.
    """

    def __init__(self, world: World) -> None:
        self.held = False
        self._world = world
        self._coming: Counter[str] | None = None

    def join(self, clusters: Collection[str]) -> bool:
        """Takes a slot on each of the clusters for one more stream, if all have one; returns whether it did."""
        if self._coming is None:
            streams = self._world.streams.values()
            self._coming = Counter(name for each in streams for name in {*_changing_over_to(self._world, each)})
        if any(self._coming[cluster] >= ARRIVALS_AT_ONCE for cluster in clusters):
            self.held = True
            return False
        self._coming.update(clusters)
        return True


def _changing_over_to(world: World, stream: Stream) -> Iterator[str]:
    for channel in stream.channels:
        if channel.drain_step is DrainStep.PRODUCERS and _lately(world, channel):
            yield from (active.cluster for active in stream.active(channel.ref.lane))


def _lately(world: World, channel: Channel) -> bool:
    """Whether a time lies in the change-over period. A future time came from another host's clock, and does not
    count."""
    return 0 <= world.now_ms - channel.state_since_ms < CHANGE_OVER_SECONDS * 1_000
