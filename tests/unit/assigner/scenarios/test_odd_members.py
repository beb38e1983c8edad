"""Members that are older, doubled, absurd or from the future: each is contained, and nobody beside them suffers.

A bad hello is refused in `test_servicer`, floods and messages too large in `test_beats`, hostile loads in `test_loads`.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.kernel.errors import LeaseLost
from braid.kernel.ids import make_epoch
from braid.kernel.limits.rpc import STREAM_CLOSE_SECONDS
from braid.rpc.memory.transport import MemoryDuplexServing
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant, Wire, granted

INT64_MAX = (1 << 63) - 1


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def held(leases: list[tuple[str, int]]) -> list[join_pb2.HeldLease]:
    """Held leases in the form that a hello has."""
    return [join_pb2.HeldLease(lease=lease, epoch=epoch) for lease, epoch in leases]


@pytest.mark.parametrize("epoch", [make_epoch(2, 1), INT64_MAX])
def test_a_future_epoch_holds_nothing_and_raises_no_other(epoch: int) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        one = Wire(mesh, "one")
        welcome = await one.hello()
        mine = granted(await one.next("delta"))
        again = Wire(mesh, "one")
        kept = (await again.hello(member_id=welcome.member_id, held=held([(lease, epoch) for lease, _ in mine]))).kept
        assert list(kept) == []
        anew = granted(await again.next("delta"))
        assert sorted(lease for lease, _ in anew) == sorted(lease for lease, _ in mine)
        assert max(epoch for _, epoch in mine) < min(each for _, each in anew) < epoch
        await again.give_back([(lease, epoch) for lease, _ in anew])  # as little as it could hold it
        await again.beat()
        await again.next("heartbeat")
        assert {lease: state.holder for lease, state in mesh.state().leases.items()} == {
            lease: welcome.member_id for lease, _ in mine
        }

    run(scenario())


def test_of_two_with_one_id_only_the_ghost_is_fenced() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        ghost, newcomer = Wire(mesh, "ghost"), Wire(mesh, "newcomer")
        welcome = await ghost.hello()
        old = granted(await ghost.next("delta"))
        await newcomer.hello(member_id=welcome.member_id)
        new = granted(await newcomer.next("delta"))
        assert isinstance(await ghost.error(), LeaseLost)
        assert min(epoch for _, epoch in new) > max(epoch for _, epoch in old)
        await ghost.call.close() if ghost.call else None
        await newcomer.give_back(old)  # what the ghost had is not the newcomer's to give back either
        await mesh.host.clock.sleep(1.0)
        await newcomer.beat()
        await newcomer.next("heartbeat")
        assert {lease: state.epoch for lease, state in mesh.state().leases.items()} == dict(new)
        assert list(mesh.state().members) == [welcome.member_id]

    run(scenario())


@pytest.mark.parametrize("number", [-1, -(1 << 63), INT64_MAX])
def test_absurd_loads_end_no_stream_and_move_nothing_of_others(number: int) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        calm = Participant(mesh, "calm")
        await mesh.settled(1)
        odd = Wire(mesh, "odd")
        await odd.hello()
        lease, _ = granted(await odd.next("delta"))[0]
        theirs = dict(calm.holds)
        for _ in range(40):
            odd.sequence += 1
            load = join_pb2.LeaseLoad(
                lease=lease, records=number, bytes=number, busy_micros=number, oldest_unfinished_ms=number
            )
            stranger = join_pb2.LeaseLoad(lease=str(next(iter(theirs))), busy_micros=INT64_MAX)
            beat = join_pb2.Heartbeat(sequence=odd.sequence, loads=[load, stranger])
            await odd.send(join_pb2.JoinRequest(heartbeat=beat))
            await odd.next("heartbeat")
            await mesh.host.clock.sleep(0.5)
        assert theirs.items() <= calm.holds.items(), "what another says of a lease is not heard"
        assert not mesh.failures

    run(scenario())


def test_refusals_and_acknowledgements_of_nothing_change_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        only = Participant(mesh, "only", fenced=True)
        await mesh.settled(1)
        await mesh.until(lambda: bool(only.lent_generations))
        odd = Wire(mesh, "odd")
        await odd.hello(capabilities=["generations"], spec=group_pb2.GroupSpec())
        before = len(await mesh.events())
        for cluster in ("east", "nowhere", ""):
            never = join_pb2.BorrowedGeneration(generation=10_000, member_id="nobody")
            await odd.send(
                join_pb2.JoinRequest(commit_refused=join_pb2.CommitRefused(cluster=cluster, generation=never))
            )
        await odd.send(join_pb2.JoinRequest(acknowledge=join_pb2.Acknowledge(delta_sequence=INT64_MAX)))
        await odd.beat()
        await odd.next("heartbeat")
        await mesh.host.clock.sleep(2.0)
        told = (await mesh.events())[before:]
        assert [event for event in told if type(event).__name__ in ("BumpIntended", "GenerationBumped")] == []
        assert not mesh.failures

    run(scenario())


def test_members_of_two_releases_share_a_group() -> None:
    """The older one names no capabilities, and sends a kind of message that nobody knows any more."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        newer = Participant(mesh, "newer")
        await mesh.settled(1)
        older = Wire(mesh, "older")
        welcome = await older.hello(spec=group_pb2.GroupSpec())
        assert welcome.spec.fencing == group_pb2.FENCING_NONE
        await older.send(join_pb2.JoinRequest())
        mine: list[tuple[str, int]] = []
        while len(mine) < 2:
            mine += granted(await older.next("delta"))
        await mesh.until(lambda: len(newer.holds) == 2)
        assert not {str(lease) for lease in newer.holds} & {lease for lease, _ in mine}
        assert {lease: state.epoch for lease, state in mesh.state().leases.items()}.items() >= dict(mine).items()

    run(scenario())


def test_a_stream_ends_after_the_message_that_is_under_way() -> None:
    """grpc cannot say how a stream ended beside a send that was given up: it fails, and logs that it did."""
    given_up = 0

    async def scenario() -> None:
        nonlocal given_up
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello()
        send = MemoryDuplexServing.send

        async def slowly(self: MemoryDuplexServing, message: object) -> None:
            nonlocal given_up
            try:
                await mesh.host.clock.sleep(0.3)
                await send(self, message)
            except asyncio.CancelledError:
                given_up += 1
                raise

        with patch.object(MemoryDuplexServing, "send", slowly):
            await wire.beat()
            await mesh.host.clock.sleep(0.1)
            assert wire.call is not None
            await wire.call.close()
            await mesh.host.clock.sleep(1.0)
        assert mesh.failures == []

    run(scenario())
    assert not given_up


def test_nobody_waits_for_a_message_that_is_not_read() -> None:
    ended = 0

    async def scenario() -> None:
        nonlocal ended
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello()

        async def never(self: MemoryDuplexServing, message: object) -> None:
            nonlocal ended
            try:
                await asyncio.Event().wait()
            finally:
                ended += 1

        with patch.object(MemoryDuplexServing, "send", never):
            await wire.beat()
            await mesh.host.clock.sleep(0.1)
            mesh.network.kill("wire")
            await mesh.until(lambda: not mesh.state().members, seconds=0.2)
            await mesh.until(lambda: ended > 0, seconds=STREAM_CLOSE_SECONDS + 0.1)
        assert mesh.failures == []

    run(scenario())
