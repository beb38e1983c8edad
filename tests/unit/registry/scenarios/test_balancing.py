"""The registry evens out load between clusters, on virtual time: its own code, clusters in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import AlreadyExists, BraidError, Invalid, NotFound
from braid.kernel.ports import OffsetAt, TopicPartition
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.model.rebalances import BalanceMode, BalanceRules
from services.registry.model.streams import Stream
from services.registry.term import Tuning
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh

KIB = 1_024
CLUSTERS_NAMED = ("east", "north", "west")
SKEWED = {"s0": 700, "s1": 500, "s2": 400, "s3": 200, "s4": 100}


@dataclass
class Town:
    """Three clusters with everything on the first, and applications that write.

    Attributes:
        kib_per_s: What each stream's application writes a second.
        written: Records that a cluster acknowledged, by stream and topic.
    """

    mesh: Mesh
    kib_per_s: dict[str, int] = field(default_factory=lambda: dict(SKEWED))
    written: dict[tuple[str, str, str], int] = field(default_factory=dict)
    writing: bool = True
    _last: Replica = field(init=False)  # that led

    async def write(self) -> None:
        """Writes to whatever carries each stream's traffic, once a second."""
        while self.writing:
            for name, kib in self.kib_per_s.items():
                for channel in self.state(name).active("live"):
                    await self._append(name, channel.cluster, channel.topic, kib)
            await asyncio.sleep(1.0)

    async def _append(self, stream: str, cluster: str, topic: str, kib: int) -> None:
        admin = self.mesh.kafka.cluster(f"{cluster}:9092", "").admin()
        try:
            await admin.try_append(TopicPartition(topic, 0), b"r" * kib * KIB, 1.0)
        except BraidError:  # sealed since: a producer would send again by its new route
            return
        key = stream, cluster, topic
        self.written[key] = self.written.get(key, 0) + 1

    def leading(self) -> Replica:
        """The registry that leads."""
        for name, replica in self.mesh.replicas.items():
            if name.startswith("registry") and replica.leading():
                self._last = replica
        return self._last

    def state(self, name: str) -> Stream:
        """A stream's state at the leader."""
        return self.leading().aggregates.state(STREAMS, name)

    def places(self) -> dict[str, str]:
        """Where each stream's lane `live` is."""
        return {name: self.state(name).active("live")[0].cluster for name in self.kib_per_s}

    def share(self) -> list[float]:
        """Bytes that each cluster takes, over the mean."""
        places = self.places()
        rates = [sum(kib for name, kib in self.kib_per_s.items() if places[name] == each) for each in CLUSTERS_NAMED]
        return [each * len(rates) / sum(rates) for each in rates]

    async def lost(self) -> int:
        """Acknowledged records that no log holds."""
        missing = 0
        for (_, cluster, topic), count in [*self.written.items()]:
            partition = TopicPartition(topic, 0)
            admin = self.mesh.kafka.cluster(f"{cluster}:9092", "").admin()
            ends = await admin.offsets_at({partition: OffsetAt.LATEST})
            missing += max(0, count - ends[partition])
        return missing


Scene = Callable[[Town], Coroutine[object, object, None]]


def play(scene: Scene, rules: BalanceRules, registries: Sequence[str] = ("registry-0",)) -> None:
    async def run() -> None:
        mesh = Mesh()
        mesh.tuning = Tuning(30.0, 0.25, 0.75, rules)
        for name in registries:
            await mesh.start_registry(name)
        await mesh.start_assigner()
        for name in CLUSTERS_NAMED:
            await mesh.create_cluster(name)
        town = Town(mesh)
        for name in SKEWED:
            await mesh.create_stream(name, lanes=2, clusters=["east"])
            await _open(mesh, name)
        mesh.me.host.tasks.spawn(town.write(), "applications")
        await scene(town)
        town.writing = False

    run_virtual(run())


async def _open(mesh: Mesh, name: str) -> None:
    """Lets a stream be anywhere."""
    spec = (await mesh.stream(name)).spec
    del spec.clusters[:]
    await mesh.client.unary("UpdateStream", api.UpdateStreamRequest(name=name, spec=spec), stream_pb2.Stream)


