"""A cluster with many streams dies: all their traffic moves before anything else is done about it."""

import asyncio
from collections.abc import Collection
from math import inf
from typing import Final

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.runtime.histories.kinds import Change, Reloaded
from services.registry.histories import STREAMS
from services.registry.model.clusters.events import ClusterHealthChanged
from services.registry.model.clusters.health import Health
from services.registry.model.stream_events import ChannelStranded, TrafficMoved
from services.registry.policy import arrivals, plan
from services.registry.policy.arrivals import Arrivals
from services.registry.policy.plan import Moves
from services.registry.policy.world import World
from services.registry.reconciler import loop
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, two_clusters

COUNT: Final = 9
AT_ONCE: Final = 4  # so that there are three rounds


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (plan, loop):
        monkeypatch.setattr(module, "MOVES_PER_ROUND_MAX", AT_ONCE)


async def others_before_the_last_move(*kinds: type) -> int:
    """How many steps of failed streams (of these kinds) were recorded while traffic of others still had to move."""
    mesh = Mesh()
    await two_clusters(mesh)
    names = ["logs", *(f"logs-{number}" for number in range(COUNT - 1))]
    for name in names[1:]:
        await mesh.create_stream(name, clusters=["east", "west"])
    await mesh.until_channel(f"{names[-1]}/live/2", lambda channel: channel.topic_id != b"", 5)
    replica = await mesh.leader()
    found: list[object] = []

    def note(change: Change | Reloaded) -> None:
        if isinstance(change, Change) and change.history.kind == STREAMS.name:
            found.extend(record.event for record in change.events)

    replica.aggregates.subscribe(note)
    mesh.kafka.named("east").kill()

    def moves() -> list[int]:
        return [at for at, event in enumerate(found) if isinstance(event, TrafficMoved)]

    await mesh.until(lambda: len(moves()) == COUNT, 10, "traffic stays on east")
    first, last = moves()[0], moves()[-1]
    others = [event for event in found[first:last] if not isinstance(event, TrafficMoved)]
    return len([event for event in others if isinstance(event, kinds)] if kinds else others)


def test_traffic_moves_in_rounds_before_anything_else() -> None:
    assert run_virtual(others_before_the_last_move()) == 0


def test_a_registry_that_moves_when_its_turn_comes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_first(world: World) -> Moves:
        return Moves()

    monkeypatch.setattr(loop, "plan_moves", nothing_first)
    assert run_virtual(others_before_the_last_move()) > 0


def test_while_traffic_is_held_nothing_else_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "ARRIVALS_AT_ONCE", 2)
    assert run_virtual(others_before_the_last_move(ChannelStranded)) == 0
    monkeypatch.setattr(Arrivals, "join", _tells_nobody)
    assert run_virtual(others_before_the_last_move(ChannelStranded)) > 0


_join: Final = Arrivals.join


def _tells_nobody(self: Arrivals, clusters: Collection[str]) -> bool:
    joined = _join(self, clusters)
    self.held = False
    return joined


APPEND_SECONDS: Final = 0.05
MANY: Final = 40


async def wait_behind_others() -> float:
    """Seconds from a cluster's death as the registry tells it to the move, while spares of many streams are planned."""
    mesh = Mesh()
    await two_clusters(mesh)
    for name in ("north", "south"):
        await mesh.create_cluster(name)
    for number in range(MANY):
        await mesh.create_stream(f"logs-{number}", clusters=["west", "north", "south"])
    await mesh.until_channel("logs/live/2", lambda channel: channel.topic_id != b"", 5)
    replica = await mesh.leader()
    clock = replica.host.clock
    told: dict[str, float] = {}

    def note(change: Change | Reloaded) -> None:
        for record in change.events if isinstance(change, Change) else ():
            moved = isinstance(record.event, TrafficMoved) and not record.event.planned
            down = isinstance(record.event, ClusterHealthChanged) and record.event.health is Health.DOWN
            if moved or down:
                told.setdefault("moved" if moved else "down", clock.elapsed())

    replica.aggregates.subscribe(note)
    mesh.kafka.named("east").kill()
    await asyncio.sleep(1.2)  # not long before it is called down
    mesh.slow_appends(APPEND_SECONDS)
    await mesh.client.unary("CordonCluster", api.CordonClusterRequest(name="north", cordoned=True), cluster_pb2.Cluster)
    await mesh.until(lambda: "moved" in told, 30, "traffic stays on east")
    return told["moved"] - told["down"]


def test_traffic_waits_for_no_pile_of_other_decisions() -> None:
    assert run_virtual(wait_behind_others()) < 1.0


def test_a_registry_that_decides_everything_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "DECIDE_SECONDS", inf)
    assert run_virtual(wait_behind_others()) > 2.0
