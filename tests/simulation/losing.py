"""Clusters return without what they had acknowledged, and somebody gives up exactly what is told as lost.

Receipts are known as long as their producers live; so nothing may befall producers in a run with such losses.
"""

import random
from collections.abc import Callable
from typing import Final

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import BraidError
from testbed.checkers.letters import DLQ_LANE, lane_of
from tests.simulation.applications import STREAM
from tests.simulation.observed import ObservedCluster
from tests.simulation.world import World

ASK_SECONDS: Final = 1.0


class Losing:
    """Takes disks away from dead clusters, at random; and closes the channels that lost something."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice
        self._closing = False

    def victim(self) -> ObservedCluster | None:
        """A cluster that may lose something: the stream must have somewhere to go meanwhile."""
        cluster = self._world.kafka.observed[self._dice.choice(self._world.plan.clusters)]
        well = all(each.running and not each.paused for each in self._world.kafka.observed.values())
        return cluster if well else None

    def loss(self, cluster: ObservedCluster) -> tuple[str, Callable[[], None]]:
        """Chooses what a dead cluster loses; returns its description and a function that causes it."""
        self._watch()
        kind = self._dice.choice(self._world.plan.losses)
        if kind != "cuts":
            return f"{kind} {cluster.name}", lambda: cluster.empty(replaced=kind == "replaces")
        part = self._dice.random()
        return f"cuts logs of {cluster.name} to {part:.2f}", lambda: self._cut(cluster, lambda end: int(part * end))

    def tails(self, cluster: ObservedCluster) -> tuple[str, Callable[[], None]]:
        """The newest records, as of a machine whose memory was not written to its disk yet."""
        self._watch()
        count = self._dice.choice((1, 3, 10, 40))
        text = f"loses up to {count} of each log's newest of {cluster.name}"
        return text, lambda: self._cut(cluster, lambda end: max(0, end - self._dice.randint(1, count)))

    def reassign(self, cluster: ObservedCluster) -> str:
        """About every other log there gets a new leader epoch, of the same leader or of another one."""
        grown = [place for place in cluster.places() if self._dice.random() < 0.5]
        elected = [place for place in grown if self._dice.random() < 0.4]
        for place in grown:
            (cluster.elect if place in elected else cluster.grow_epoch)(place)
        return f"{len(grown)} leader epochs grow on {cluster.name}, {len(elected)} of them elsewhere"

    def _watch(self) -> None:
        if not self._closing:
            self._closing = True
            self._world.host.tasks.spawn(self._close(), "closing")

    def _cut(self, cluster: ObservedCluster, new_end: Callable[[int], int]) -> None:
        """About every other log there loses its end. One that carries traffic is written on at once.

        Where dead letters are replayed theirs stay: replays are held to what was acknowledged to the dlq lane.
        """
        kept = DLQ_LANE if self._world.plan.replays else ""
        for place in cluster.places():
            if self._dice.random() < 0.5 and lane_of(place.topic) != kept:
                cluster.truncate(place, new_end(cluster.log(place).end))

    async def _close(self) -> None:
        """Looks again and again; what is refused, or not known, is asked for the next time."""
        registry = self._world.registry
        while True:
            await self._world.host.clock.sleep(ASK_SECONDS)
            try:
                found = await registry.unary("GetStream", api.GetStreamRequest(name=STREAM), stream_pb2.Stream)
                for channel in found.status.channels:
                    if channel.lost and channel.state == stream_pb2.CHANNEL_STATE_DRAINING:
                        await self._give_up(channel)
            except BraidError as error:
                self._world.journal.say(f"CLOSING waits: {error}")

    async def _give_up(self, channel: stream_pb2.Channel) -> None:
        """Closes a channel whose groups have done all that is left of it."""
        asked = api.CloseChannelRequest(channel=channel.name, dry_run=True)
        would = await self._world.registry.unary("CloseChannel", asked, api.CloseChannelResponse)
        if list(would.given_up) == list(channel.lost):
            request = api.CloseChannelRequest(channel=channel.name, accept_loss=channel.lost, reason="its disk is gone")
            await self._world.registry.unary("CloseChannel", request, api.CloseChannelResponse)
            self._world.journal.say(f"CLOSED {channel.name}")
