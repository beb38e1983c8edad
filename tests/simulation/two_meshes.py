"""A second mesh with a store of its own, on the first one's clusters: it is refused, then takes one over.

The first mesh goes on meanwhile as if nothing had happened. Neither may delete what the other made.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from google.protobuf.message import Message

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import BraidError, Refused
from braid.rpc.directory import Directory
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.registry.service import RegistryService
from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, TakenOver, Topic, TopicCreated, TopicDeleted
from tests.simulation.applications import STREAM
from tests.simulation.world import LANES, TUNING, Running, World
from tests.support.virtual_time import VirtualProcess, VirtualTimeLoop, process_at_work

FIRST: Final = "first"
OTHER: Final = "other"
OTHER_MESH: Final = "000000000000000000000OTHER"
HOME: Final = "south"  # the one cluster that is the second mesh's own
UNDER_WAY_SECONDS: Final = 1.0  # a deletion may be, whose mark was read before the cluster was taken over


class OtherMesh:
    """One registry of another mesh, and its operator."""

    def __init__(self, loop: VirtualTimeLoop, world: World) -> None:
        world.kafka.add_cluster(HOME)
        self._world = world
        self._process = VirtualProcess(loop, OTHER, world.plan.seed)
        world.running[OTHER] = Running(self._process, world.kafka.process())
        self._server = MemoryStoreServer(world.host.clock, OTHER_MESH)
        endpoint = f"{OTHER}:1"
        transport = MemoryTransport(world.network, OTHER)
        service = RegistryService(world.running[OTHER].kafka, TUNING)
        store = MemoryStore(self._process.host, self._server)
        self._replica = Replica(service, self._process.host, store, transport, address=endpoint, instance=OTHER)
        directory = Directory(MemoryTransport(world.network, "other-operator"), world.host, [endpoint])
        self._registry = ServiceClient(directory, "registry", world.host, principal="operator")

    async def run(self, dice: random.Random) -> None:
        """Tries to share the clusters; takes one over; moves about there, empties it, and comes back to it."""
        world, sleep = self._world, self._world.host.clock.sleep
        self._process.tasks.spawn(self._replica.run(), "other mesh")
        await self._until_done(lambda: self._register(HOME), "register its own cluster")
        for name in world.plan.clusters:
            await self._until_done(partial(self._be_refused, name), f"be refused {name}")
        taken = dice.choice(world.plan.clusters)
        await sleep(dice.uniform(0.0, 15.0))
        await self._until_done(lambda: self._register(taken, take_over=world.server.mesh()), f"take over {taken}")
        world.journal.note(TakenOver(taken))
        await self._until_done(lambda: self._create_stream(taken), "create its stream")
        while True:
            await sleep(dice.uniform(2.0, 8.0))
            emptied = api.DecommissionClusterRequest(name=taken, discard_drained=True)
            await self._try("DecommissionCluster", emptied, api.DecommissionClusterResponse)
            await sleep(dice.uniform(2.0, 8.0))
            back = api.DecommissionClusterRequest(name=taken, cancelled=True)
            await self._try("DecommissionCluster", back, api.DecommissionClusterResponse)
            moved = api.MoveStreamRequest(stream=STREAM, to_cluster=taken, reason="other mesh")
            await self._try("MoveStream", moved, api.MoveStreamResponse)

    async def _register(self, name: str, take_over: str = "") -> None:
        spec = cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092", zone=name)
        request = api.CreateClusterRequest(name=name, spec=spec, take_over=take_over)
        await self._registry.unary("CreateCluster", request, cluster_pb2.Cluster)

    async def _be_refused(self, name: str) -> None:
        try:
            await self._register(name)
        except Refused as refused:
            if self._world.server.mesh() not in refused.message:
                self._world.journal.fail("marks", f"{name} is refused without a word of its mesh: {refused}")
            self._world.journal.say(f"OTHER MESH is refused {name}: {refused}")
            return
        self._world.journal.fail("marks", f"{name} carries the mark of a mesh, and another one registered it")

    async def _create_stream(self, cluster: str) -> None:
        lanes = {lane: stream_pb2.LaneSpec(partitions=count) for lane, count in LANES.items()}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=[HOME, cluster], replication_factor=1)
        request = api.CreateStreamRequest(name=STREAM, spec=spec)
        await self._registry.unary("CreateStream", request, stream_pb2.Stream)

    async def _try(self, method: str, request: Message, answer: type[Message]) -> None:
        try:
            await self._registry.unary(method, request, answer)
        except BraidError as error:
            self._world.journal.say(f"OTHER MESH {method}: {error}")

    async def _until_done(self, step: Callable[[], Awaitable[None]], text: str) -> None:
        """Insists: clusters may be dead and leaders not elected yet."""
        while True:
            try:
                await step()
            except BraidError as error:
                self._world.journal.say(f"OTHER MESH cannot {text} yet: {error}")
                await self._world.host.clock.sleep(1.0)
                continue
            return


class OwnTopics(Instant):
    """A topic is deleted only by the mesh that made it, and not by one that its cluster was taken from.

    Who does it is told by the process in which it happens.
    """

    invariant = "I11 two meshes"
    heeds = (TopicCreated, TopicDeleted, TakenOver)

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._makers: dict[Topic, str] = {}
        self._taken_at: dict[str, float] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        here = OTHER if process_at_work() == OTHER else FIRST
        match fact:
            case TopicCreated(topic=topic):
                self._makers[topic] = here
            case TakenOver(cluster=cluster):
                self._taken_at[cluster] = self._now()
            case TopicDeleted(topic=topic):
                if self._makers.get(topic, here) != here:
                    yield f"{topic} of the {self._makers[topic]} mesh was deleted by the {here} one"
                taken_at = self._taken_at.get(topic.cluster, self._now())
                if here == FIRST and self._now() - taken_at > UNDER_WAY_SECONDS:
                    yield f"{topic} was deleted by the mesh that lost {topic.cluster}"
            case _:
                pass
