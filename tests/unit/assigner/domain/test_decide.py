"""The events that each command leads to, rule by rule."""

from collections.abc import Mapping
from typing import Any

import pytest

from braid.kernel.errors import AlreadyExists, BraidError, Conflict, Exhausted, Invalid, NotFound, Refused, Unavailable
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits.assigner.leases import GROUP_MEMBERS_MAX
from services.assigner.domain.admission import etag_of
from services.assigner.model.channels import (
    ChannelObserved,
    CloseChannel,
    Presence,
)
from services.assigner.model.commands import (
    Balance,
    Command,
    DeleteGroup,
    FixStart,
    JoinMember,
    LookAtIdle,
    ObserveChannels,
    RegisterGroup,
    Release,
    ReleaseLeases,
    RemoveMember,
    TakeOverdue,
    Together,
    UpdateGroup,
)
from services.assigner.model.events import (
    GoneReason,
    GroupIdleAlerted,
    GroupIdleExpired,
    GroupRegistered,
    GroupUpdated,
    LeaseGrant,
    LeasesGranted,
    LeasesReleased,
    MemberGone,
    MemberJoined,
    ReleaseReason,
    RevokesStarted,
    StartFixed,
)
from services.assigner.model.group import GroupSpec, LeaseState, Ownership, StartKind, StartPosition
from tests.unit.assigner.groups import SPEC, History, context, hello, joined, member, observe, registered, seen, view


def refusal(history: History, command: Command) -> BraidError:
    """The error a command is refused with; nothing has changed."""
    before = history.state
    with pytest.raises(BraidError) as refused:
        history.do(command)
    assert history.state == before
    return refused.value


# --- registration


def test_the_first_join_registers_the_group_and_its_channels() -> None:
    history = History()
    standby = seen("logs/live/2", presence=Presence.AHEAD)
    events = history.do(JoinMember(hello(member(1)), SPEC, view=view(10, seen(), standby, seen("logs/dlq/1"))))
    assert [type(event) for event in events] == [GroupRegistered, ChannelObserved, MemberJoined]
    assert history.state.channels["logs/live/1"].awaits_start
    assert history.do(Balance((member(1),))) == []  # nothing is granted before the start is fixed
    assert history.do(FixStart("logs/live/1", (0, 0, 0, 0))) == [StartFixed("logs/live/1", (0, 0, 0, 0))]
    assert len(history.do(Balance((member(1),)))[0].grants) == 4  # type: ignore[union-attr]  # a grant
    assert history.do(FixStart("logs/live/1", (9, 9, 9, 9))) == []


def test_a_channel_that_appears_later_needs_no_start() -> None:
    history = registered()
    (event,) = observe(history, 11, seen("logs/live/2", 2))
    assert isinstance(event, ChannelObserved)
    assert event.appeared_later
    assert history.state.channels["logs/live/2"].grantable


def test_without_the_registrys_view_nothing_is_registered() -> None:
    assert isinstance(refusal(History(), JoinMember(hello(member(1)), SPEC)), Unavailable)


@pytest.mark.parametrize(
    ("spec", "error", "field"),
    [
        (GroupSpec(()), Invalid, "spec.streams"),
        (GroupSpec(("No",)), Invalid, "spec.streams"),
        (GroupSpec(("nope",)), NotFound, "spec.streams"),
        (GroupSpec(("logs",), (("bulk", 1),)), NotFound, "spec.lanes.bulk"),
        (GroupSpec(("logs",), (("live", 0),)), Invalid, "spec.lanes.live"),
        (GroupSpec(("logs",), (("LIVE", 1),)), Invalid, "spec.lanes"),
        (GroupSpec(("logs",), tuple((f"l{n}", 1) for n in range(17))), Invalid, "spec.lanes"),
        (GroupSpec(("logs",), lease_ms=299), Invalid, "spec.lease_ms"),
        (GroupSpec(("logs",), lease_ms=60_001), Invalid, "spec.lease_ms"),
        (GroupSpec(("logs",), start=StartPosition(StartKind.TIME, -1)), Invalid, "spec.start.time_ms"),
    ],
)
def test_a_bad_spec_is_refused_by_field(spec: GroupSpec, error: type[BraidError], field: str) -> None:
    for command in (RegisterGroup(spec, view(1, seen())), JoinMember(hello(member(1)), spec, view=view(1, seen()))):
        refused = refusal(History(), command)
        assert (type(refused), refused.field) == (error, field)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (GroupSpec(("logs", "more")), "spec.streams"),
        (GroupSpec(("logs",), (("live", 1),)), "spec.lanes"),
        (GroupSpec(("logs",), ownership=Ownership.EXCLUSIVE), "spec.ownership"),
    ],
)
def test_a_member_must_ask_for_what_the_group_has(asked: GroupSpec, field: str) -> None:
    refused = refusal(registered(), JoinMember(hello(member(1)), asked))
    assert (type(refused), refused.field) == (Invalid, field)
    unsaid = frozenset({field.removeprefix("spec.")})
    assert registered().do(JoinMember(hello(member(1)), asked, unsaid))


