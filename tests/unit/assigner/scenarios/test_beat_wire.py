"""Bare Beat streams, good and bad: what a ticket is worth, and what becomes of who floods, mumbles or does not read."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import beat_pb2, join_pb2
from braid.kernel.errors import BraidError, Exhausted, Invalid, LeaseLost, NotLeader
from braid.kernel.limits.assigner.leases import (
    BEAT_ANSWER_SECONDS,
    BEAT_MEMBERS_MAX,
    BEAT_STREAMS_MAX,
    HEARTBEAT_MESSAGES_AT_ONCE,
    LEASE_MESSAGE_BYTES_MAX,
)
from braid.kernel.limits.rpc import STREAM_INBOX_MESSAGES_MAX
from braid.kernel.ports import DuplexCall
from services.assigner.model.events import GoneReason, MemberGone
from services.assigner.reconciler.group_loop import GroupKeeper
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire, granted


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


class BeatWire:
    """A Beat stream without a client session."""

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
        """The error that ends the stream."""
        assert self.call is not None
        try:
            while await self.call.receive() is not None:
                pass
        except BraidError as error:
            return error
        raise AssertionError("the stream did not end in an error")


# --- bare streams, good and bad


async def welcomed(mesh: Mesh, process: str = "wire", **fields: object) -> tuple[Wire, int]:
    """A Join stream and its ticket."""
    wire = Wire(mesh, process)
    return wire, (await wire.hello(capabilities=["beats"], **fields)).ticket


def test_a_ticket_counts_only_on_its_connections_open_stream() -> None:
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


def test_a_member_missing_from_the_heartbeats_is_lost_alone() -> None:
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


def test_a_client_not_reading_answers_loses_only_its_beat_stream() -> None:
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


def test_a_member_that_does_not_read_is_shed_without_waiting() -> None:
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

        def note(self: GroupKeeper, member: str, releases: Sequence[object], trace: str = "") -> None:
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
