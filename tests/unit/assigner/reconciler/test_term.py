"""Whole assigners on virtual time with the SDK's lease sessions: joins, deaths, hangs, leader changes, hand-overs."""

from collections.abc import Sequence

import pytest

from braid.client.membership.join_stream import JoinStream
from braid.client.records.delivery import OwnedLease
from braid.kernel.ids import LeaseId
from braid.stores.memory import Fate
from services.assigner.model.events import GoneReason, GroupIdleExpired, LeasesGranted, LeasesReleased, MemberGone
from services.assigner.model.group import LeaseState
from tests.unit.assigner.mesh import Mesh, Participant, Told
from tests.unit.assigner.reconciler.terms import check, check_never_two, holdings, run


def test_three_members_share_evenly() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=["logs/live/1", "logs/bulk/1"])
        members = await mesh.joined(3)
        assert sorted(len(member.holds) for member in members) == [2, 3, 3]
        await check(mesh)

    run(scenario())


def test_members_that_join_together_are_filled_within_a_minute() -> None:
    """The moves of a minute grow with the members who came in it: else a scale-out would wait for the next one."""

    async def scenario() -> None:
        mesh = await Mesh().start(channels=[])
        mesh.channel("logs/live/1", 24)
        (first,) = await mesh.joined(1)
        others = [Participant(mesh, f"web-{number}") for number in (2, 3, 4)]
        await mesh.until(lambda: all(len(each.holds) == 6 for each in (first, *others)), 10.0)
        await check(mesh)

    run(scenario())


def test_a_killed_member_is_replaced_at_once() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(3)
        members[1].kill()
        assert await mesh.settled(2) < 0.05
        gone = [event for event in await mesh.events() if isinstance(event, MemberGone)]
        assert [event.reason for event in gone] == [GoneReason.DISCONNECTED]
        await check(mesh)

    run(scenario())


@pytest.mark.parametrize("lease_ms", [300, 1_000, 3_000])
def test_a_hung_member_is_replaced_after_the_lease_time(lease_ms: int) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(2, lease_ms=lease_ms)
        mesh.network.cut("web-1", "assigner-0")
        took = await mesh.until(lambda: len(members[1].holds) == 4)
        lease = lease_ms / 1000
        assert lease * 0.75 - 0.01 <= took <= lease + 0.1, took  # it was last heard up to a quarter of the lease ago
        mesh.network.heal("web-1", "assigner-0")
        await mesh.settled(2)
        await check(mesh)

    run(scenario())


def test_a_leaving_member_gets_back_nothing_it_gives_up() -> None:
    async def scenario() -> None:
        mesh = await Mesh(seed=2).start(assigners=2)
        members = await mesh.joined(3)
        leaver = members[0]
        await leaver.session.leaving()
        before = len(mesh.changes)
        given = sorted(leaver.holds.items())
        await give_back(mesh, leaver, given[0])
        mesh.processes[(await mesh.leader()).instance].kill()
        await mesh.leader()
        await mesh.host.clock.sleep(10.0)  # on a new stream it says again that it is leaving
        for each in given[1:]:
            await give_back(mesh, leaver, each)
        await leaver.session.leave("deploy")
        leaver.kill()
        await mesh.settled(2)
        told = mesh.changes[before:]
        assert [each for each in told if each.client_id == leaver.client_id and each.what == "granted"] == []
        epochs = [each.epoch for each in told if each.what == "granted"]
        assert len(epochs) == len(given)  # each moved once
        await check(mesh)

    run(scenario())


async def give_back(mesh: Mesh, member: Participant, lease: tuple[LeaseId, OwnedLease]) -> None:
    """A member has drained a lease; then somebody else has it."""
    del member.holds[lease[0]]
    await member.session.release(lease[0], lease[1].epoch)
    others = [each for each in mesh.participants if each is not member]
    await mesh.until(lambda: any(lease[0] in other.holds for other in others))


def test_a_member_that_leaves_hands_over_without_waiting() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(2)
        for lease, held in list(members[0].holds.items()):
            del members[0].holds[lease]
            await members[0].session.release(lease, held.epoch)
        await members[0].session.leave("deploy")
        members[0].kill()
        assert await mesh.settled(1) < 0.05
        gone = [event for event in await mesh.events() if isinstance(event, MemberGone)]
        assert [event.reason for event in gone] == [GoneReason.LEFT]
        await check(mesh)

    run(scenario())


# --- reconnects


def test_a_broken_exclusive_stream_costs_nothing_on_return() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(2, exclusive=True)
        before = holdings(members)
        mesh.network.kill("web-1")  # its connections break; the process lives on and joins again
        await mesh.host.clock.sleep(5)
        assert holdings(members) == before
        await check(mesh)

    run(scenario())


def test_a_broken_stream_of_an_ordinary_member_moves_its_leases() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.joined(2)
        before = mesh.state().last_epoch
        mesh.network.kill("web-1")
        await mesh.until(lambda: mesh.state().last_epoch > before)
        await mesh.settled(2)
        await check(mesh)

    run(scenario())


