"""Streams that applications keep open to the scripted control plane: what they said, and a way to answer them."""

from collections import Counter
from dataclasses import dataclass, field

from braid.api.assigner.v1 import join_pb2
from braid.api.registry.v1 import route_pb2, witness_pb2
from braid.kernel.ports import DuplexServing
from tests.support.virtual_waits import until


@dataclass
class Joined:
    """A member's stream: what it said, and a way to tell it something."""

    member: str
    hello: join_pb2.MemberHello
    call: DuplexServing
    deltas: int = 0
    heartbeats: int = 0
    busy_micros: Counter[str] = field(default_factory=Counter)  # by lease
    acknowledged: int = 0
    left: bool = False
    splits: list[join_pb2.SplitLeases] = field(default_factory=list)
    found: list[join_pb2.RestoreFindings] = field(default_factory=list)


@dataclass
class Witness:
    """A process of consumers: what it said of clusters, and a way to ask it."""

    hello: witness_pb2.WitnessHello
    call: DuplexServing
    read: list[list[str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    answers: list[route_pb2.ReachAnswer] = field(default_factory=list)
    ended: bool = False

    async def ask(self, cluster: str) -> int:
        """Asks when a cluster answered last; milliseconds, or -1."""
        before, question = len(self.answers), route_pb2.ReachQuestion(cluster=cluster)
        await self.call.send(witness_pb2.WatchClustersResponse(reach=question))
        await until(lambda: len(self.answers) > before, 1.0)
        return self.answers[-1].acknowledged_ms_ago