def test_shares_lease_time_and_start_may_differ() -> None:
    history = registered(spec=GroupSpec(("logs",), (("live", 8),)))
    asked = GroupSpec(("logs",), (("live", 2),), lease_ms=500, start=StartPosition(StartKind.LATEST))
    assert history.do(JoinMember(hello(member(1)), asked))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"protocol_version": 0}, "hello.protocol_version"),
        ({"capacity": -1.0}, "hello.capacity"),
        ({"capacity": float("nan")}, "hello.capacity"),
        ({"capacity": 1e-300}, "hello.capacity"),
        ({"capacity": 1e300}, "hello.capacity"),
    ],
)
def test_a_bad_hello_is_refused_by_field(changes: Mapping[str, Any], field: str) -> None:
    assert refusal(registered(), JoinMember(hello(member(1), **changes), SPEC)).field == field
    assert refusal(registered(), JoinMember(hello("no-ulid"), SPEC)).field == "hello.member_id"


def test_a_full_group_takes_nobody_more() -> None:
    history = registered()
    for number in range(GROUP_MEMBERS_MAX):
        history.do(JoinMember(hello(member(number)), SPEC))
    assert isinstance(refusal(history, JoinMember(hello(member(GROUP_MEMBERS_MAX)), SPEC)), Exhausted)


# --- updates and deletion


def test_an_update_changes_lanes_and_asks_unwanted_leases_back() -> None:
    history = joined(1, seen(), seen("logs/bulk/1", 2))
    live = view(10, seen(), seen("logs/bulk/1", 2), seen("logs/dlq/1", 1))
    changed = GroupSpec(("logs",), (("dlq", 1), ("live", 1)))
    etag = etag_of(history.state)
    events = history.do(UpdateGroup(changed, live, etag))
    assert [type(event) for event in events] == [GroupUpdated, ChannelObserved]
    history.settle()
    assert sorted(history.holders()) == ["logs/dlq/1/0", *(f"logs/live/1/{n}" for n in range(4))]
    assert isinstance(refusal(history, UpdateGroup(SPEC, live, etag)), Conflict)
    assert history.do(UpdateGroup(changed, live)) == []


def test_start_and_ownership_of_a_living_group_stay() -> None:
    history = joined(1)
    start = GroupSpec(("logs",), start=StartPosition(StartKind.LATEST))
    exclusive = GroupSpec(("logs",), ownership=Ownership.EXCLUSIVE)
    assert refusal(history, UpdateGroup(start, view(10, seen()))).field == "spec.start"
    assert refusal(history, UpdateGroup(exclusive, view(10, seen()))).field == "spec.ownership"
    history.do(RemoveMember(member(1), GoneReason.LEFT))
    assert history.do(UpdateGroup(exclusive, view(10, seen())))


def test_a_deleted_groups_epochs_are_never_reused() -> None:
    history = joined(1)
    assert isinstance(refusal(history, DeleteGroup()), Refused)
    history.do(RemoveMember(member(1), GoneReason.LEFT))
    history.do(DeleteGroup())
    assert history.state.spec is None
    assert isinstance(refusal(history, DeleteGroup()), NotFound)
    last = history.state.last_epoch
    history.do(JoinMember(hello(member(2)), SPEC, view=view(11, seen())), FixStart("logs/live/1", (0, 0, 0, 0)))
    (granted,) = history.do(Balance((member(2),)))
    assert isinstance(granted, LeasesGranted)
    assert min(grant.epoch for grant in granted.grants) > last


