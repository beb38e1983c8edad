"""A cluster is emptied by whole registries on virtual time: told twice, taken back, killed at every step, raced."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import BraidError, FailoverBlocked, NotFound, Refused, TopicSealed
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from services.registry.model.clusters.events import ClusterEmptied
from services.registry.model.stream_commands import PlanChannel
from services.registry.term import Term
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import DRAINED, DRAINING, STANDBY, Mesh, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
TOPIC = "braid.logs.live.1"
EMPTY = cluster_pb2.DECOMMISSION_STATE_EMPTY


def play(scene: Scene, *, session_seconds: float = 30.0) -> None:
    async def run() -> None:
        await scene(Mesh(session_seconds=session_seconds))

    run_virtual(run())


async def ask(mesh: Mesh, **request: object) -> api.DecommissionClusterResponse:
    """Asks for the decommission of east."""
    asked = api.DecommissionClusterRequest(name="east", **request)  # type: ignore[arg-type]
    return await mesh.client.unary("DecommissionCluster", asked, api.DecommissionClusterResponse)


async def east(mesh: Mesh) -> cluster_pb2.ClusterStatus:
    return (await mesh.client.unary("GetCluster", api.GetClusterRequest(name="east"), cluster_pb2.Cluster)).status


async def until_state(mesh: Mesh, state: int, seconds: float) -> cluster_pb2.Decommission:
    deadline = mesh.me.host.clock.elapsed() + seconds
    while (found := (await east(mesh)).decommission).state != state:
        assert mesh.me.host.clock.elapsed() < deadline, f"still {found}"
        await asyncio.sleep(0.05)
    return found


async def delete(mesh: Mesh) -> None:
    await mesh.client.unary("DeleteCluster", api.DeleteClusterRequest(name="east"), cluster_pb2.Cluster)


async def filled(mesh: Mesh, *, registries: int = 1) -> None:
    """Four records on east, and a group that has done three of them."""
    await two_clusters(mesh, registries=registries)
    await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 1, 4)
    await mesh.commit("east", "indexer", TOPIC, 0, 3)
    await mesh.commit("east", "indexer", "braid.logs.dlq.1", 0)


async def all_done(mesh: Mesh) -> None:
    await mesh.commit("east", "indexer", TOPIC, 0, 4)


def test_a_cluster_is_emptied_then_forgotten() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        producer = await open_producer(mesh)
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        answer = await ask(mesh, reason="disks", discard_drained=True)
        assert [(each.stream, {move.to_cluster for move in each.moves}) for each in answer.departures] == [
            ("logs", {"west"})
        ]
        assert answer.cluster.status.cordoned
        await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
        found = (await east(mesh)).decommission
        assert (found.state, found.active_channels) == (cluster_pb2.DECOMMISSION_STATE_DRAINING, 0)
        await asyncio.sleep(5)
        assert list((await mesh.channel("logs/live/1")).drain_holders) == ["p1"]
        await producer.acknowledge(producer.routes[-1].revision)
        await asyncio.sleep(5)
        assert list((await mesh.channel("logs/live/1")).drain_holders) == ["indexer (1 records)"]
        with pytest.raises(TopicSealed):
            await mesh.append("east", TOPIC, 1)
        with pytest.raises(Refused) as refused:
            await delete(mesh)
        assert "logs/live/1 (DRAINING) is still on cluster east" in refused.value.message
        await all_done(mesh)
        found = await until_state(mesh, EMPTY, 10)
        assert (found.streams_left, found.draining_channels, found.drained_channels) == (0, 0, 0)
        topics = await mesh.kafka.cluster("east:9092", "").admin().list_topics()
        assert topics == ["braid.canary.registry", "braid.mesh.registry"]
        await delete(mesh)  # although stream logs names it: that was leave to use it
        with pytest.raises(NotFound):
            await east(mesh)
        await asyncio.sleep(30)
        assert mesh.active(await mesh.stream()) == ["west"]

    play(scene)


def test_drained_topics_are_kept_until_told_to_discard_them() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await all_done(mesh)
        await ask(mesh)
        found = await until_state(mesh, cluster_pb2.DECOMMISSION_STATE_KEEPING, 10)
        assert found.drained_channels == 2 and found.kept_until_ms > mesh.me.host.clock.now_ms()
        await asyncio.sleep(60)
        with pytest.raises(Refused, match="DRAINED"):
            await delete(mesh)
        await ask(mesh, discard_drained=True)
        await until_state(mesh, EMPTY, 10)
        await delete(mesh)

    play(scene)


def test_a_dry_run_changes_nothing_and_tells_what_would_be() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        answer = await ask(mesh, dry_run=True)
        assert answer.cluster.status.decommission.active_channels == 2 and len(answer.departures[0].moves) == 2
        assert answer.departures[0].moves[1].to_channel == "logs/live/2"
        await asyncio.sleep(5)
        status = await east(mesh)
        assert not status.HasField("decommission") and mesh.active(await mesh.stream()) == ["east"]

    play(scene)


def test_taken_back_it_takes_traffic_again_and_what_left_stays() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await ask(mesh)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINING, 5)
        assert await ask(mesh, cancelled=True) == await ask(mesh, cancelled=True)
        status = await east(mesh)
        assert not status.cordoned and not status.HasField("decommission")
        await mesh.until_channel("logs/live/3", lambda found: (found.cluster, found.state) == ("east", STANDBY), 5)
        assert mesh.active(await mesh.stream()) == ["west"]
        with pytest.raises(Refused):
            await delete(mesh)

    play(scene)


COMMANDS = [
    "Decommission",
    "MoveTraffic",
    "RecordRetentionLifted",
    "RecordProducersLeft",
    "RecordSealed",
    "RecordEndOffsets",
    "RecordDrained",
    "IntendRetirement",
    "RecordRetired",
    "RecordEmptied",
]


def kill_at(mesh: Mesh, replica: Replica, command: str, after: bool, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Kills a leader when it is about to append what a command leads to, or when that is appended, unanswered."""
    died = asyncio.Event()
    struck: list[str] = []
    real = replica.aggregates.execute

    def end() -> None:
        if not struck:
            struck.append(command)
            asyncio.get_running_loop().call_soon(mesh.kill, replica.instance)
            asyncio.get_running_loop().call_soon(died.set)

    async def execute(kind: Any, id: str, asked: Any, **context: Any) -> Any:
        strikes = type(asked).__name__ == command
        if strikes and not after:
            end()
            await asyncio.Event().wait()
        if strikes:
            replica.aggregates.subscribe(strike)
        return await real(kind, id, asked, **context)

    def strike(change: Change | Reloaded) -> None:
        end()

    monkeypatch.setattr(replica.aggregates, "execute", execute)
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_leader_may_die_before_and_after_any_step(command: str, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh, registries=2)
        await all_done(mesh)
        died = kill_at(mesh, await mesh.leader(), command, after, monkeypatch)
        with contextlib.suppress(BraidError):  # its answer may die with the leader
            await ask(mesh, discard_drained=True)
        async with asyncio.timeout(20):
            await died.wait()
        leader = await mesh.leader()
        await ask(mesh, discard_drained=True)  # told twice
        await until_state(mesh, EMPTY, 30)
        events = await leader.aggregates.events(next(h for h in leader.aggregates.histories() if h.id == "east"))
        assert [type(each.event).__name__ for each in events].count("DecommissionIntended") == 1
        assert sum(isinstance(each.event, ClusterEmptied) for each in events) == 1
        assert mesh.active(await mesh.stream()) == ["west"]
        await delete(mesh)

    play(scene, session_seconds=3.0)


