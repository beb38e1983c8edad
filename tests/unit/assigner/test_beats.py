"""Heartbeats of several members in one stream: what they mean, and what becomes of members when anything breaks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import beat_pb2, join_pb2
from braid.kernel.errors import BraidError, Exhausted, Invalid, LeaseLost, NotLeader
from braid.kernel.limits import (
    BEAT_ANSWER_SECONDS,
    BEAT_MEMBERS_MAX,
    BEAT_STREAMS_MAX,
    HEARTBEAT_MESSAGES_AT_ONCE,
    LEASE_MESSAGE_BYTES_MAX,
    STREAM_INBOX_MESSAGES_MAX,
)
from braid.kernel.ports import DuplexCall, DuplexServing
from services.assigner import servicer_beats, servicer_joins
from services.assigner.events import GoneReason, MemberGone
from services.assigner.reconciler import Term
from services.assigner.reconciler_group import GroupKeeper
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import check_epochs, check_single_holder
from tests.unit.assigner.mesh import Mesh, Participant, Wire, granted


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


class BeatWire:
    """A bare Beat stream."""

    def __init__(self, mesh: Mesh, process: str = "wire") -> None:
        self.mesh = mesh
        self.client = mesh.client(process)
        self.call: DuplexCall | None = None
        self.sequence = 0

    async def send(self, *tickets: int, **fields: Any) -> None:
        """Sends heartbeats, opening the stream when it is not open."""
        self.sequence += 1
        if self.call is None:
            self.call = await self.client.duplex("Beat", beat_pb2.BeatResponse)
        request = {"sequence": self.sequence, "tickets": tickets, **fields}
        await self.call.send(beat_pb2.BeatRequest(**request))

    async def unheard(self, *tickets: int, **fields: Any) -> list[int]:
        """Sends heartbeats; returns those that do not count."""
        await self.send(*tickets, **fields)
        assert self.call is not None
        response = await self.call.receive()
        assert isinstance(response, beat_pb2.BeatResponse), "the stream ended"
        assert response.sequence == self.sequence
        return list(response.unheard)

    async def error(self) -> BraidError:
        """What the stream ends with."""
        assert self.call is not None
        try:
            while await self.call.receive() is not None:
                pass
        except BraidError as error:
            return error
        raise AssertionError("the stream did not end in an error")


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
                await mesh.host.clock.sleep(min(lease_ms / 4_000, 0.5) + 0.01)
                assert counts["join"] >= len(members), "not all beat on their Join streams when they were due"
                await mesh.until(lambda: carried(members[0]) == len(members), seconds=5.0)
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

    async def heard_and_no_more(self: servicer_beats.Beats, term: Term, origin: object, stream: DuplexServing) -> None:
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
        with patch.object(servicer_beats.Beats, "_answer", heard_and_no_more):
            await mesh.host.clock.sleep(10 * lease_ms / 1000)
        assert questions > 1
        assert [member.holds for member in members] == before
        await mesh.until(lambda: carried(members[0]) == len(members), seconds=10.0)
        await check(mesh)

    run(scenario())


def test_a_member_that_leaves_its_neighbours_leaves_them_alone() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 3)
        await members[1].session.leave("enough")
        mesh.participants.remove(members[1])
        await mesh.settled(2)
        assert carried(members[0]) == 2
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


def test_loads_and_clusters_out_of_reach_are_told_when_they_change() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await shared(mesh, 2)
        measured: list[tuple[str, int]] = []

        def note(self: GroupKeeper, member: str, samples: Sequence[Any]) -> None:
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
    """What Beat streams tell of clusters."""
    told: list[tuple[str, list[str]]] = []
    take = servicer_joins.MemberSession.news

    def note(self: servicer_joins.MemberSession, news: beat_pb2.MemberNews) -> None:
        if news.HasField("unreachable"):
            told.append((self.key.member, list(news.unreachable.clusters)))
        take(self, news)

    with patch.object(servicer_joins.MemberSession, "news", note):
        yield told


def test_an_assigner_that_gives_no_tickets_is_served_as_ever() -> None:
    async def scenario() -> None:
        with patch.object(servicer_joins, "BEATS", "of no release"), counted() as counts:
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


# --- bare streams, good and bad


async def welcomed(mesh: Mesh, process: str = "wire", **fields: object) -> tuple[Wire, int]:
    """A Join stream and its ticket."""
    wire = Wire(mesh, process)
    return wire, (await wire.hello(capabilities=["beats"], **fields)).ticket


def test_a_ticket_counts_on_its_own_connection_while_its_stream_is_open() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire, ticket = await welcomed(mesh)
        other, foreign = await welcomed(mesh, "other")
        beats, strange = BeatWire(mesh), BeatWire(mesh, "nobody")
        assert await beats.unheard() == []
        assert await beats.unheard(ticket, foreign, 0, -1, ticket + 1_000) == [foreign, 0, -1, ticket + 1_000]
        assert await strange.unheard(ticket, foreign) == [ticket, foreign]
        assert wire.call is not None
        await wire.call.close()
        await mesh.until(lambda: len(mesh.state().members) == 1)
        assert await beats.unheard(ticket) == [ticket]
        assert await BeatWire(mesh, "other").unheard(foreign) == []
        await other.beat()

    run(scenario())


def test_a_stream_that_was_replaced_has_a_void_ticket() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        welcome = await wire.hello(capabilities=["beats"])
        again = Wire(mesh)
        newer = await again.hello(capabilities=["beats"], member_id=welcome.member_id)
        assert newer.ticket != welcome.ticket
        assert await BeatWire(mesh).unheard(welcome.ticket, newer.ticket) == [welcome.ticket]

    run(scenario())


def test_heartbeats_of_nobody_keep_nobody() -> None:
    """A connection that beats for tickets of others does not extend their deadlines."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        wire, ticket = await welcomed(mesh)
        thief = BeatWire(mesh, "thief")
        for _ in range(10):
            assert await thief.unheard(ticket) == [ticket]
            await mesh.host.clock.sleep(0.4)
        assert isinstance(await wire.error(), LeaseLost)
        assert mesh.state().members == {}

    run(scenario())