def test_a_group_exists_once() -> None:
    assert isinstance(refusal(registered(), RegisterGroup(SPEC, view(11, seen()))), AlreadyExists)


def test_idleness_expires_by_event_and_ends_with_a_member() -> None:
    history = registered()
    assert history.give_up() == [GroupIdleAlerted(SPEC, 50), GroupIdleExpired()]
    history.do(JoinMember(hello(member(1)), SPEC))
    assert (history.state.idle_since_ms, history.state.idle_expired, history.state.idle_alerted) == (0, False, False)
    assert history.give_up() == []
    history.now_ms += 500
    history.do(RemoveMember(member(1), GoneReason.LEFT))
    assert history.state.idle_since_ms == history.now_ms


# --- channels


def test_silence_and_older_views_change_nothing() -> None:
    history = joined(1)
    gone = seen(presence=Presence.GONE)
    assert observe(history, 11) == []
    assert observe(history, 10, gone) == []
    assert observe(history, 9, gone, seen("logs/live/2")) == []
    assert observe(history, 11, seen(presence=Presence.AHEAD)) == []
    observed, released = observe(history, 11, gone)
    assert isinstance(observed, ChannelObserved)
    assert isinstance(released, LeasesReleased)
    assert (observed.consumable, released.reason) == (False, ReleaseReason.CHANNEL_GONE)
    assert history.state.leases == {}
    assert observe(history, 10, seen()) == []
    assert history.do(Balance((member(1),))) == []


def test_a_closed_channel_is_never_granted_again() -> None:
    history = joined(1)
    assert [type(event).__name__ for event in history.do(CloseChannel("logs/live/1", 12))] == [
        "ChannelClosed",
        "LeasesReleased",
    ]
    assert history.do(CloseChannel("logs/live/1", 13), CloseChannel("logs/live/9", 13)) == []
    assert observe(history, 20, seen()) == []
    assert history.do(Balance((member(1),))) == []


def test_a_channel_with_more_partitions_is_placed_whole() -> None:
    history = joined(2)
    observe(history, 11, seen(partitions=6))
    history.settle()
    assert len(history.holders()) == 6


# --- placement and hand-over


def test_revoke_comes_before_grant() -> None:
    history = joined(1)
    history.do(JoinMember(hello(member(2)), SPEC))
    (revoked,) = history.do(Balance((member(1), member(2))))
    assert isinstance(revoked, RevokesStarted)
    assert revoked.deadline_ms == history.now_ms + 30_000
    assert len(revoked.leases) == 2
    assert history.do(Balance((member(1), member(2)))) == []
    given = revoked.leases[0]
    (released,) = history.do(ReleaseLeases(member(1), (Release(given.lease, given.epoch, True),)))
    assert released == LeasesReleased((given,), ReleaseReason.RELEASED, (given.lease,))
    (granted,) = history.do(Balance((member(1), member(2))))
    assert isinstance(granted, LeasesGranted)
    (grant,) = granted.grants
    assert (grant.lease, grant.member) == (given.lease, member(2))
    assert grant.epoch > given.epoch


def test_late_repeated_and_foreign_releases_lead_to_nothing() -> None:
    history = joined(1)
    name, lease = next(iter(history.state.leases.items()))
    history.do(ReleaseLeases(member(1), (Release(name, lease.epoch),)))
    assert history.do(ReleaseLeases(member(1), (Release(name, lease.epoch),))) == []
    history.settle()
    assert history.do(ReleaseLeases(member(1), (Release(name, lease.epoch),))) == []  # an old epoch
    assert history.do(ReleaseLeases(member(3), (Release(name, history.state.leases[name].epoch),))) == []
    assert history.do(ReleaseLeases(member(1), (Release("logs/live/1/99", 1),))) == []