def test_a_cluster_that_dies_while_emptied_is_emptied_on_return() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await ask(mesh, discard_drained=True)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINING, 5)
        mesh.kafka.named("east").kill()
        found = await until_state(mesh, cluster_pb2.DECOMMISSION_STATE_STRANDED, 10)
        assert sorted(found.stranded) == ["logs/dlq/1", "logs/live/1"]
        await asyncio.sleep(600)
        with pytest.raises(Refused):
            await delete(mesh)
        mesh.kafka.named("east").start()
        await asyncio.sleep(20)
        assert (await mesh.channel("logs/live/1")).state == DRAINING, "a record is not done"
        await all_done(mesh)
        await until_state(mesh, EMPTY, 30)

    play(scene)


def test_with_nowhere_to_go_nothing_moves_until_there_is() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await all_done(mesh)
        mesh.kafka.named("west").kill()
        await asyncio.sleep(5)
        await ask(mesh, discard_drained=True)
        await asyncio.sleep(30)
        found = (await east(mesh)).decommission
        assert found.state == cluster_pb2.DECOMMISSION_STATE_BLOCKED
        assert [each.reason for each in found.blocked] == ["no cluster can take the traffic: west is DOWN"]
        assert mesh.active(await mesh.stream()) == mesh.active(await mesh.stream(), "dlq") == ["east"]
        mesh.kafka.named("west").start()
        await until_state(mesh, EMPTY, 30)

    play(scene)