def test_a_member_whose_heartbeats_are_not_among_them_is_lost_alone() -> None:
    """A deadline is a member's own, though its neighbours' heartbeats come in the same stream."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        _, ticket = await welcomed(mesh)
        hung, forgotten = await welcomed(mesh)
        beats = BeatWire(mesh)
        for _ in range(10):
            assert await beats.unheard(ticket) == []
            await mesh.host.clock.sleep(0.4)
        assert isinstance(await hung.error(), LeaseLost)
        assert len(mesh.state().members) == 1
        assert await beats.unheard(ticket, forgotten) == [forgotten]
        assert [e.reason for e in await mesh.events() if isinstance(e, MemberGone)] == [GoneReason.EXPIRED]

    run(scenario())


def test_a_deposed_leader_answers_nobody() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        _, ticket = await welcomed(mesh)
        beats = BeatWire(mesh)
        assert await beats.unheard(ticket) == []
        leader = await mesh.leader()
        mesh.stores[leader.instance].disconnect()
        await mesh.until(lambda: not leader.leading())
        await beats.send(ticket)
        assert isinstance(await beats.error(), NotLeader)

    run(scenario())


async def _flood_joins(mesh: Mesh) -> BraidError:
    wire, _ = await welcomed(mesh, "flood")

    async def send() -> None:
        for _ in range(3 * HEARTBEAT_MESSAGES_AT_ONCE):
            await wire.beat()

    return await _error_of(send, wire.error)


async def _flood_beats(mesh: Mesh) -> BraidError:
    _, ticket = await welcomed(mesh, "flood")
    beats = BeatWire(mesh, "flood")

    async def send() -> None:
        for _ in range(3 * HEARTBEAT_MESSAGES_AT_ONCE):
            await beats.unheard(ticket)

    return await _error_of(send, beats.error)


async def _error_of(
    send: Callable[[], Coroutine[Any, Any, None]], error: Callable[[], Coroutine[Any, Any, BraidError]]
) -> BraidError:
    reading = asyncio.ensure_future(error()) if send.__qualname__.startswith("_flood_joins") else None
    try:
        await send()
    except BraidError as refused:
        return await reading if reading else refused
    return await (reading or error())


@pytest.mark.parametrize("flood", [_flood_joins, _flood_beats])
def test_a_flood_of_heartbeats_is_ended_and_costs_others_nothing(
    flood: Callable[[Mesh], Coroutine[Any, Any, BraidError]],
) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        neighbours = await mesh.joined(2)
        hung = (await Wire(mesh, "hung").hello()).member_id
        flooding = asyncio.ensure_future(flood(mesh))
        seconds = await mesh.until(lambda: hung not in mesh.state().members)
        assert 3.0 <= seconds <= 3.2, "who hangs is seen in time all the same"
        error = await flooding
        assert isinstance(error, Exhausted)
        assert error.field == "heartbeat"
        assert all(member.session.attached for member in neighbours)
        assert mesh.failures == []

    run(scenario())


def test_a_message_of_ten_megabytes_is_refused() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        neighbours = await mesh.joined(2)
        wire, ticket = await welcomed(mesh)
        beats = BeatWire(mesh)
        load = join_pb2.LeaseLoad(lease="x" * 10_000_000)
        await beats.send(ticket, news=[beat_pb2.MemberNews(ticket=ticket, loads=[load])])
        await wire.send(join_pb2.JoinRequest(heartbeat=join_pb2.Heartbeat(sequence=1, loads=[load])))
        for error in (await beats.error(), await wire.error()):
            assert isinstance(error, Exhausted)
            assert str(LEASE_MESSAGE_BYTES_MAX) in error.message
        assert all(member.session.attached for member in neighbours)
        assert mesh.failures == []

    run(scenario())


def test_messages_no_client_sends_are_refused() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await welcomed(mesh)
        late, many = BeatWire(mesh), BeatWire(mesh)
        await late.send(sequence=7)
        error = await late.error()
        assert isinstance(error, Invalid)
        assert error.field == "sequence"
        await many.send(*range(BEAT_MEMBERS_MAX + 1))
        error = await many.error()
        assert isinstance(error, Invalid)
        assert error.field == "tickets"

    run(scenario())


def test_a_connection_has_few_beat_streams() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        streams = [BeatWire(mesh) for _ in range(BEAT_STREAMS_MAX + 1)]
        for stream in streams[:-1]:
            assert await stream.unheard() == []
        await streams[-1].send()
        assert isinstance(await streams[-1].error(), Exhausted)
        assert await BeatWire(mesh, "other").unheard() == []
        assert streams[0].call is not None
        await streams[0].call.close()
        assert await BeatWire(mesh).unheard() == []

    run(scenario())


def test_a_client_that_does_not_read_answers_loses_its_beat_stream_only() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        neighbours = await mesh.joined(2)
        wire, ticket = await welcomed(mesh)
        beats = BeatWire(mesh)

        async def flood() -> None:
            for _ in range(3 * STREAM_INBOX_MESSAGES_MAX):
                await beats.send(ticket)

        flooding = asyncio.ensure_future(flood())
        for _ in range(8):
            await mesh.host.clock.sleep(BEAT_ANSWER_SECONDS / 6)
            await wire.beat()
        flooding.cancel()
        error = await beats.error()
        assert isinstance(error, Exhausted)
        assert len(mesh.state().members) == 3
        assert all(member.session.attached for member in neighbours)

    run(scenario())


def test_a_member_that_does_not_read_is_shed_and_nobody_waits_for_it() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        neighbours = await mesh.joined(2)
        wire, _ = await welcomed(mesh)

        async def beat() -> None:
            while True:
                await wire.beat()
                await mesh.host.clock.sleep(0.021)

        beating = asyncio.ensure_future(beat())
        await mesh.until(lambda: len(mesh.state().members) == 2, seconds=120.0)
        beating.cancel()
        await mesh.settled(2)
        error = await wire.error()
        assert isinstance(error, Exhausted)
        assert "too slowly" in error.message
        assert all(member.session.attached for member in neighbours)

    run(scenario())


def test_what_was_never_granted_cannot_be_given_back() -> None:
    """Neither leases of others, nor such as do not exist, however often: it leads to no decision."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(2)
        wire, _ = await welcomed(mesh)
        ((lease, epoch),) = granted(await wire.next("delta"))
        before = await mesh.events()
        asked: list[int] = []

        def note(self: GroupKeeper, member: str, releases: Sequence[object]) -> None:
            asked.append(len(releases))

        foreign = [(str(held.id), held.epoch) for held in members[0].holds.values()]
        with patch.object(GroupKeeper, "release", note):
            for _ in range(200):
                await wire.give_back([*foreign, (lease, epoch + 1), ("logs/live/9/9", 1), ("no lease", 0)])
            await wire.give_back([(lease, epoch)])
            await wire.give_back([(lease, epoch)])  # told twice
            await mesh.until(lambda: bool(asked))
            await mesh.host.clock.sleep(0.1)
        assert asked == [1]
        assert await mesh.events() == before

    run(scenario())
