"""Groups of tens of thousands of leases: each event fits one append, and an error ends no group's loop."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest

from braid.kernel.errors import Exhausted
from braid.kernel.ids import ChannelId, make_epoch
from braid.kernel.limits.names import PARTITIONS_MAX
from braid.kernel.limits.store import APPEND_BYTES_MAX
from services.assigner.domain.decide import GroupDecider
from services.assigner.model.channels import CloseChannel
from services.assigner.model.commands import (
    Command,
    JoinMember,
    Release,
    ReleaseLeases,
    RemoveMember,
    TakeOverdue,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    LeasesReleased,
)
from services.assigner.model.group import Channel, Group, GroupSpec, Lease, LeaseState, Member
from services.assigner.policy.balance import balance
from services.assigner.policy.by_number import place
from services.assigner.reconciler import member_pushes
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer import member_session
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import context, hello, member
from tests.unit.assigner.mesh import Mesh, Participant

LONGEST = "x" * 63
HOLDER = member(1)
CHANNELS = tuple(f"{LONGEST}/{lane * 63}/999999" for lane in "abc")


def large(state: LeaseState = LeaseState.HELD, members: Sequence[str] = (HOLDER,)) -> Group:
    """One member holds three of the largest channels, under the longest names there are."""
    leases: dict[str, Lease] = {}
    for channel in CHANNELS:
        for partition in range(PARTITIONS_MAX):
            leases[f"{channel}/{partition}"] = Lease(state, HOLDER, make_epoch(1, len(leases) + 1), 0)
    return Group(
        "indexer",
        GroupSpec((LONGEST,)),
        members={id: Member(id, "web", "", 0, 1, (), "peer", 0) for id in members},
        channels={
            name: Channel(ChannelId.parse(name), "east", f"t{number}", PARTITIONS_MAX, True, 1, True)
            for number, name in enumerate(CHANNELS)
        },
        leases=leases,
        last_epoch=make_epoch(1, len(leases)),
    )


def given_back(state: Group) -> ReleaseLeases:
    return ReleaseLeases(HOLDER, tuple(Release(name, lease.epoch, True) for name, lease in state.leases.items()))


def check_all_freed_in_parts(events: Sequence[Event], count: int) -> None:
    """Every lease is freed once, and no event is too large for an append."""
    freed = [each.lease for event in events if isinstance(event, LeasesReleased) for each in event.leases]
    assert len(freed) == len(set(freed)) == count
    for event in events:
        assert len(GROUPS.codec.encode(event, context())) <= APPEND_BYTES_MAX - 1_000


@pytest.mark.parametrize("reason", list(GoneReason))
def test_a_member_with_very_many_leases_may_go(reason: GoneReason) -> None:
    check_all_freed_in_parts(GroupDecider().decide(large(), RemoveMember(HOLDER, reason), context()), 30_000)


def test_very_many_leases_may_be_released_dropped_or_orphaned() -> None:
    state, revoking = large(), large(LeaseState.REVOKING)
    overdue = TakeOverdue(tuple((name, lease.epoch) for name, lease in revoking.leases.items()))
    cases: list[tuple[Group, Command, int]] = [
        (state, given_back(state), 30_000),
        (revoking, overdue, 30_000),
        (state, JoinMember(hello(HOLDER), GroupSpec((LONGEST,))), 30_000),
        (state, CloseChannel(CHANNELS[0], 2), 10_000),
    ]
    for group, command, count in cases:
        check_all_freed_in_parts(GroupDecider().decide(group, command, context()), count)
    check_all_freed_in_parts(balance(large(members=()), (), context(), place), 30_000)


def test_a_decision_that_fails_is_tried_again_and_ends_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        aggregates = (await mesh.leader()).aggregates
        execute = aggregates.execute
        refused: list[object] = []

        async def refusing(kind: object, id: str, command: object, **context: str) -> object:
            if context["actor"] == "assigner-0" and len(refused) < 3:
                refused.append(command)
                raise Exhausted("too much at once")
            return await execute(kind, id, command, **context)  # type: ignore[arg-type]  # as it was called

        monkeypatch.setattr(aggregates, "execute", refusing)
        Participant(mesh, "web-1")
        await mesh.settled(1)
        assert len(refused) == 3 and not mesh.failures

    run_virtual(scenario())


def test_a_snapshot_of_a_large_group_is_written_piece_by_piece() -> None:
    state = large(members=[member(number) for number in range(2, 5_000)])
    whole = GROUPS.codec.encode_state(state)
    pieces = list(GROUPS.codec.state_pieces(state))  # type: ignore[attr-defined]  # of `PiecewiseCodec`
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) < len(whole) / 20, "the event loop waits for one of them"
    read = GROUPS.codec.decode_state(whole)
    assert (dict(read.leases), dict(read.members)) == (dict(state.leases), dict(state.members))


def test_members_are_told_in_turns_and_in_parts_what_is_granted() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.channel("logs/live/1", 24)
        with patch.object(member_pushes, "FLUSHES_AT_ONCE", 1), patch.object(member_session, "DELTA_LEASES_MAX", 3):
            await mesh.start(channels=())
            members = [Participant(mesh, f"web-{number}", fenced=True) for number in range(3)]
            await mesh.settled(3)
            assert [len(each.holds) for each in members] == [8, 8, 8]
            members[0].kill()
            await mesh.settled(2)
            assert [len(each.holds) for each in members[1:]] == [12, 12]
            for each in members[1:]:
                assert each.lent_generations["east"], "leases came without what their commits carry"
        assert mesh.failures == []

    run_virtual(scenario())