def test_streams_and_moves_never_land_on_it() -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await mesh.move(to_cluster="west")
        asked, created = await asyncio.gather(ask(mesh), mesh.create_stream("other"))
        assert asked.cluster.status.decommission.state
        await asyncio.sleep(10)
        assert mesh.active(created if mesh.active(created) == ["west"] else await mesh.stream("other")) == ["west"]
        with pytest.raises(Refused, match="being decommissioned"):
            await mesh.move(to_cluster="east")
        with pytest.raises(FailoverBlocked, match="east is being decommissioned"):
            await mesh.create_stream("third", clusters=["east"])
        uncordon = api.CordonClusterRequest(name="east", cordoned=False)
        with pytest.raises(Refused, match="being decommissioned"):
            await mesh.client.unary("CordonCluster", uncordon, cluster_pb2.Cluster)
        spares = await mesh.client.unary("ListChannels", api.ListChannelsRequest(), api.ListChannelsResponse)
        left = [each.state for each in spares.channels if each.cluster == "east"]
        assert set(left) <= {DRAINING, DRAINED}

    play(scene)


@pytest.mark.parametrize("order", [{"to_cluster": "west"}, {"away_from_cluster": "east"}], ids=["to", "away"])
@pytest.mark.parametrize("first", ["move", "decommission"])
def test_a_move_by_hand_at_the_same_time_is_one_move(order: dict[str, str], first: str) -> None:
    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await all_done(mesh)
        before = (await mesh.stream()).status.route_revision
        both = [mesh.move(**order), ask(mesh, discard_drained=True)]
        await asyncio.gather(*(both if first == "move" else both[::-1]))
        await until_state(mesh, EMPTY, 20)
        stream = await mesh.stream()
        assert mesh.active(stream) == mesh.active(stream, "dlq") == ["west"]
        assert stream.status.route_revision == before + 1, "one move, whoever made it"

    play(scene)


def planned_before_it_is_called_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel for it passed its checks before it was closed, and takes long to be recorded."""

    async def scene(mesh: Mesh) -> None:
        await filled(mesh)
        await mesh.move(to_cluster="west")
        await all_done(mesh)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 10)
        leader = await mesh.leader()
        real = leader.aggregates.execute
        events: list[str] = []
        begun = asyncio.Event()

        async def slow(kind: Any, id: str, command: Any, **context: Any) -> Any:
            if isinstance(command, PlanChannel) and command.partitions == 8:
                begun.set()
                await asyncio.sleep(6.0)
            events.append(type(command).__name__)
            return await real(kind, id, command, **context)

        monkeypatch.setattr(leader.aggregates, "execute", slow)
        moving = mesh.me.host.tasks.spawn(_growth(mesh), "move")
        await begun.wait()
        await ask(mesh, discard_drained=True)
        await until_state(mesh, EMPTY, 60)
        await moving.ended()
        await asyncio.sleep(60)
        assert "PlanChannel" not in events[events.index("RecordEmptied") :]
        assert (await east(mesh)).decommission.streams_left == 0
        await delete(mesh)

    play(scene)


def test_a_channel_under_way_keeps_it_from_being_called_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    planned_before_it_is_called_empty(monkeypatch)


class NoLock:
    """A lock that never blocks, as a mutant."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *error: object) -> None: ...


def test_without_the_lock_that_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Term.__init__

    def unlocked(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        self.placing = self.reconciler._placing = NoLock()

    monkeypatch.setattr(Term, "__init__", unlocked)
    with pytest.raises(AssertionError):
        planned_before_it_is_called_empty(monkeypatch)


async def _growth(mesh: Mesh) -> None:
    with contextlib.suppress(BraidError):  # by then it is closed
        await mesh.move(to_cluster="east", lanes=["live"], partitions=8)


def test_its_status_names_only_some_of_many() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east")
        for number in range(25):
            await mesh.create_stream(f"s{number}", lanes=1)
        await ask(mesh)
        found = (await east(mesh)).decommission
        assert (found.blocked_streams, len(found.blocked)) == (25, 20)
        assert found.streams_left == 25 and found.active_channels == 50
        listed = await mesh.client.unary("ListClusters", api.ListClustersRequest(), api.ListClustersResponse)
        assert listed.clusters[0].status.decommission.blocked_streams == 25
        state = stream_pb2.CHANNEL_STATE_ACTIVE
        assert {each.state for each in (await mesh.stream("s0")).status.channels} == {state}

    play(scene)