def test_an_overdue_revoke_is_taken() -> None:
    history = joined(1)
    history.do(JoinMember(hello(member(2)), SPEC))
    (revoked,) = history.do(Balance((member(1), member(2))))
    assert isinstance(revoked, RevokesStarted)
    judged = tuple((each.lease, each.epoch) for each in revoked.leases)
    assert history.do(TakeOverdue(((judged[0][0], judged[0][1] + 1),))) == []
    (taken,) = history.do(TakeOverdue(judged))
    assert taken == LeasesReleased(revoked.leases, ReleaseReason.TAKEN)
    assert history.do(TakeOverdue(judged)) == []
    held = next(name for name, lease in history.state.leases.items() if lease.state is LeaseState.HELD)
    assert history.do(TakeOverdue(((held, history.state.leases[held].epoch),))) == []


def test_a_lost_members_leases_are_granted_in_the_same_decision() -> None:
    history = joined(3, seen(partitions=9))
    before = history.holders()
    gone, released, granted = history.do(
        Together((RemoveMember(member(2), GoneReason.DISCONNECTED), Balance((member(1), member(3)))))
    )
    assert gone == MemberGone(member(2), GoneReason.DISCONNECTED)
    assert isinstance(released, LeasesReleased)
    assert isinstance(granted, LeasesGranted)
    assert released.reason is ReleaseReason.MEMBER_GONE
    assert {grant.lease for grant in granted.grants} == {name for name, who in before.items() if who == member(2)}
    assert history.do(RemoveMember(member(2), GoneReason.EXPIRED)) == []


def test_nothing_moves_or_is_granted_while_members_are_awaited() -> None:
    history = joined(2)
    history.do(JoinMember(hello(member(3)), SPEC))
    assert history.do(Balance((member(1), member(3)))) == []
    observe(history, 11, seen("logs/live/2", 2))
    (granted,) = history.do(Balance((member(1), member(3))))
    assert isinstance(granted, LeasesGranted)
    assert {grant.member for grant in granted.grants} == {member(3)}


def test_leases_of_nobody_are_healed() -> None:
    history = joined(2)
    history.do(RemoveMember(member(1), GoneReason.LEFT))
    ghost = LeaseGrant("logs/live/1/0", member(1), make_epoch(1, 99))
    history.state = history.decider.evolve(history.state, LeasesGranted((ghost,)), context())
    assert history.do(Balance((member(2),))) == [LeasesReleased((ghost,), ReleaseReason.MEMBER_GONE)]


def test_epochs_carry_the_incarnation_and_survive_its_loss() -> None:
    history = joined(1)
    first = history.state.last_epoch
    history.leader_epoch = make_epoch(3, 1)
    observe(history, 11, seen("logs/live/2", 1))
    history.do(Balance((member(1),)))
    assert split_epoch(history.state.last_epoch) == (3, split_epoch(first)[1] + 1)
    history.leader_epoch = make_epoch(2, 1)
    observe(history, 12, seen("logs/live/3", 1))
    history.do(Balance((member(1),)))
    assert split_epoch(history.state.last_epoch) == (3, split_epoch(first)[1] + 2)


# --- rejoining


def test_a_rejoin_keeps_what_the_member_holds_and_frees_the_rest() -> None:
    history = joined(1)
    held = [(name, lease.epoch) for name, lease in sorted(history.state.leases.items())]
    assert history.do(JoinMember(hello(member(1), held), SPEC)) == []
    stale = [(held[0][0], held[0][1] - 1), *held[1:]]
    (released,) = history.do(JoinMember(hello(member(1), stale), SPEC))
    assert isinstance(released, LeasesReleased)
    assert [each.lease for each in released.leases] == [held[0][0]]


def test_a_rejoin_with_other_properties_is_recorded() -> None:
    history = joined(1)
    held = [(name, lease.epoch) for name, lease in sorted(history.state.leases.items())]
    assert history.do(JoinMember(hello(member(1), held, peer="10.0.0.9:2"), SPEC)) == []
    (again,) = history.do(JoinMember(hello(member(1), held, zone="b"), SPEC))
    assert isinstance(again, MemberJoined)
    assert history.state.members[member(1)].zone == "b"


def test_an_unknown_group_observes_nothing() -> None:
    assert History().do(ObserveChannels(view(5, seen())), Balance(()), LookAtIdle(0, 0, 0, 0)) == []
