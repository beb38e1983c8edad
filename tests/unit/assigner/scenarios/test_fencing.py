"""Fencing by lent generations through whole assigners on virtual time: killed, paused, told twice, late, by a ghost."""

import asyncio

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kafka.memory.groups import Groups
from braid.kernel.errors import ClusterUnavailable, Fenced, GroupOccupied, Refused
from braid.kernel.ids import ChannelId
from braid.kernel.ports import Generation, TopicPartition
from services.assigner.model.events import BumpIntended, FencingWaived, GenerationBumped, LeaseGrant, LeasesGranted
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.scenarios.fenced_groups import TOPIC, bumps, commit, fenced, newest, run


def test_members_are_lent_a_generation_and_strays_are_refused() -> None:
    async def work() -> None:
        mesh = await fenced()
        for participant in mesh.participants:
            await commit(mesh, newest(participant))
        with pytest.raises(Fenced):
            await commit(mesh, None)
        assert not mesh.kafka.named("east").groups.occupy("indexer")
        assert len(await bumps(mesh)) == 1
        events = await mesh.events()
        kinds = [type(event) for event in events]
        assert kinds.index(BumpIntended) < kinds.index(GenerationBumped) < kinds.index(LeasesGranted)

    run(work())


def test_a_dead_generation_is_refused_before_its_leases_move() -> None:
    async def work() -> None:
        mesh = await fenced()
        first, second = mesh.participants
        stale = newest(first)
        mesh.network.cut("web-1", "assigner-0")
        await mesh.until(lambda: len(second.holds) == 4)
        with pytest.raises(Fenced):
            await commit(mesh, stale)
        assert newest(second).generation == stale.generation + 1
        await commit(mesh, newest(second))
        assert newest(first) == stale  # nobody lent it anything

    run(work())


def test_a_new_leader_takes_over_membership_and_moves_nothing() -> None:
    async def work() -> None:
        mesh = await fenced(assigners=2)
        before = [dict(participant.holds) for participant in mesh.participants]
        lent = newest(mesh.participants[0])
        leader = (await mesh.leader()).instance
        mesh.processes[leader].kill()
        await mesh.leader()
        await mesh.host.clock.sleep(10.0)
        assert [participant.holds for participant in mesh.participants] == before
        assert newest(mesh.participants[0]) == lent
        await commit(mesh, lent)
        mesh.participants[0].kill()
        await mesh.until(lambda: len(mesh.participants[1].holds) == 4)
        assert newest(mesh.participants[1]) == Generation(lent.generation + 1, lent.member_id)

    run(work())


def test_the_next_leader_repeats_a_join_without_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        mesh = await Mesh().start(2)
        leader, real = (await mesh.leader()).instance, Groups.join_reserved

        def joined_and_killed(self: Groups, name: str, member_id: str) -> Generation:
            made = real(self, name, member_id)
            if mesh.processes[leader].alive:
                asyncio.get_running_loop().call_soon(mesh.processes[leader].kill)
            return made

        monkeypatch.setattr(Groups, "join_reserved", joined_and_killed)
        Participant(mesh, "web-1", fenced=True)
        await mesh.settled(1)
        (bumped,) = await bumps(mesh)
        assert bumped.generation == 2
        intended = [event for event in await mesh.events() if isinstance(event, BumpIntended)]
        assert {event.member_id for event in intended} == {bumped.member_id}
        await commit(mesh, newest(mesh.participants[0]))

    run(work())


def test_a_generation_no_leader_recorded_is_answered_by_the_next() -> None:
    async def work() -> None:
        mesh = await fenced()
        first, second = mesh.participants
        lent = newest(first)
        mesh.kafka.named("east").groups.join_reserved("indexer", lent.member_id)  # a deposed leader, told late
        keeper = mesh.replicas["assigner-0"]._service._term.keeper("indexer")  # type: ignore[attr-defined]
        for _ in range(1_000):
            assert keeper.refused("east", lent) is False
        assert len(keeper._commands) == 1  # a flood fills nothing
        await first.session.refused("east", lent)
        await mesh.until(lambda: newest(second) != lent)
        assert newest(first).generation == lent.generation + 2
        assert len(await bumps(mesh)) == 2
        await first.session.refused("east", lent)  # told late: what is newest is lent again, and nothing is made
        await mesh.host.clock.sleep(1.0)
        assert len(await bumps(mesh)) == 2
        assert newest(first) == newest(second)
        await commit(mesh, newest(first))

    run(work())