async def until(town: Town, condition: Callable[[], bool], seconds: float) -> float:
    """Waits for a condition; returns the seconds that it took."""
    clock = town.mesh.me.host.clock
    began = clock.elapsed()
    while not condition():
        assert clock.elapsed() - began < seconds, (town.places(), town.share())
        await asyncio.sleep(1.0)
    return clock.elapsed() - began


def moved(town: Town) -> list[str]:
    """Streams that the registry moved to even out load."""
    return [name for name in town.kib_per_s for _ in town.state(name).rebalances]


def even(town: Town) -> bool:
    """Whether every cluster is within the band."""
    return max(town.share()) <= 1.2


AUTOMATIC = BalanceRules(BalanceMode.AUTOMATIC)


def test_a_hot_cluster_is_within_its_band_in_a_minute() -> None:
    async def scene(town: Town) -> None:
        took = await until(town, lambda: even(town), 60.0)
        assert took <= 60.0
        assert len(moved(town)) <= 3, "two are needed"
        assert await town.lost() == 0
        before = town.places()
        await asyncio.sleep(120.0)
        assert town.places() == before, "a load that stands still moves nothing more"

    play(scene, AUTOMATIC)


def test_a_leader_that_dies_in_the_middle_leaves_it_to_the_next() -> None:
    async def scene(town: Town) -> None:
        await until(town, lambda: bool(moved(town)), 60.0)
        town.mesh.kill(town.leading().instance)
        await town.mesh.leader()
        await until(town, lambda: even(town), 120.0)
        assert len(moved(town)) <= 3
        assert await town.lost() == 0

    play(scene, AUTOMATIC, ("registry-0", "registry-1"))


def test_proposals_are_recorded_once_and_seen() -> None:
    async def scene(town: Town) -> None:
        before = town.places()
        await asyncio.sleep(60.0)
        assert town.places() == before
        proposed = [name for name in SKEWED if town.state(name).rebalance is not None]
        assert len(proposed) == 2
        told = (await town.mesh.stream(proposed[0])).status.blocked_reason
        assert f"braid move stream {proposed[0]} --to" in told
        changes = {name: town.state(name).changes for name in SKEWED}
        await asyncio.sleep(60.0)
        assert {name: town.state(name).changes for name in SKEWED} == changes

    play(scene, BalanceRules(BalanceMode.PROPOSE))


def test_a_budget_of_no_moves_is_told_once() -> None:
    async def scene(town: Town) -> None:
        await asyncio.sleep(60.0)
        east = town.leading().aggregates.state(CLUSTERS, "east")
        assert east.balance_blocked == "the budget allows no moves"
        await asyncio.sleep(60.0)
        assert town.leading().aggregates.state(CLUSTERS, "east").changes == east.changes
        assert not moved(town)

    play(scene, BalanceRules(BalanceMode.AUTOMATIC, moves_at_once=0))


def test_a_preview_says_what_would_move_and_moves_nothing() -> None:
    async def scene(town: Town) -> None:
        await asyncio.sleep(60.0)
        before = town.places()
        found = await _preview(town)
        assert (found.mode, found.balanced, found.move_count) == ("off", True, 2)
        assert {each.name for each in found.clusters} == {*CLUSTERS_NAMED}
        assert max(each.load_then for each in found.clusters) <= 1.0 < max(each.load_now for each in found.clusters)
        gone = await _preview(town, without=["north"], new_clusters=["south"])
        assert {each.to_cluster for each in gone.moves} <= {"west", "south"}
        assert town.places() == before
        for wrong, error in (
            ({"without": ["nowhere"]}, NotFound),
            ({"new_clusters": ["west"]}, AlreadyExists),
            ({"without": ["east", "east"]}, Invalid),
            ({"new_clusters": [f"c{number}" for number in range(65)]}, Invalid),
        ):
            with pytest.raises(error):
                await _preview(town, **wrong)

    play(scene, BalanceRules())


async def _preview(town: Town, **request: object) -> api.PreviewClustersResponse:
    message = api.PreviewClustersRequest(**request)  # type: ignore[arg-type]
    return await town.mesh.client.unary("PreviewClusters", message, api.PreviewClustersResponse)
