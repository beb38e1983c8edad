"""Random commands in random order: no lease ever has two holders, no epoch is reused, and folding repeats the state."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError
from braid.kernel.ids import make_epoch
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.timing.slices import Slices
from services.assigner.codec.events import GroupCodec
from services.assigner.domain.decide import GroupDecider
from services.assigner.model import group
from services.assigner.model.channels import (
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
    RegisterGroup,
    Release,
    ReleaseLeases,
    RemoveMember,
    TakeOverdue,
    UpdateGroup,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    LeasesGranted,
    LeasesReleased,
)
from services.assigner.model.group import GroupSpec
from services.assigner.policy import balance
from services.assigner.policy.by_number import place
from services.assigner.servicer.reads import group_message, leases_page
from tests.support.examples import examples
from tests.support.metered_clock import MeteredClock
from tests.unit.assigner.groups import (
    SPEC,
    History,
    check_epochs,
    check_single_holder,
    context,
    hello,
    member,
    observe,
    seen,
    view,
)

MEMBERS = st.integers(1, 5).map(member)
CHANNELS = st.sampled_from(["logs/live/1", "logs/live/2", "logs/bulk/1", "logs/dlq/1"])
PRESENCES = st.sampled_from(list(Presence))


class GroupMachine(RuleBasedStateMachine):
    """Any command at any time, accepted or refused."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.contexts: list[Context] = []
        self.revision = 1

    def attempt(self, command: Command) -> None:
        self.history.now_ms += 7
        before = len(self.history.events)
        try:
            self.history.do(command)
        except BraidError:
            assert len(self.history.events) == before
        here = context(self.history.now_ms, self.history.leader_epoch)
        self.contexts += [here] * (len(self.history.events) - before)

    @rule(members=MEMBERS, keeps=st.booleans(), exclusive=st.just(False))
    def join(self, members: str, keeps: bool, exclusive: bool) -> None:
        held = [(n, x.epoch) for n, x in self.history.state.held_by(members).items()] if keeps else []
        seen_now = view(self.revision, seen(), seen("logs/bulk/1", 3))
        self.attempt(JoinMember(hello(members, held), SPEC, view=seen_now))

    @rule(members=MEMBERS, reason=st.sampled_from(list(GoneReason)))
    def lose(self, members: str, reason: GoneReason) -> None:
        self.attempt(RemoveMember(members, reason))

    @rule(skip=st.sets(MEMBERS))
    def balance(self, skip: set[str]) -> None:
        self.attempt(Balance(tuple(m for m in self.history.state.members if m not in skip)))

    @rule(channel=CHANNELS, presence=PRESENCES, partitions=st.integers(1, 6), step=st.integers(-2, 2))
    def observe(self, channel: str, presence: Presence, partitions: int, step: int) -> None:
        self.revision += max(step, 0)
        before = len(self.history.events)
        observe(self.history, self.revision + min(step, 0), seen(channel, partitions, presence))
        self.contexts += [context(self.history.now_ms, self.history.leader_epoch)] * (len(self.history.events) - before)

    @rule(channel=CHANNELS)
    def close(self, channel: str) -> None:
        self.attempt(CloseChannel(channel, self.revision))

    @rule(channel=CHANNELS)
    def fix_start(self, channel: str) -> None:
        self.attempt(FixStart(channel, (0, 0, 0)))

    @precondition(lambda self: self.history.state.leases)
    @rule(data=st.data(), by=MEMBERS, drift=st.integers(-1, 1))
    def release(self, data: st.DataObject, by: str, drift: int) -> None:
        name, lease = data.draw(st.sampled_from(sorted(self.history.state.leases.items())))
        who = lease.holder or by
        self.attempt(ReleaseLeases(who, (Release(name, lease.epoch + drift), Release(name, lease.epoch))))

    @precondition(lambda self: self.history.state.leases)
    @rule()
    def take(self) -> None:
        self.attempt(TakeOverdue(tuple((n, x.epoch) for n, x in sorted(self.history.state.leases.items())[:3])))

    @rule()
    def register(self) -> None:
        self.attempt(RegisterGroup(SPEC, view(self.revision, seen())))

    @rule(lanes=st.sampled_from([(), (("live", 1),), (("bulk", 2), ("live", 1)), (("dlq", 1),)]))
    def update(self, lanes: tuple[tuple[str, int], ...]) -> None:
        shown = view(self.revision, seen(), seen("logs/bulk/1", 3), seen("logs/dlq/1", 2))
        self.attempt(UpdateGroup(GroupSpec(("logs",), lanes), shown))

    @rule()
    def delete(self) -> None:
        self.attempt(DeleteGroup())

    @rule()
    def expire_idle(self) -> None:
        since_ms = self.history.state.idle_since_ms
        self.attempt(LookAtIdle(since_ms, 10, 10, 10))

    @rule(incarnation=st.integers(1, 4))
    def elect(self, incarnation: int) -> None:
        self.history.leader_epoch = make_epoch(incarnation, 1)

    @invariant()
    def one_holder_and_fresh_epochs(self) -> None:
        check_epochs(self.history.events)
        check_single_holder(self.history.events)

    @invariant()
    def holders_are_members_and_channels_are_known(self) -> None:
        state = self.history.state
        assert all(not x.holder or x.holder in state.members for x in state.leases.values())
        assert (state.idle_since_ms == 0) == (bool(state.members) or state.spec is None)

    @invariant()
    def leases_are_counted_as_they_are_listed(self) -> None:
        if self.history.state.spec is not None:
            listed, _ = asyncio.run(leases_page(self.history.state, PAGE_SIZE_MAX, "", Slices(MeteredClock())))
            status = group_message(self.history.state).status
            assert (status.leases, status.free_leases) == (len(listed), sum(not each.member for each in listed))

    @invariant()
    def small_groups_are_judged_without_columns_as_large_ones_are_with_them(self) -> None:
        state, context = self.history.state, Context(self.history.now_ms, "assigner-0")
        small = balance.balance(state, (), context, place), dict(state.revoking())
        with patch.object(balance, "SMALL", -1), patch.object(group, "SMALL", -1):
            large = balance.balance(state, (), context, place), dict(state.revoking())
        assert (list(small[0]), small[1]) == (list(large[0]), large[1])

    def teardown(self) -> None:
        """fold(all) = fold(tail, snapshot) = live state, at a prefix in the middle."""
        codec, decider = GroupCodec(), self.history.decider
        pairs = [codec.decode(codec.encode(e, c)) for e, c in zip(self.history.events, self.contexts, strict=True)]
        assert [event for event, _ in pairs] == self.history.events
        state = decider.initial("indexer")
        middle = len(pairs) // 2
        for index, (event, here) in enumerate(pairs):
            if index == middle:
                state = codec.decode_state(codec.encode_state(state))
            state = decider.evolve(state, event, here)
        assert state == self.history.state
        assert codec.encode_state(state) == codec.encode_state(self.history.state)


GroupMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40)
TestGroupMachine = GroupMachine.TestCase


def granted() -> Sequence[Event]:
    """A history with grants, releases and grants again."""
    history = History(GroupDecider())
    history.do(JoinMember(hello(member(1)), SPEC, view=view(1, seen())), FixStart("logs/live/1", (0,) * 4))
    history.settle()
    history.do(RemoveMember(member(1), GoneReason.EXPIRED), JoinMember(hello(member(2)), SPEC))
    history.settle()
    return history.events


def test_a_reused_epoch_turns_the_checker_red() -> None:
    events = list(granted())
    check_epochs(events)
    last = max(index for index, event in enumerate(events) if isinstance(event, LeasesGranted))
    again = events[last]
    assert isinstance(again, LeasesGranted)
    events[last] = LeasesGranted(tuple(replace(grant, epoch=grant.epoch - 4) for grant in again.grants))
    with pytest.raises(AssertionError, match="epoch"):
        check_epochs(events)


def test_a_grant_without_a_release_turns_the_checker_red() -> None:
    check_single_holder(granted())
    with pytest.raises(AssertionError, match="is granted while"):
        check_single_holder([event for event in granted() if not isinstance(event, LeasesReleased)])