# --- exclusive groups


def test_an_exclusive_member_is_waited_out() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(3, lease_ms=1_000, exclusive=True)
        members[1].kill()
        took = await mesh.settled(2)
        assert 0.7 <= took <= 1.1, took
        check_never_two(mesh.changes)
        await check(mesh)

    run(scenario())


class DeadlineFromTheReply(JoinStream):
    """A mutant: the deadline counts from when the reply came."""

    def _acknowledged(self, sequence: int) -> None:
        self._held.extend(self._host.clock.elapsed())


async def delayed_reply(mutant: bool, monkeypatch: pytest.MonkeyPatch) -> Sequence[Told]:
    """The reply to an exclusive member's last heartbeat arrives late, then nothing more."""
    if mutant:
        monkeypatch.setattr("braid.client.membership.lease_session.JoinStream", DeadlineFromTheReply)
    mesh = await Mesh().start()
    members = await mesh.joined(2, lease_ms=1_000, exclusive=True)
    mesh.network.cut("assigner-0", "web-1", one_way=True)
    await mesh.host.clock.sleep(0.3)
    mesh.network.cut("assigner-0", "web-1")
    await mesh.host.clock.sleep(0.5)
    mesh.network.heal("assigner-0", "web-1")
    mesh.network.cut("web-1", "assigner-0", one_way=True)
    await mesh.until(lambda: len(members[1].holds) == 4)
    await mesh.host.clock.sleep(3)
    await check(mesh)
    return mesh.changes


def test_a_late_reply_prolongs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        check_never_two(await delayed_reply(False, monkeypatch))

    run(scenario())


def test_a_deadline_counted_from_the_reply_fails_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        with pytest.raises(AssertionError, match="when web-2 gets it"):
            check_never_two(await delayed_reply(True, monkeypatch))

    run(scenario())


def test_an_exclusive_member_keeping_a_revoked_lease_is_cut_off() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        Participant(mesh, "web-1", lease_ms=1_000, exclusive=True, drain_seconds=3_600)
        await mesh.settled(1)
        other = Participant(mesh, "web-2", lease_ms=1_000, exclusive=True)
        took = await mesh.until(lambda: len(other.holds) >= 2)
        assert 30.0 <= took <= 33.0, took
        check_never_two(mesh.changes)
        await check(mesh)

    run(scenario())


# --- revokes


def test_an_overdue_revoke_is_taken_from_an_ordinary_member() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        Participant(mesh, "web-1", drain_seconds=3_600)
        await mesh.settled(1)
        Participant(mesh, "web-2")
        took = await mesh.settled(2)
        assert 30.0 <= took <= 30.2, took
        assert [told.client_id for told in mesh.changes if told.what == "lost"] == ["web-1", "web-1"]
        await check(mesh)

    run(scenario())


def test_a_revoke_goes_on_under_the_next_leader() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        Participant(mesh, "web-1", drain_seconds=10)
        await mesh.settled(1)
        Participant(mesh, "web-2")
        await mesh.until(lambda: any(x.state is LeaseState.REVOKING for x in mesh.state().leases.values()))
        mesh.processes[(await mesh.leader()).instance].kill()
        took = await mesh.settled(2)
        assert took <= 10.5, took
        await check(mesh)

    run(scenario())


def test_a_brief_store_outage_delays_but_loses_no_signal() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = await mesh.joined(3)
        store = mesh.stores["assigner-0"]
        store.fate = lambda operation: Fate.ANSWER_LOST if operation == "append" else Fate.ANSWERED
        members[0].kill()
        await mesh.host.clock.sleep(1)
        store.fate = lambda operation: Fate.ANSWERED
        await mesh.settled(2)
        await check(mesh)

    run(scenario())


def test_many_members_come_and_go() -> None:
    async def scenario() -> None:
        mesh = await Mesh(seed=7).start(assigners=2, channels=[f"logs/live/{n}" for n in range(1, 6)])
        members = await mesh.joined(12, lease_ms=1_000)
        for victim in members[:6]:
            victim.kill()
            await mesh.host.clock.sleep(0.02)
        await mesh.settled(6)
        granted = [event for event in await mesh.events() if isinstance(event, LeasesGranted)]
        released = [event for event in await mesh.events() if isinstance(event, LeasesReleased)]
        assert granted
        assert released
        await check(mesh)

    run(scenario())


def test_an_idle_group_expires_by_event() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.channel("logs/live/1")
        await mesh.replica("registry-0")
        await mesh.replica("assigner-0", group_idle_expiry_seconds=60.0)
        await mesh.leader()
        members = await mesh.joined(1)
        await mesh.host.clock.sleep(100)
        assert not mesh.state().idle_expired
        members[0].kill()
        await mesh.until(lambda: mesh.state().idle_expired, 80)
        assert isinstance((await mesh.events())[-1], GroupIdleExpired)
        again = Participant(mesh, "web-9")
        await mesh.until(lambda: len(again.holds) == 4)
        assert not mesh.state().idle_expired
        await check(mesh)

    run(scenario())