def test_a_cluster_that_came_back_empty_gets_a_new_member() -> None:
    async def work() -> None:
        mesh = await fenced(1)
        east, (only,) = mesh.kafka.named("east"), mesh.participants
        lent = newest(only)
        east.empty()
        east.create_topic(TOPIC, 4, 1, {})
        await only.session.refused("east", lent)
        await mesh.until(lambda: newest(only) != lent)
        assert newest(only).member_id != lent.member_id
        await commit(mesh, newest(only))

    run(work())


def test_only_the_grants_on_a_cluster_that_is_away_wait_for_it() -> None:
    async def work() -> None:
        mesh = await Mesh().start(1, ())
        mesh.channel("logs/live/1", 2, "east")
        mesh.channel("logs/live/2", 2, "west")
        for name in ("web-1", "web-2"):
            Participant(mesh, name, fenced=True, lease_ms=1_000)
        await mesh.settled(2)
        first, second = mesh.participants
        second.unreachable.append("east")
        await mesh.host.clock.sleep(1.0)
        mesh.kafka.named("east").kill()
        stale = newest(first)
        first.kill()
        await mesh.host.clock.sleep(20.0)
        assert {held.cluster.name for held in second.holds.values()} >= {"west"}
        assert len([held for held in second.holds.values() if held.cluster.name == "west"]) == 2
        assert len(second.holds) < 4
        mesh.kafka.named("east").start()
        await mesh.until(lambda: len(second.holds) == 4)
        assert newest(second).generation == stale.generation + 1
        assert not [event for event in await mesh.events() if isinstance(event, FencingWaived)]

    run(work())


def test_where_only_members_reach_a_cluster_grants_go_unfenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        mesh = await fenced()
        first, second = mesh.participants
        lent = newest(second)

        def refuse(self: Groups, name: str, member_id: str) -> Generation:
            raise ClusterUnavailable("cut off")

        with monkeypatch.context() as patched:
            patched.setattr(Groups, "join_reserved", refuse)
            first.kill()
            took = await mesh.until(lambda: len(second.holds) == 4)
            assert took >= 1.0
        events = await mesh.events()
        assert len([event for event in events if isinstance(event, FencingWaived)]) == 1
        await mesh.until(lambda: newest(second) != lent)  # it was tried on
        assert mesh.state().fences["east"].waived is False

    run(work())


def test_leases_are_not_sent_before_a_generation_can_be_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        mesh = await fenced(1)
        (only,) = mesh.participants
        term = mesh.replicas["assigner-0"]._service._term  # type: ignore[attr-defined]
        (stream,) = term._streams
        with monkeypatch.context() as patched:
            patched.setattr(
                "services.assigner.model.generations.lent", lambda *_: None
            )  # a new member id is on its way
            stream.granted([LeaseGrant("logs/live/1/0", only.session.member_id, 1 << 50)])
            stream.flush()
            await mesh.host.clock.sleep(0.2)
            assert not [held for held in only.holds.values() if held.epoch == 1 << 50]
        stream.lent("east")
        stream.flush()
        await mesh.until(lambda: bool([held for held in only.holds.values() if held.epoch == 1 << 50]))

    run(work())


def test_a_name_that_others_use_is_refused_at_registration() -> None:
    async def work() -> None:
        mesh = await Mesh().start()
        mesh.kafka.named("east").groups.occupy("indexer")
        only = Participant(mesh, "web-1", fenced=True)
        await mesh.until(lambda: bool(only.refusals))
        assert isinstance(only.refusals[0], GroupOccupied)
        create = api.CreateGroupRequest(name="indexer", spec=group_pb2.GroupSpec(streams=["logs"]))
        with pytest.raises(GroupOccupied):
            await mesh.client("operator").unary("CreateGroup", create, group_pb2.Group)
        assert await mesh.events() == []

    run(work())


