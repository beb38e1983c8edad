"""A group keeps its leases while its leader changes, stands still or is cut off, and while the registry is away."""

import pytest

from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.reconciler.terms import check, check_never_two, holdings, run

# --- leader changes


def test_a_leader_change_moves_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3)
        before, events = holdings(members), len(await mesh.events())
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.host.clock.sleep(12)
        assert holdings(members) == before
        assert len(await mesh.events()) == events
        members[0].kill()
        assert await mesh.settled(2) < 0.05
        await check(mesh)

    run(scenario())


def test_a_leader_that_stops_gracefully_moves_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3)
        before, events = holdings(members), len(await mesh.events())
        stopped = await mesh.leader()
        stopped.stop()
        await mesh.until(lambda: not stopped.leading())
        assert await mesh.leader() is not stopped
        await mesh.host.clock.sleep(12)
        assert holdings(members) == before
        assert len(await mesh.events()) == events
        assert all(member.session.attached for member in members)
        await check(mesh)

    run(scenario())


def test_a_member_lost_with_the_leader_is_awaited_for_the_grace() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3, lease_ms=500)
        mesh.processes[(await mesh.leader()).instance].kill()
        members[2].kill()
        await mesh.leader()
        took = await mesh.settled(2)
        assert 2.9 <= took <= 3.2, took
        await check(mesh)

    run(scenario())


def test_a_leader_cut_from_its_store_ends_with_its_session() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3)
        before = holdings(members)
        first = await mesh.leader()
        deadline = first.require_leader().session.deadline()
        mesh.stores[first.instance].disconnect()
        members[0].kill()
        await mesh.until(lambda: not first.leading())
        assert mesh.host.clock.elapsed() <= deadline + 0.002
        assert await mesh.leader() is not first
        await mesh.settled(2)
        mesh.stores[first.instance].reconnect()
        await mesh.host.clock.sleep(5)
        kept = {lease: who for lease, who in before.items() if who[0] != "web-1"}
        assert kept.items() <= holdings(members).items()
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_leader_that_stood_still_counts_it_against_nobody(exclusive: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3, lease_ms=1_500, exclusive=exclusive)
        before, events = holdings(members), len(await mesh.events())
        leader = await mesh.leader()
        mesh.processes[leader.instance].pause()
        await mesh.host.clock.sleep(1.2)
        mesh.processes[leader.instance].resume()
        await mesh.host.clock.sleep(5)
        assert leader.leading()
        assert holdings(members) == before
        assert len(await mesh.events()) == events
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_leader_stalled_beyond_its_session_says_nothing_more(exclusive: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(3, lease_ms=1_000, exclusive=exclusive)
        frozen = await mesh.leader()
        mesh.processes[frozen.instance].pause()
        await mesh.host.clock.sleep(2)
        members[2].kill()
        await mesh.host.clock.sleep(20)
        assert (await mesh.leader()) is not frozen
        mesh.processes[frozen.instance].resume()
        await mesh.settled(2)
        await mesh.host.clock.sleep(5)
        assert not frozen.leading()
        assert mesh.settled_now(2)
        if exclusive:
            check_never_two(mesh.changes)
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize(("leases", "replaced"), [(0.5, False), (1.2, True), (3.0, True)])
def test_a_frozen_member_is_replaced_only_beyond_its_lease(leases: float, replaced: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(2, lease_ms=1_000)
        before = holdings(members)
        members[0].process.pause()
        await mesh.host.clock.sleep(leases)
        assert (len(members[1].holds) == 4) is replaced
        members[0].process.resume()
        await mesh.settled(2)
        assert (holdings(members) == before) is not replaced
        await check(mesh)

    run(scenario())


def test_the_mesh_goes_on_while_the_registry_is_away() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        await mesh.joined(2)
        mesh.processes["registry-0"].kill()
        mesh.processes[(await mesh.leader()).instance].kill()
        Participant(mesh, "web-3")
        await mesh.settled(3)
        await check(mesh)

    run(scenario())


def test_a_restarted_registry_is_followed_again() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.joined(2)
        mesh.processes["registry-0"].kill()
        mesh.channel("logs/live/2", 3, "west")
        await mesh.host.clock.sleep(1)
        await mesh.replica("registry-0")
        await mesh.settled(2, 7)
        mesh.registry.set("logs/live/1", 4, "east", "DRAINING")
        await mesh.host.clock.sleep(1)
        assert mesh.settled_now(2, 7)
        mesh.registry.set("logs/live/1", 4, "east", "DRAINED")
        await mesh.settled(2, 3)
        await check(mesh)

    run(scenario())
