"""Operators' actions on clusters in a run: they empty one, or share the stream over both; and undo it.

And whether a cluster that is called empty is: nothing of any stream may have a topic there, then and afterwards.
"""

import json
import random
from collections.abc import Iterator, Sequence

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.ports import HistoryId
from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, Folded, StoreRestored
from tests.simulation.applications import STREAM
from tests.simulation.operations import Operation
from tests.simulation.world import World


class ClusterOperator:
    """Somebody who empties clusters and shares streams, at random."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    def emptying(self, *, discards: bool = True) -> Operation:
        """A cluster is to be emptied; where it `discards`, often without keeping what is drained there."""
        name, discard = self._dice.choice(self._world.plan.clusters), discards and self._dice.random() < 0.6
        asked = api.DecommissionClusterRequest(name=name, discard_drained=discard)
        undone = api.DecommissionClusterRequest(name=name, cancelled=True)
        text = f"decommission {name}{' and discard' if discard else ''}"
        return Operation(text, "DecommissionCluster", asked, undone, api.DecommissionClusterResponse)

    def sharing(self) -> Operation:
        """The stream is to be on both clusters, or a trial is begun, changed or taken back."""
        if self._dice.random() < 0.3:
            shares = [
                api.ClusterShare(cluster=name, weight=self._dice.choice((1, 3))) for name in self._world.plan.clusters
            ]
            asked = api.MoveStreamRequest(stream=STREAM, spread=shares)
            return Operation("spread", "MoveStream", asked, None, api.MoveStreamResponse)
        name, percent = self._dice.choice(self._world.plan.clusters), self._dice.choice((0, 10, 50, 100))
        asked = api.MoveStreamRequest(stream=STREAM, to_cluster=name, percent=percent)
        return Operation(f"{percent} % to {name}", "MoveStream", asked, None, api.MoveStreamResponse)

    def resizing(self) -> Operation:
        """A lane is to have another number of partitions."""
        name, partitions = self._dice.choice(self._world.plan.clusters), self._dice.choice((1, 2, 4, 6))
        asked = api.MoveStreamRequest(stream=STREAM, lanes=["live"], to_cluster=name, partitions=partitions)
        return Operation(f"{partitions} partitions on {name}", "MoveStream", asked, None, api.MoveStreamResponse)


class HonestlyEmpty(Instant):
    """While a cluster is called empty, no channel of any stream may have a topic there.

    It reads the states as they are folded, and knows nothing of the service's own idea of empty.
    """

    invariant = "I11 a cluster called empty is empty"
    heeds: Sequence[type] = (Folded, StoreRestored)

    def __init__(self) -> None:
        self._states: dict[HistoryId, tuple[int, bytes]] = {}
        self._empty: set[str] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, StoreRestored):
            self._states.clear()
            self._empty.clear()
        if not isinstance(fact, Folded) or fact.history.service != "registry":
            return
        if fact.sequence <= self._states.get(fact.history, (0, b""))[0]:
            return
        self._states[fact.history] = fact.sequence, fact.state
        if fact.history.kind == "cluster":
            emptied = b'"emptied":true' in fact.state
            (self._empty.add if emptied else self._empty.discard)(fact.history.id)
        if self._empty:
            yield from self._left()

    def _left(self) -> Iterator[str]:
        for history, (_, state) in self._states.items():
            for channel in json.loads(state)["channels"] if history.kind == "stream" else ():
                if channel["cluster"] in self._empty and channel["state"] != "RETIRED":
                    ref = "/".join(str(each) for each in channel["ref"])
                    yield f"{channel['cluster']} is called empty, and {history.id}/{ref} is {channel['state']} there"