def test_a_name_taken_by_others_is_granted_nothing_there() -> None:
    async def work() -> None:
        mesh = await Mesh().start()
        mesh.channel("logs/live/2", 2, "west")
        east = mesh.kafka.named("east")
        east.kill()
        only = Participant(mesh, "web-1", fenced=True)
        await mesh.until(lambda: len(only.holds) == 2)
        east.start()
        east.groups.occupy("indexer")
        await mesh.host.clock.sleep(30.0)
        assert {held.cluster.name for held in only.holds.values()} == {"west"}
        assert {event.cluster for event in await bumps(mesh)} == {"west"}

    run(work())


def test_fencing_can_be_switched_on_while_a_group_is_empty() -> None:
    async def work() -> None:
        mesh = await Mesh().start()
        client, east = mesh.client("operator"), mesh.kafka.named("east")
        spec = group_pb2.GroupSpec(streams=["logs"], fencing=group_pb2.FENCING_NONE)
        await client.unary("CreateGroup", api.CreateGroupRequest(name="indexer", spec=spec), group_pb2.Group)
        await mesh.until(lambda: east.groups.state("indexer") == "Empty")  # its start is written
        change = group_pb2.GroupSpec(fencing=group_pb2.FENCING_GENERATION)
        await client.unary("UpdateGroup", api.UpdateGroupRequest(name="indexer", spec=change), group_pb2.Group)
        only = Participant(mesh, "web-1", fenced=True)
        await mesh.until(lambda: len(only.holds) == 4)
        await commit(mesh, newest(only))
        with pytest.raises(Refused) as refused:
            await client.unary("UpdateGroup", api.UpdateGroupRequest(name="indexer", spec=spec), group_pb2.Group)
        assert refused.value.field == "spec.fencing"

    run(work())


def test_a_start_written_after_the_join_carries_the_generation() -> None:
    async def work() -> None:
        mesh = await Mesh().start()
        late = ChannelId.parse("logs/live/2")
        mesh.registry.set(str(late), 2, "east", "ACTIVE")  # its topic is not there yet
        only = Participant(mesh, "web-1", fenced=True)
        await mesh.until(lambda: len(only.holds) == 4)
        mesh.kafka.named("east").create_topic(late.topic("braid."), 2, 1, {})
        await mesh.until(lambda: len(only.holds) == 6)
        where = TopicPartition(late.topic("braid."), 1)
        offsets = mesh.kafka.cluster("east:9092", "").offsets()
        assert (await offsets.committed("indexer", [where]))[where].offset == 0

    run(work())


def test_a_repeated_deletion_spares_a_new_group_of_that_name() -> None:
    async def work() -> None:
        mesh = await fenced(1)
        client, (only,), east = mesh.client("operator"), mesh.participants, mesh.kafka.named("east")
        only.kill()
        await mesh.until(lambda: not mesh.state().members)
        delete = api.DeleteGroupRequest(name="indexer")
        await client.unary("DeleteGroup", delete, group_pb2.Group, request_id="01HZZZZZZZZZZZZZZZZZZZZZZZ")
        Participant(mesh, "web-2", fenced=True, lease_ms=1_000)
        await mesh.settled(1)
        lent = newest(mesh.participants[1])
        await client.unary("DeleteGroup", delete, group_pb2.Group, request_id="01HZZZZZZZZZZZZZZZZZZZZZZZ")
        await mesh.host.clock.sleep(1.0)
        assert east.groups.state("indexer") == "Stable"
        await commit(mesh, lent)

    run(work())


def test_an_occupied_name_is_seen_though_a_cluster_is_frozen() -> None:
    async def work() -> None:
        mesh = await Mesh().start()
        mesh.channel("logs/live/2", 2, "west")
        mesh.kafka.named("east").pause()
        mesh.kafka.named("west").groups.occupy("indexer")
        only = Participant(mesh, "web-1", fenced=True)
        await mesh.until(lambda: bool(only.refusals))
        assert isinstance(only.refusals[0], GroupOccupied)

    run(work())


def test_control_a_bump_that_bumps_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the broker's part the dead member's commit would pass."""
    monkeypatch.setattr(Groups, "commit", lambda self, name, offsets, generation: None)
    with pytest.raises(pytest.fail.Exception):
        test_a_dead_generation_is_refused_before_its_leases_move()
