"""Heartbeats of several members in one stream: what they mean, and what becomes of members when anything breaks."""

from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import beat_pb2, join_pb2
from braid.kernel.ports import DuplexServing
from services.assigner.model.events import MemberGone
from services.assigner.reconciler.group_loop import GroupKeeper
from services.assigner.reconciler.term import Term
from services.assigner.servicer import beats, joins, member_session
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import check_epochs, check_single_holder
from tests.unit.assigner.mesh import Mesh, Participant, Wire


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def shared(mesh: Mesh, count: int, *, lease_ms: int = 3_000, exclusive: bool = False) -> list[Participant]:
    """Members web-1 … of one process, once they hold everything and their heartbeats are carried."""
    first = Participant(mesh, "web-1", lease_ms=lease_ms, exclusive=exclusive)
    others = [
        Participant(mesh, f"web-{number}", lease_ms=lease_ms, exclusive=exclusive, beside=first)
        for number in range(2, count + 1)
    ]
    await mesh.settled(count)
    await mesh.until(lambda: carried(first) == count)
    return [first, *others]


def carried(member: Participant) -> int:
    """How many members of its process are carried."""
    return len(member.heartbeats._carried)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How many heartbeats were heard on Join streams, and how many messages on Beat streams."""
    counts: Counter[str] = Counter()
    heard, together = Term.heard, Term.heard_together

    def count_one(self: Term, *arguments: Any) -> bool:
        counts["join"] += 1
        return heard(self, *arguments)

    def count_many(self: Term, *arguments: Any) -> list[int]:
        counts["beat"] += 1
        return together(self, *arguments)

    with patch.object(Term, "heard", count_one), patch.object(Term, "heard_together", count_many):
        yield counts


async def check(mesh: Mesh, gone: int = 0) -> None:
    """Nobody was lost but those expected, nothing died, and the history is sound."""
    events = await mesh.events()
    check_epochs(events)
    check_single_holder(events)
    assert [event for event in events if isinstance(event, MemberGone)][gone:] == []
    assert mesh.failures == []


# --- the SDK's members


@pytest.mark.parametrize("lease_ms", [300, 1_000, 3_000])
def test_members_of_one_process_share_a_message(lease_ms: int) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 4, lease_ms=lease_ms)
        period = min(lease_ms / 4, 500) / 1000
        with counted() as counts:
            await mesh.host.clock.sleep(20 * period)
        assert counts["join"] == 0
        assert 18 <= counts["beat"] <= 22
        assert all(member.session.attached for member in members)
        await check(mesh)

    run(scenario())


def test_a_lone_member_stays_on_its_join_stream() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.joined(2)
        with counted() as counts:
            await mesh.host.clock.sleep(5.0)
        assert counts["beat"] == 0
        assert 18 <= counts["join"] <= 22

    run(scenario())


def test_members_of_unlike_lease_times_keep_their_own_pace() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        first = Participant(mesh, "web-1", lease_ms=400)
        others = [Participant(mesh, f"slow-{n}", group="slow", lease_ms=3_000, beside=first) for n in (1, 2)]
        await mesh.until(lambda: carried(first) == 3)
        with counted() as counts:
            await mesh.host.clock.sleep(10.0)
        assert counts["join"] == 0
        assert 95 <= counts["beat"] <= 105
        assert all(member.session.attached for member in (first, *others))
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("lease_ms", [300, 3_000])
def test_a_beat_stream_that_breaks_costs_nobody_a_lease(lease_ms: int, exclusive: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 4, lease_ms=lease_ms, exclusive=exclusive)
        before = [dict(member.holds) for member in members]
        for _ in range(5):
            with counted() as counts:
                _break_beats(mesh)
                await mesh.until(lambda: carried(members[0]) == 0)
                took = await mesh.until(lambda: carried(members[0]) == len(members), seconds=5.0)
                assert counts["join"] <= len(members) * (1 + took / lease_ms * 2_000), "more than two in a lease time"
        assert [member.holds for member in members] == before
        await check(mesh)

    run(scenario())


def _break_beats(mesh: Mesh) -> None:
    for call in tuple(mesh.network._calls.values()):
        if call.method.endswith("/Beat"):
            call.lose(call.client, told=True)
            call.lose(call.server, told=True)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("lease_ms", [300, 3_000])
def test_a_beat_stream_that_is_not_answered_costs_nobody_a_lease(lease_ms: int, exclusive: bool) -> None:
    questions = 0

    async def heard_and_no_more(self: beats.Beats, term: Term, origin: object, stream: DuplexServing) -> None:
        nonlocal questions
        while isinstance(request := await stream.receive(), beat_pb2.BeatRequest):
            questions += bool(request.tickets)
            if not request.tickets:
                await stream.send(beat_pb2.BeatResponse(sequence=request.sequence))

    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 4, lease_ms=lease_ms, exclusive=exclusive)
        before = [dict(member.holds) for member in members]
        _break_beats(mesh)
        with patch.object(beats.Beats, "_answer", heard_and_no_more):
            await mesh.host.clock.sleep(10 * lease_ms / 1000)
        assert questions > 1
        assert [member.holds for member in members] == before
        await mesh.until(lambda: carried(members[0]) == len(members), seconds=10.0)
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("way_seconds", [0.8, 1.2])
def test_a_late_assigner_is_asked_by_one_member_at_a_time(way_seconds: float) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 8)
        before = [dict(member.holds) for member in members]
        leader = await mesh.leader()
        mesh.network.set_latency(
            "web-1", leader.address, way_seconds, way_seconds
        )  # answers take half a lease, or more
        await mesh.host.clock.sleep(5.0)
        with counted() as counts:
            await mesh.host.clock.sleep(10.0)
        assert counts["beat"] >= 18, "what is carried is still sent"
        assert 1 <= counts["join"] <= 22, "members that all beat by themselves keep a late assigner late"
        assert carried(members[0]) == len(members)
        assert all(member.session.attached for member in members)
        assert [member.holds for member in members] == before
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("lease_ms", [300, 3_000])
def test_without_a_beat_stream_members_beat_twice_a_lease_time(lease_ms: int, exclusive: bool) -> None:
    async def silent(self: beats.Beats, term: Term, origin: object, stream: DuplexServing) -> None:
        while isinstance(await stream.receive(), beat_pb2.BeatRequest):
            pass

    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 4, lease_ms=lease_ms, exclusive=exclusive)
        before = [dict(member.holds) for member in members]
        with patch.object(beats.Beats, "_answer", silent), counted() as counts:
            _break_beats(mesh)
            await mesh.host.clock.sleep(8 * lease_ms / 1_000)
        assert 14 * len(members) <= counts["join"] <= 18 * len(members), "twice in each of eight lease times"
        assert [member.holds for member in members] == before
        await mesh.until(lambda: carried(members[0]) == len(members), seconds=15.0)
        await check(mesh)

    run(scenario())


def test_a_newcomer_among_shared_beats_never_beats_by_itself() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 3)
        with counted() as counts, told_unreachable() as told:
            late = Participant(mesh, "web-9", beside=members[0])
            late.unreachable = ["west"]
            await mesh.until(lambda: carried(members[0]) == 4)
            await mesh.settled(4)
            await mesh.host.clock.sleep(5.0)
        assert counts["join"] == 1, "the welcome counts as one"
        assert told == [(late.session.member_id, ["west"])]
        assert late.session.attached
        await check(mesh)

    run(scenario())


def test_a_member_that_leaves_its_neighbours_leaves_them_alone() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 3)
        await members[1].session.leave("enough")
        mesh.participants.remove(members[1])
        await mesh.settled(2)
        await mesh.until(lambda: carried(members[0]) == 2, seconds=1.0)
        await mesh.host.clock.sleep(10.0)
        await check(mesh, gone=1)

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_change_of_leader_moves_nothing(exclusive: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await shared(mesh, 4, lease_ms=10_000, exclusive=exclusive)
        before = [dict(member.holds) for member in members]
        leader = await mesh.leader()
        mesh.processes[leader.instance].kill()
        await mesh.until(lambda: carried(members[0]) == len(members), seconds=20.0)
        await mesh.host.clock.sleep(10.0)
        assert [member.holds for member in members] == before
        await check(mesh)

    run(scenario())


def test_changed_loads_and_unreachable_clusters_are_reported() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 2)
        measured: list[tuple[str, int]] = []

        def note(self: GroupKeeper, member: str, samples: Sequence[Any], work: object) -> None:
            measured.extend((member, each.records) for each in samples)

        leases = [next(iter(member.holds)) for member in members]
        with patch.object(GroupKeeper, "measured", note), told_unreachable() as told:
            members[0].loads = [join_pb2.LeaseLoad(lease=str(leases[0]), records=7)]
            members[1].unreachable = ["west"]
            await mesh.host.clock.sleep(2.0)
            members[1].unreachable = []
            await mesh.host.clock.sleep(2.0)
        ids = [member.session.member_id for member in members]
        assert {member for member, _ in measured} == {ids[0]}
        assert 6 <= len(measured) <= 10
        assert told == [(ids[1], ["west"]), (ids[1], [])]

    run(scenario())


@contextmanager
def told_unreachable() -> Iterator[list[tuple[str, list[str]]]]:
    """Records the reports on clusters in Beat streams."""
    told: list[tuple[str, list[str]]] = []
    take = member_session.MemberSession.news

    def note(self: member_session.MemberSession, news: beat_pb2.MemberNews) -> None:
        if news.HasField("unreachable"):
            told.append((self.key.member, list(news.unreachable.clusters)))
        take(self, news)

    with patch.object(member_session.MemberSession, "news", note):
        yield told


def test_an_assigner_that_gives_no_tickets_is_served_as_ever() -> None:
    async def scenario() -> None:
        with patch.object(joins, "BEATS", "of no release"), counted() as counts:
            mesh = await Mesh().start()
            first = Participant(mesh, "web-1")
            for number in (2, 3):
                Participant(mesh, f"web-{number}", beside=first)
            await mesh.settled(3)
            await mesh.host.clock.sleep(10.0)
        assert counts["beat"] == 0
        assert carried(first) == 0
        await check(mesh)

    run(scenario())


def test_a_member_of_an_older_release_gets_no_ticket() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        assert (await Wire(mesh, "old").hello()).ticket == 0
        assert (await Wire(mesh, "new").hello(capabilities=["beats"])).ticket != 0

    run(scenario())
