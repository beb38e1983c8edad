"""When a generation is bumped, and what waits for it: the rules alone."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from braid.kernel.errors import Invalid, Refused, Unsupported
from braid.kernel.ids import make_epoch
from braid.kernel.ports import Generation
from services.assigner.codec import snapshots
from services.assigner.domain.admission import GENERATIONS
from services.assigner.model import generations
from services.assigner.model.commands import (
    Balance,
    FixStart,
    IntendBump,
    JoinMember,
    ObserveChannels,
    RecordBump,
    Release,
    ReleaseLeases,
    RemoveMember,
    UpdateGroup,
    WaiveFencing,
)
from services.assigner.model.events import (
    BumpIntended,
    FencingWaived,
    GenerationBumped,
    GoneReason,
    LeasesGranted,
)
from services.assigner.model.group import Fencing, LeaseState, Ownership
from tests.unit.assigner.groups import SPEC, History, context, hello, member, registered, seen, view

FENCED = replace(SPEC, fencing=Fencing.GENERATION)
CAPABLE = (GENERATIONS,)


def bump(history: History, cluster: str = "east", id: str = "m-1") -> None:
    """The shell does what the rules want."""
    number = history.state.fences[cluster].generation if cluster in history.state.fences else 0
    history.do(IntendBump(cluster, id), RecordBump(cluster, id, number + 1), Balance(tuple(history.state.members)))


def fenced(count: int = 2, ownership: Ownership = Ownership.AT_LEAST_ONCE) -> History:
    """A settled group of members 1 … count over channels on two clusters, its first generation made on each."""
    spec = replace(FENCED, ownership=ownership)
    history = registered(seen(), seen("logs/live/2", cluster="west"), spec=spec)
    for number in range(1, count + 1):
        history.do(JoinMember(hello(member(number), capabilities=CAPABLE), spec))
    bump(history, "east", "m-1")
    bump(history, "west", "w-1")
    history.settle()
    return history


def granted(history: History, events: Sequence[object]) -> set[str]:
    """The clusters on which something is granted."""
    leases = [grant.lease for event in events if isinstance(event, LeasesGranted) for grant in event.grants]
    return {history.state.channels[lease.rpartition("/")[0]].cluster for lease in leases}


def test_nothing_is_granted_before_the_first_bump_of_its_cluster() -> None:
    history = registered(seen(), seen("logs/live/2", cluster="west"), spec=FENCED)
    assert generations.wanting(history.state) == []  # nobody is there to hold anything
    history.do(JoinMember(hello(member(1), capabilities=CAPABLE), FENCED))
    assert history.do(Balance((member(1),))) == []
    assert generations.wanting(history.state) == ["east", "west"]
    assert generations.lent(history.state, "east") is None
    made = history.do(IntendBump("east", "m-1"), Balance((member(1),)))
    assert made == [BumpIntended("east", "m-1")]
    made = history.do(RecordBump("east", "m-1", 1), Balance((member(1),)))
    assert made[0] == GenerationBumped("east", "m-1", 1)
    assert granted(history, list(made)) == {"east"}
    assert generations.lent(history.state, "east") == Generation(1, "m-1")


def test_one_bump_a_cluster_serves_a_whole_decision() -> None:
    history = fenced(3)
    made = history.do(
        RemoveMember(member(1), GoneReason.DISCONNECTED),
        RemoveMember(member(2), GoneReason.EXPIRED),
        Balance((member(3),)),
    )
    assert granted(history, list(made)) == set()
    assert sorted(event.cluster for event in made if isinstance(event, BumpIntended)) == ["east", "west"]
    assert history.do(Balance((member(3),))) == []  # told twice
    made = history.do(RecordBump("west", "w-1", 2), Balance((member(3),)))
    assert granted(history, list(made)) == {"west"}
    made = history.do(RecordBump("east", "m-1", 2), Balance((member(3),)))
    assert granted(history, list(made)) == {"east"}
    assert generations.wanting(history.state) == []


def test_only_a_lease_without_its_last_commit_needs_a_bump() -> None:
    history = fenced()
    mine = sorted(history.state.held_by(member(1)).items())
    (first, clean), (second, waived) = mine[0], mine[1]
    history.do(ReleaseLeases(member(1), (Release(first, clean.epoch),)))
    assert generations.gated(history.state) == frozenset()
    history.do(ReleaseLeases(member(1), (Release(second, waived.epoch, commit_waived=True),)))
    assert generations.gated(history.state) == {history.state.channels[second.rpartition("/")[0]].cluster}


def test_what_a_member_forgot_over_a_reconnect_needs_a_bump() -> None:
    history = fenced(1)
    history.do(JoinMember(hello(member(1), capabilities=CAPABLE), FENCED))
    assert generations.gated(history.state) == {"east", "west"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_generation_counts_only_above_the_stored_one(number: int) -> None:
    history = fenced()
    history.do(RemoveMember(member(1), GoneReason.EXPIRED), Balance((member(2),)))
    assert history.do(RecordBump("east", "m-1", number)) == []
    assert history.do(RecordBump("east", "somebody", 9)) == []
    assert "east" in generations.gated(history.state)
    # The same from a history: an event that does not count changes nothing.
    assert (
        generations.evolve(history.state, GenerationBumped("east", "m-1", number), context()).fences
        == history.state.fences
    )


def test_a_new_member_id_begins_to_count_anew() -> None:
    history = fenced()
    history.do(IntendBump("east", "m-2"))
    assert generations.lent(history.state, "east") is None
    assert history.do(RecordBump("east", "m-1", 7)) == []  # told late, of the old one
    history.do(RecordBump("east", "m-2", 1))
    assert generations.lent(history.state, "east") == Generation(1, "m-2")


def test_one_bump_answers_a_refusal_however_often_it_is_reported() -> None:
    history = fenced()
    assert history.do(IntendBump("east", "m-1", refused=1)) == [BumpIntended("east", "m-1")]
    assert history.do(IntendBump("east", "m-1", refused=1)) == []
    history.do(RecordBump("east", "m-1", 3))
    assert history.do(IntendBump("east", "m-1", refused=1)) == []
    assert generations.lent(history.state, "east") == Generation(3, "m-1")


def test_fencing_is_waived_only_with_repeats_and_a_generation() -> None:
    history = registered(spec=FENCED)
    history.do(JoinMember(hello(member(1), capabilities=CAPABLE), FENCED))
    assert history.do(WaiveFencing("east")) == []  # commits would be plain
    shared, exclusive = fenced(), fenced(ownership=Ownership.EXCLUSIVE)
    for each in (shared, exclusive):
        assert each.do(WaiveFencing("east")) == []  # no bump is wanted
        each.do(RemoveMember(member(1), GoneReason.EXPIRED), Balance((member(2),)))
    assert exclusive.do(WaiveFencing("east")) == []
    assert shared.do(WaiveFencing("east"), WaiveFencing("east")) == [FencingWaived("east")]
    assert granted(shared, list(shared.do(Balance((member(2),))))) == {"east"}
    assert generations.wanting(shared.state) == ["east", "west"]  # it is tried on
    shared.do(RecordBump("east", "m-1", 2))
    assert not shared.state.fences["east"].waived


def test_a_waiver_ends_with_the_member_id_it_was_given_under() -> None:
    """Otherwise leases would be granted without a generation to lend, and commits would be plain."""
    history = fenced()
    history.do(RemoveMember(member(1), GoneReason.EXPIRED), WaiveFencing("east"), Balance((member(2),)))
    assert "east" not in generations.gated(history.state)
    history.do(JoinMember(hello(member(3), capabilities=CAPABLE), FENCED), IntendBump("east", "m-9"))
    history.do(RemoveMember(member(2), GoneReason.EXPIRED))
    assert granted(history, list(history.do(Balance((member(3),))))) == set()
    assert generations.lent(history.state, "east") is None
    assert history.do(WaiveFencing("east")) == []  # nothing to go on with
    history.do(RecordBump("east", "m-9", 1))
    assert granted(history, list(history.do(Balance((member(3),))))) == {"east"}


def test_mixed_wishes_and_generationless_members_are_refused() -> None:
    history = fenced()
    with pytest.raises(Unsupported):
        history.do(JoinMember(hello(member(3)), FENCED, frozenset({"fencing"})))
    with pytest.raises(Invalid):
        history.do(JoinMember(hello(member(3), capabilities=CAPABLE), SPEC))
    with pytest.raises(Refused) as refused:
        history.do(UpdateGroup(SPEC, view(10, seen(), seen("logs/live/2", cluster="west"))))
    assert refused.value.field == "spec.fencing"


def test_an_unfenced_group_wants_nothing() -> None:
    history = registered()
    history.do(JoinMember(hello(member(1)), SPEC))
    history.settle()
    assert history.do(IntendBump("east", "m-1"), RecordBump("east", "m-1", 1), WaiveFencing("east")) == []
    history.do(RemoveMember(member(1), GoneReason.EXPIRED))
    assert history.state.fences == {}
    assert all(lease.state is LeaseState.FREE for lease in history.state.leases.values())


def test_fences_survive_a_snapshot_and_older_snapshots_have_none() -> None:
    history = fenced()
    history.do(RemoveMember(member(1), GoneReason.EXPIRED), Balance((member(2),)), WaiveFencing("east"))
    data = snapshots.encode(history.state)
    assert snapshots.decode(data) == history.state
    assert snapshots.encode(snapshots.decode(data)) == data
    document = json.loads(snapshots.encode(registered().state))
    del document["fences"], document["spec"]["fencing"]
    older = snapshots.decode(json.dumps(document).encode())
    assert older.fences == {}
    assert older.spec is not None and older.spec.fencing is Fencing.NONE


def test_a_restore_bumps_every_generation_before_any_grant() -> None:
    """A member granted a lease after the backup is unknown, and could commit with the newest generation."""
    history = fenced()
    history.leader_epoch = make_epoch(2, 9)
    history.do(ObserveChannels(view(20, seen(), seen("logs/live/2", cluster="west"), seen("logs/live/3"))))
    history.do(FixStart("logs/live/3", (0,) * history.state.channels["logs/live/3"].partitions))
    balance = Balance(tuple(history.state.members))
    assert history.do(balance) == [BumpIntended("east", "m-1"), BumpIntended("west", "w-1")]
    assert history.do(balance) == [], "the first ones are under way"
    history.do(RecordBump("west", "w-1", 2))
    assert history.state.bumped_in == {"west": 2}
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    assert history.do(balance) == [], "east is not fenced yet"
    events = history.do(RecordBump("east", "m-1", 2), balance)
    assert granted(history, events) == {"east"}
    assert not history.state.bumped_in
    assert not [each for each in history.do(balance) if isinstance(each, BumpIntended)]


def held(history: History, number: int) -> list[tuple[str, int]]:
    """The leases of a member, and their epochs."""
    return [(name, lease.epoch) for name, lease in history.state.held_by(member(number)).items()]


@pytest.mark.parametrize("ownership", Ownership)
def test_after_a_restore_a_doubtful_lease_gets_a_new_epoch(ownership: Ownership) -> None:
    """Its member was cut off meanwhile and works on under the epoch of the backup, below those that were granted since.

    An exclusive member works on nothing without its assigner: what it holds nobody else got.
    """
    history = fenced(1, ownership)
    before = held(history, 1)
    history.leader_epoch = make_epoch(2, 9)
    again = JoinMember(hello(member(1), before, capabilities=CAPABLE), replace(FENCED, ownership=ownership))
    history.do(Balance(()), RecordBump("east", "m-1", 2), RecordBump("west", "w-1", 2), again)
    assert held(history, 1) == (before if ownership is Ownership.EXCLUSIVE else [])
    for number, (cluster, fence) in enumerate(history.state.fences.items(), 3):
        history.do(RecordBump(cluster, fence.member_id, number))
    history.settle()
    after = held(history, 1)
    assert [name for name, _ in after] == [name for name, _ in before]
    if ownership is Ownership.AT_LEAST_ONCE:
        assert min(epoch for _, epoch in after) > make_epoch(2, 0)
    assert history.do(replace(again, hello=replace(again.hello, held=tuple(after)))) == [], "once is enough"


def test_a_leader_of_the_same_incarnation_bumps_nothing() -> None:
    history = fenced()
    history.leader_epoch = make_epoch(1, 99)
    assert history.do(Balance(tuple(history.state.members))) == []
