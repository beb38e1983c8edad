"""How many streams change over to one cluster at once, when traffic leaves another by itself. Pure.

A stream changes over until its producers let go of what they left, which is their first load on the target; but no
longer than `CHANGE_OVER_SECONDS` here, for a producer that hangs must not hold up other streams.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from braid.kernel.limits.traffic import ARRIVALS_AT_ONCE, CHANGE_OVER_SECONDS
from services.registry.model.channels import Channel, DrainStep
from services.registry.model.streams import Stream
from services.registry.policy.world import World


class Arrivals:
    """The places left on each cluster; counted when somebody asks, which at rest nobody does.

    Attributes:
        held: Whether there was no place for some stream.
    """

    def __init__(self, world: World) -> None:
        self.held = False
        self._world = world
        self._coming: Counter[str] | None = None

    def join(self, clusters: Collection[str]) -> bool:
        """Whether there is a place on each for one more stream; it is taken then."""
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
    """A time to come was written by another host's clock, and says nothing."""
    return 0 <= world.now_ms - channel.state_since_ms < CHANGE_OVER_SECONDS * 1_000
