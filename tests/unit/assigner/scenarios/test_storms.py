"""Many members that join at once, on a store that takes its time: all get in, and nothing is decided for nobody."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any
from unittest.mock import patch

from braid.api.assigner.v1 import join_pb2
from braid.kernel.limits.assigner.leases import HELLOS_AT_ONCE, JOINS_GATHER_SECONDS
from braid.kernel.ports import HistoryId
from services.assigner.liveness import newcomers
from services.assigner.model.events import MemberGone, MemberJoined
from services.assigner.reconciler import join_queue, takeover
from services.assigner.reconciler.group_loop import GroupKeeper
from services.assigner.reconciler.term import Term
from services.assigner.servicer import joins
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant, Wire

APPEND_SECONDS = 0.2
MEMBERS = 40  # at so much each they need more than twice the lease time


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def slow(mesh: Mesh, seconds: float = APPEND_SECONDS) -> None:
    """From now on an append takes a while."""
    for store in mesh.stores.values():
        store.latency = lambda operation: seconds / 2 if operation == "append" else 0.0005


def storm(mesh: Mesh) -> list[Participant]:
    """Members that join at once."""
    return [Participant(mesh, f"web-{number}") for number in range(MEMBERS)]


async def kinds(mesh: Mesh) -> Counter[str]:
    """How many events of each kind the group has."""
    return Counter(type(event).__name__ for event in await mesh.events())


def test_a_storm_of_joins_ends_with_everybody_in() -> None:
    async def scenario() -> None:
        with patch.object(join_queue, "JOINS_AT_ONCE", 1):
            mesh = await Mesh().start()
            await mesh.joined(1)
            await slow(mesh)
            members = storm(mesh)
            took = await mesh.until(lambda: all(each.session.member_id for each in members), seconds=30.0)
        assert took > 6.0
        await mesh.until(lambda: all(each.session.attached for each in members), seconds=1.0)
        seen = await kinds(mesh)
        assert seen[MemberJoined.__name__] == MEMBERS + 1
        assert seen[MemberGone.__name__] == 0, "who waits is not lost, and nobody joins twice"
        assert mesh.failures == []

    run(scenario())


def test_who_waits_is_decided_together_by_one_append() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.joined(1)
        await slow(mesh)
        members = storm(mesh)
        took = await mesh.until(lambda: all(each.session.member_id for each in members), seconds=30.0)
        assert took < 6 * APPEND_SECONDS, "each join took an append of its own"
        records = await (await mesh.leader()).aggregates.events(HistoryId("assigner", "group", "indexer"))
        actors = {record.context.actor for record in records if isinstance(record.event, MemberJoined)}
        assert actors >= {f"web-{number}" for number in range(MEMBERS)}, "each is still told by who asked"

    run(scenario())


def test_one_refused_join_among_many_concerns_no_other() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.joined(1)
        await slow(mesh)
        members = storm(mesh)
        odd = Wire(mesh, "odd")
        hello = join_pb2.MemberHello(protocol_version=1, group="indexer", member_id="no ulid", capabilities=["queued"])
        hello.spec.streams.append("logs")
        await odd.send(join_pb2.JoinRequest(hello=hello))
        assert "no ulid" in str(await odd.error())
        await mesh.until(lambda: all(each.session.member_id for each in members), seconds=5.0)

    run(scenario())


def looks(*, together: bool) -> int:
    """How often a group was looked at, each time as a whole, while a storm of joins came in and was placed."""
    count = 0
    decide = GroupKeeper._decide

    async def counted(self: GroupKeeper) -> None:
        nonlocal count
        count += 1
        await decide(self)

    async def scenario() -> None:
        mesh = Mesh()
        mesh.channel("logs/live/1", 2 * (MEMBERS + 1))
        await mesh.start(channels=())
        await mesh.joined(1)
        await slow(mesh, 0.02)
        storm(mesh)
        await mesh.settled(MEMBERS + 1)

    gathering = JOINS_GATHER_SECONDS if together else 0.0
    with (
        patch.object(join_queue, "JOINS_AT_ONCE", 2),
        patch.object(newcomers, "JOINS_GATHER_SECONDS", gathering),
        patch.object(GroupKeeper, "_decide", counted),
    ):
        run(scenario())
    return count


def test_newcomers_are_placed_together() -> None:
    together, each = looks(together=True), looks(together=False)
    print(f"{together} looks at the group, {each} when each newcomer is placed for the next to undo it")
    assert together < each * 0.7


def test_a_member_alone_waits_for_nobody() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        member = Participant(mesh, "web-1")
        assert await mesh.until(lambda: len(member.holds) == 4) < 0.1

    run(scenario())


def test_one_that_gave_up_in_the_queue_is_not_joined() -> None:
    async def scenario() -> None:
        with patch.object(join_queue, "JOINS_AT_ONCE", 1):
            mesh = await Mesh().start()
            await mesh.joined(1)
            await slow(mesh)
            members = storm(mesh)
            await mesh.host.clock.sleep(0.1)
            hasty = [Wire(mesh, f"hasty-{number}") for number in range(5)]
            for wire in hasty:
                hello = join_pb2.MemberHello(protocol_version=1, group="indexer", client_id="hasty")
                hello.spec.streams.append("logs")
                await wire.send(join_pb2.JoinRequest(hello=hello))
            mesh.network.kill("hasty-3")
            await asyncio.gather(*(wire.call.close() for wire in hasty if wire.call is not None))
            await mesh.until(lambda: all(each.session.member_id for each in members), seconds=60.0)
            await mesh.host.clock.sleep(2.0)
        clients = [event.client_id for event in await mesh.events() if isinstance(event, MemberJoined)]
        assert "hasty" not in clients
        assert len(clients) == MEMBERS + 1

    run(scenario())


def test_members_unaware_of_queues_get_in_by_longer_waits() -> None:
    async def scenario() -> None:
        with (
            patch.object(join_queue, "JOINS_AT_ONCE", 1),
            patch.object(joins, "QUEUED", "of no release"),
        ):
            mesh = await Mesh().start()
            await mesh.joined(1)
            await slow(mesh)
            members = storm(mesh)
            await mesh.until(lambda: all(each.session.member_id for each in members), seconds=60.0)
        await mesh.until(lambda: len(mesh.state().members) == MEMBERS + 1, seconds=30.0)
        assert mesh.failures == []

    run(scenario())


def test_members_waiting_for_a_new_leader_are_not_expired() -> None:
    async def scenario() -> None:
        with patch.object(join_queue, "JOINS_AT_ONCE", 1):
            mesh = await Mesh().start(assigners=2)
            members = await mesh.joined(8)
            before = [dict(each.holds) for each in members]
            decide = joins.Joins._join

            async def slowly(self: joins.Joins, *arguments: Any) -> Any:
                await mesh.host.clock.sleep(1.0)
                return await decide(self, *arguments)

            leader = await mesh.leader()
            with patch.object(joins.Joins, "_join", slowly):
                mesh.processes[leader.instance].kill()
                await mesh.host.clock.sleep(3.5)
                await mesh.until(lambda: all(each.session.attached for each in members), seconds=20.0)
            await mesh.host.clock.sleep(5.0)
        assert [each.holds for each in members] == before
        assert (await kinds(mesh))[MemberGone.__name__] == 0

    run(scenario())


def lost_beyond_a_change_of_leader(turn_seconds: float) -> int:
    """How many of six members a new leader lost that heard nothing of one for twice the lease time."""
    lost = 0

    async def scenario() -> None:
        nonlocal lost
        mesh = await Mesh().start(assigners=2)
        members = await mesh.joined(6)
        leader = await mesh.leader()
        members[0].process.pause()
        mesh.processes[leader.instance].kill()
        await mesh.host.clock.sleep(7.0)
        members[0].process.resume()
        await mesh.until(lambda: all(each.session.attached for each in members), seconds=20.0)
        lost = (await kinds(mesh))[MemberGone.__name__]

    with patch.object(takeover, "JOIN_TURN_SECONDS", turn_seconds):
        run(scenario())
    return lost


def test_a_new_leader_awaits_a_crowd_while_its_turns_last() -> None:
    assert lost_beyond_a_change_of_leader(2.0) == 0
    assert lost_beyond_a_change_of_leader(0.005) == 1


def joins_of_a_member_that_waits(seconds: float, *, neighbour: bool) -> int:
    """How often a member says hello before it is welcomed, by an assigner that takes so long for it."""
    hellos = 0

    async def scenario() -> None:
        nonlocal hellos
        mesh = await Mesh().start()
        first = await mesh.joined(1)
        decide = joins.Joins._join

        async def slowly(self: joins.Joins, *arguments: Any) -> Any:
            nonlocal hellos
            hellos += 1
            if hellos == 1:
                await mesh.host.clock.sleep(seconds)
            return await decide(self, *arguments)

        with patch.object(joins.Joins, "_join", slowly):
            late = Participant(mesh, "late", beside=first[0] if neighbour else None)
            await mesh.until(lambda: bool(late.session.member_id), seconds=60.0)

    run(scenario())
    return hellos


def test_a_member_beside_an_answered_one_waits_for_its_welcome() -> None:
    assert joins_of_a_member_that_waits(10.0, neighbour=True) == 1


def test_answered_neighbours_make_nobody_wait_for_ever() -> None:
    assert joins_of_a_member_that_waits(100.0, neighbour=True) > 1


def test_who_hears_nothing_from_an_assigner_takes_it_for_frozen() -> None:
    assert joins_of_a_member_that_waits(10.0, neighbour=False) > 1


def test_a_default_lease_time_waits_as_long_for_its_welcome() -> None:
    unsaid = patch.object(Participant, "LEASE_MS", 0)
    with unsaid:
        assert joins_of_a_member_that_waits(2.0, neighbour=False) == 1
        assert joins_of_a_member_that_waits(10.0, neighbour=False) > 1


def test_members_of_one_process_take_turns_with_their_hellos() -> None:
    most = 0

    async def scenario() -> None:
        nonlocal most
        mesh = await Mesh().start()
        first = (await mesh.joined(1))[0]
        decide, saying = joins.Joins._join, 0

        async def slowly(self: joins.Joins, *arguments: Any) -> Any:
            nonlocal most, saying
            saying += 1
            most = max(most, saying)
            await mesh.host.clock.sleep(0.1)
            saying -= 1
            return await decide(self, *arguments)

        with patch.object(joins.Joins, "_join", slowly):
            others = [Participant(mesh, f"mate-{number}", beside=first) for number in range(3 * HELLOS_AT_ONCE)]
            await mesh.until(lambda: all(each.session.member_id for each in others), seconds=30.0)

    run(scenario())
    assert most == HELLOS_AT_ONCE


def test_an_assigner_answering_neighbours_is_not_called_frozen() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        first = (await mesh.joined(1))[0]
        mate = Participant(mesh, "mate", beside=first)
        await mesh.settled(2)
        before, deaf, call = dict(mate.holds), mate.session.member_id, mate.session._call
        heard, together = Term.heard, Term.heard_together

        def not_it(self: Term, key: Any, stream: Any) -> bool:
            return heard(self, key, stream) and key.member != deaf  # it counts, and is not answered

        def nor_together(self: Term, beating: Any) -> list[int]:
            some = list(beating)
            return together(self, some) + [ticket for ticket, stream in some if stream and stream.key.member == deaf]

        with patch.object(Term, "heard", not_it), patch.object(Term, "heard_together", nor_together):
            await mesh.host.clock.sleep(20.0)
        assert mate.session._call is call, "it hung up on an assigner that was only late"
        assert mate.holds == before
        assert (await kinds(mesh))[MemberGone.__name__] == 0
        await mesh.until(lambda: mate.session.attached, seconds=5.0)
        assert mesh.failures == []

    run(scenario())
