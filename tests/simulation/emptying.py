"""What operators do with clusters in a run: they empty one, or share the stream over both; and take it back.

And whether a cluster that is called empty is: nothing of any stream may have a topic there, then and afterwards.
"""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import Message

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import BraidError, FailoverBlocked, NotFound, Refused
from braid.kernel.ports import HistoryId
from tests.simulation.applications import STREAM
from tests.simulation.world import CLUSTERS, World
from tests.support.checkers.checking import Instant
from tests.support.checkers.facts import Fact, Folded

_LATE_SECONDS = 3.0


class Order(NamedTuple):
    """Something asked of the registry, and how it is taken back; None where it is not."""

    text: str
    method: str
    asked: Message
    answer: type
    undone: Message | None


class ClusterOperator:
    """Somebody who empties clusters and shares streams, at random."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    def emptying(self) -> Order:
        """A cluster is to be emptied."""
        name, discard = self._dice.choice(CLUSTERS), self._dice.random() < 0.6
        asked = api.DecommissionClusterRequest(name=name, discard_drained=discard)
        undone = api.DecommissionClusterRequest(name=name, cancelled=True)
        text = f"decommission {name}{' and discard' if discard else ''}"
        return Order(text, "DecommissionCluster", asked, api.DecommissionClusterResponse, undone)

    def sharing(self) -> Order:
        """The stream is to be on both clusters, or a trial is begun, changed or taken back."""
        if self._dice.random() < 0.3:
            shares = [api.ClusterShare(cluster=name, weight=self._dice.choice((1, 3))) for name in CLUSTERS]
            asked = api.MoveStreamRequest(stream=STREAM, spread=shares)
            return Order("spread", "MoveStream", asked, api.MoveStreamResponse, None)
        name, percent = self._dice.choice(CLUSTERS), self._dice.choice((0, 10, 50, 100))
        asked = api.MoveStreamRequest(stream=STREAM, to_cluster=name, percent=percent)
        return Order(f"{percent} % to {name}", "MoveStream", asked, api.MoveStreamResponse, None)

    def resizing(self) -> Order:
        """A lane is to have another number of partitions."""
        name, partitions = self._dice.choice(CLUSTERS), self._dice.choice((1, 2, 4, 6))
        asked = api.MoveStreamRequest(stream=STREAM, lanes=["live"], to_cluster=name, partitions=partitions)
        return Order(f"{partitions} partitions on {name}", "MoveStream", asked, api.MoveStreamResponse, None)

    async def carry_out(self, order: Order, over: asyncio.Event) -> None:
        """Asks once, and takes it back when it is over, insisting; a second time for what arrived late."""
        await self._ask(order, order.asked)
        await over.wait()
        for _ in range(2 if order.undone is not None else 0):
            assert order.undone is not None, "only then"
            while not await self._ask(order, order.undone):
                await self._world.host.clock.sleep(0.5)
            await self._world.host.clock.sleep(_LATE_SECONDS)

    async def _ask(self, order: Order, request: Message) -> bool:
        """Whether there is nothing left to ask for."""
        try:
            await self._world.registry.unary(order.method, request, order.answer)
        except (NotFound, Refused, FailoverBlocked) as error:
            self._world.journal.say(f"OPERATOR is refused: {error}")
        except BraidError as error:
            self._world.journal.say(f"OPERATOR does not know: {error}")
            return False
        return True


class HonestlyEmpty(Instant):
    """While a cluster is called empty, no channel of any stream may have a topic there.

    It reads the states as they are folded, and knows nothing of the service's own idea of empty.
    """

    invariant = "I11 a cluster called empty is empty"
    heeds: Sequence[type] = (Folded,)

    def __init__(self) -> None:
        self._states: dict[HistoryId, tuple[int, bytes]] = {}
        self._empty: set[str] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
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
