"""A group that is fenced no more keeps its progress: through whole assigners, killed at every step, clusters away."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kafka.memory.groups import Groups
from braid.kernel.errors import Fenced, Refused
from braid.kernel.ports import Committed, TopicPartition
from services.assigner.domain import unfencing
from services.assigner.model import generations
from services.assigner.model.commands import (
    EndMembership,
    RecordAside,
)
from services.assigner.model.events import (
    MembershipEnded,
    ProgressSetAside,
)
from services.assigner.model.group import ClusterFence, Fencing, Group, GroupSpec
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

EAST: Final = "logs/live/1"
WEST: Final = "logs/bulk/1"
DONE: Final = Committed(9, "envelope")
SPEC: Final = GroupSpec(("logs",))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def places(topic: str = "braid.logs.live.1") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(4)]


async def fenced(assigners: int = 1, *clusters: str) -> Mesh:
    """A fenced group with progress on its clusters, and no members any more."""
    mesh = await Mesh().start(assigners)
    if "west" in clusters:
        mesh.channel(WEST, cluster="west")
    only = Participant(mesh, "web-1", fenced=True)
    await mesh.settled(1)
    for cluster, topic in (("east", "braid.logs.live.1"), ("west", "braid.logs.bulk.1")):
        if cluster in only.lent_generations:
            offsets = mesh.kafka.cluster(f"{cluster}:9092", "").offsets()
            await offsets.commit("indexer", dict.fromkeys(places(topic), DONE), only.lent_generations[cluster][-1])
    only.kill()
    await mesh.until(lambda: not mesh.state().members)
    return mesh


async def switch(mesh: Mesh, fencing: "group_pb2.Fencing.ValueType") -> None:
    """An operator asks for it."""
    change = api.UpdateGroupRequest(name="indexer", spec=group_pb2.GroupSpec(fencing=fencing))
    await mesh.client("operator").unary("UpdateGroup", change, group_pb2.Group, timeout_seconds=20)


def ended(mesh: Mesh) -> bool:
    return not mesh.state().fences


async def progress(mesh: Mesh, group: str = "indexer") -> dict[TopicPartition, Committed]:
    return dict(await mesh.kafka.cluster("east:9092", "").offsets().committed(group, None))


def test_the_progress_is_kept_and_commits_are_plain() -> None:
    async def work() -> None:
        mesh = await fenced()
        east = mesh.kafka.named("east").groups
        await switch(mesh, group_pb2.FENCING_NONE)
        await mesh.until(lambda: ended(mesh))
        assert await progress(mesh) == dict.fromkeys(places(), DONE)
        assert east.state("indexer") == "Empty"
        await mesh.until(lambda: east.state(unfencing.aside_name("indexer")) == "Dead")
        only = Participant(mesh, "web-2")
        await mesh.until(lambda: len(only.holds) == 4)
        assert not only.lent_generations
        offsets = mesh.kafka.cluster("east:9092", "").offsets()
        await offsets.commit("indexer", {places()[0]: Committed(10, "")}, None)
        kinds = [type(event) for event in await mesh.events()]
        assert kinds.index(ProgressSetAside) < kinds.index(MembershipEnded)
        assert (kinds.count(ProgressSetAside), kinds.count(MembershipEnded)) == (1, 1)

    run(work())


def test_and_back_again() -> None:
    async def work() -> None:
        mesh = await fenced()
        await switch(mesh, group_pb2.FENCING_NONE)
        await mesh.until(lambda: ended(mesh))
        await switch(mesh, group_pb2.FENCING_GENERATION)
        only = Participant(mesh, "web-2", fenced=True)
        await mesh.until(lambda: len(only.holds) == 4)
        assert await progress(mesh) == dict.fromkeys(places(), DONE)
        with pytest.raises(Fenced):
            await mesh.kafka.cluster("east:9092", "").offsets().commit("indexer", {places()[0]: DONE}, None)

    run(work())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("step", "nth"), [("delete", 1), ("commit", 1), ("leave", 1), ("delete", 2), ("commit", 2), ("delete", 3)]
)
def test_the_next_leader_finishes_what_one_killed_midway_began(
    monkeypatch: pytest.MonkeyPatch, step: str, nth: int, when: str
) -> None:
    async def work() -> None:
        mesh = await fenced(2)
        leader, real = (await mesh.leader()).instance, getattr(Groups, step)
        calls = [0]

        def killing(self: Groups, *arguments: object) -> object:
            calls[0] += 1
            if calls[0] != nth:
                return real(self, *arguments)
            loop = asyncio.get_running_loop()
            if when == "before":
                loop.call_soon(mesh.processes[leader].kill)
                raise Refused("this process is being killed")
            loop.call_soon(mesh.processes[leader].kill)
            return real(self, *arguments)

        monkeypatch.setattr(Groups, step, killing)
        await switch(mesh, group_pb2.FENCING_NONE)
        await mesh.until(lambda: ended(mesh))
        await mesh.until(lambda: not mesh.processes[leader].alive)
        await mesh.leader()
        assert await progress(mesh) == dict.fromkeys(places(), DONE)
        only = Participant(mesh, "web-2")
        await mesh.until(lambda: len(only.holds) == 4)

    run(work())


def test_a_cluster_that_is_away_has_its_turn_when_it_returns() -> None:
    async def work() -> None:
        mesh = await fenced(1, "west")
        west = mesh.kafka.named("west")
        west.kill()
        await switch(mesh, group_pb2.FENCING_NONE)
        await mesh.until(lambda: set(mesh.state().fences) == {"west"})
        only = Participant(mesh, "web-2")
        await mesh.until(lambda: len(only.holds) == 4)
        await mesh.host.clock.sleep(30.0)
        assert {held.cluster.name for held in only.holds.values()} == {"east"}
        only.kill()
        await mesh.until(lambda: not mesh.state().members)
        with pytest.raises(Refused, match="west") as refused:
            await switch(mesh, group_pb2.FENCING_GENERATION)
        assert refused.value.field == "spec.fencing"
        west.start()
        await mesh.until(lambda: ended(mesh))
        found = await mesh.kafka.cluster("west:9092", "").offsets().committed("indexer", None)
        assert found == dict.fromkeys(places("braid.logs.bulk.1"), DONE)
        again = Participant(mesh, "web-3")
        await mesh.until(lambda: len(again.holds) == 8)

    run(work())


def test_a_stray_that_slips_in_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        mesh = await fenced()
        east, real = mesh.kafka.named("east").groups, Groups.leave

        def leave(self: Groups, name: str, member_id: str | None = None) -> None:
            real(self, name, member_id)
            monkeypatch.setattr(Groups, "leave", real)
            assert self.occupy(name)

        monkeypatch.setattr(Groups, "leave", leave)
        await switch(mesh, group_pb2.FENCING_NONE)
        await mesh.host.clock.sleep(20.0)
        assert not ended(mesh)
        assert await progress(mesh) == dict.fromkeys(places(), DONE)
        east.leave("indexer")
        await mesh.until(lambda: ended(mesh))
        assert await progress(mesh) == dict.fromkeys(places(), DONE)

    run(work())


def test_a_deleted_group_leaves_its_clusters() -> None:
    async def work() -> None:
        mesh = await fenced()
        east = mesh.kafka.named("east").groups
        assert east.state("indexer") == "Stable"
        await mesh.client("operator").unary("DeleteGroup", api.DeleteGroupRequest(name="indexer"), group_pb2.Group)
        await mesh.until(lambda: east.state("indexer") == "Empty")

    run(work())


def state_with(fencing: Fencing, **fences: ClusterFence) -> Group:
    return Group("indexer", GroupSpec(("logs",), fencing=fencing), fences=fences)


@pytest.mark.parametrize(
    ("state", "decided"),
    [
        (state_with(Fencing.NONE, east=ClusterFence("m", 3)), ([ProgressSetAside("east")], ())),
        (state_with(Fencing.NONE, east=ClusterFence("m", 3, aside=True)), ((), [MembershipEnded("east")])),
        (state_with(Fencing.NONE), ((), ())),
        (state_with(Fencing.GENERATION, east=ClusterFence("m", 3)), ((), ())),
        (Group("indexer", None, fences={"east": ClusterFence("m", 3)}), ((), ())),
    ],
    ids=["fenced before", "set aside", "ended", "fenced again", "deleted"],
)
def test_told_twice_or_too_late_it_leads_to_nothing(state: Group, decided: tuple[object, object]) -> None:
    commands: list[Callable[[str], RecordAside | EndMembership]] = [RecordAside, EndMembership]
    assert tuple(unfencing.decide(state, command("east")) for command in commands) == decided


def test_nothing_is_granted_where_a_membership_ends() -> None:
    assert generations.gated(state_with(Fencing.NONE, east=ClusterFence("m", 3, due=False))) == {"east"}
    assert generations.gated(state_with(Fencing.NONE)) == frozenset()
