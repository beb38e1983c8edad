"""The scaling policy of a group and the number that follows from it: what is accepted, recorded and kept."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.assigner.v1 import events_pb2 as pb
from braid.kernel.errors import CorruptHistory, Invalid, NotFound
from braid.kernel.ids import make_epoch
from services.assigner.codec import snapshots
from services.assigner.codec.events import GroupCodec
from services.assigner.domain.fewer_members import enough_members
from services.assigner.model.commands import Command, DeleteGroup, Loads
from services.assigner.model.events import GroupUpdated
from services.assigner.model.lag.scaling import (
    NO_RATES,
    CapacityLimit,
    Scaling,
    ScalingMode,
    ScalingPolicy,
    SeenRates,
    is_restored,
)
from services.assigner.model.lag.scaling_events import (
    CapacityDesired,
    DesireCapacity,
    ScalingEvent,
    ScalingSet,
    SetScaling,
)
from services.assigner.model.rules import Ban, BanMember
from tests.unit.assigner.groups import SPEC, History, context, joined, member, registered, seen
from tests.unit.assigner.policy.test_by_load import finished

GOLDEN = Path("tests/golden/later_events/assigner")
POLICY = ScalingPolicy(ScalingMode.AUTOMATIC, 2, 8)
SHORT = SeenRates(2, 100.0, 130.0, 1.9)
EXAMPLES: dict[str, ScalingEvent] = {
    "scaling_set": ScalingSet(SPEC, ScalingPolicy(ScalingMode.PROPOSE, 2, 8, 90.0, 1_800.0, 1.5)),
    "capacity_desired": CapacityDesired(SPEC, 4, "logs/live is late", CapacityLimit.NO_GAIN, SHORT),
}


def scaled(members: int = 3, policy: ScalingPolicy = POLICY) -> History:
    history = joined(members, seen(partitions=8))
    history.do(SetScaling(policy))
    return history


def wish(history: History, members: int, limit: CapacityLimit = CapacityLimit.NONE) -> DesireCapacity:
    return DesireCapacity(members, "logs/live is late", limit, SHORT, history.state.scaling)


def number(history: History) -> int:
    desired = history.state.scaling.desired
    return desired.members if desired else 0


# --- the policy


def test_a_policy_begins_with_the_members_that_are_there() -> None:
    history = joined(3, seen())
    told = history.do(SetScaling(POLICY))
    reason = "a policy of 2 to 8 members was set when the group had 3"
    assert told == [ScalingSet(SPEC, POLICY), CapacityDesired(SPEC, 3, reason)]
    assert history.do(SetScaling(POLICY)) == [], "told twice"


def test_a_policy_keeps_the_number_within_its_bounds() -> None:
    assert number(scaled(1)) == 2
    assert number(scaled(3, replace(POLICY, min_members=1, max_members=2))) == 2
    history = scaled(3)
    history.do(wish(history, 8))
    history.do(SetScaling(replace(POLICY, max_members=5)))
    assert number(history) == 5


def test_a_new_policy_forgets_what_was_learned() -> None:
    history = scaled()
    history.do(wish(history, 3, CapacityLimit.BOUND))
    history.do(SetScaling(replace(POLICY, factor=1.5)))
    desired = history.state.scaling.desired
    assert desired and (desired.members, desired.limit, desired.shortage) == (3, CapacityLimit.NONE, NO_RATES)


def test_a_policy_that_is_off_leaves_no_number() -> None:
    history = scaled()
    assert history.do(SetScaling(ScalingPolicy())) == [ScalingSet(SPEC, ScalingPolicy())]
    assert history.state.scaling == Scaling()
    assert history.do(SetScaling(ScalingPolicy(max_members=9))) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"min_members": 0}, "min_members"),
        ({"min_members": -1}, "min_members"),
        ({"min_members": 9}, "max_members"),
        ({"max_members": 0}, "max_members"),
        ({"max_members": 10_001}, "max_members"),
        ({"factor": 1.0}, "factor"),
        ({"factor": float("nan")}, "factor"),
        ({"factor": 11.0}, "factor"),
        ({"cooldown_seconds": 1.0}, "cooldown_seconds"),
        ({"cooldown_seconds": float("inf")}, "cooldown_seconds"),
        ({"window_seconds": 10.0}, "window_seconds"),
        ({"window_seconds": float("nan")}, "window_seconds"),
    ],
)
def test_nonsense_is_refused_by_its_field(changes: dict[str, float], field: str) -> None:
    history = joined(1, seen())
    with pytest.raises(Invalid) as refused:
        history.do(SetScaling(replace(POLICY, **changes)))  # type: ignore[arg-type]
    assert refused.value.field == f"policy.{field}" and refused.value.remedy


def test_a_group_that_is_not_there_has_no_policy() -> None:
    commands: list[Command] = [SetScaling(POLICY), DesireCapacity(3, "", CapacityLimit.NONE, NO_RATES, Scaling())]
    for command in commands:
        with pytest.raises(NotFound):
            History().do(command)


# --- the number


def test_a_number_is_recorded_once_with_its_reason() -> None:
    history = scaled()
    history.now_ms = 5_000
    command = wish(history, 6)
    assert history.do(command) == [CapacityDesired(SPEC, 6, "logs/live is late", CapacityLimit.NONE, SHORT)]
    assert history.do(command) == [], "told twice"
    desired = history.state.scaling.desired
    assert desired and (desired.members, desired.since_ms, desired.reason) == (6, 5_000, "logs/live is late")


def test_a_number_from_an_older_view_counts_no_more() -> None:
    history = scaled()
    late = wish(history, 6)
    history.do(SetScaling(replace(POLICY, factor=3.0)))
    assert history.do(late) == []
    off = wish(history, 6)
    history.do(SetScaling(ScalingPolicy()))
    assert history.do(off, wish(history, 6)) == []


def test_a_number_beyond_the_bounds_is_never_recorded() -> None:
    history = scaled()
    assert history.do(wish(history, 9), wish(history, 1), wish(history, 3)) == []


def test_what_a_shortage_taught_outlives_later_numbers() -> None:
    history = scaled()
    history.do(wish(history, 6))
    history.do(replace(wish(history, 4), shortage=NO_RATES))
    desired = history.state.scaling.desired
    assert desired and (desired.members, desired.shortage) == (4, SHORT)


def test_the_same_number_is_recorded_anew_after_a_restore() -> None:
    history = scaled()
    same = replace(wish(history, 3), shortage=NO_RATES)
    assert history.do(same) == []
    assert not is_restored(history.state.scaling, 1) and is_restored(history.state.scaling, 2)
    history.leader_epoch = make_epoch(2, 1)
    assert [type(event) for event in history.do(same, same)] == [CapacityDesired]
    assert not is_restored(history.state.scaling, 2)


def test_a_deleted_group_has_no_number() -> None:
    history = registered()
    history.do(SetScaling(POLICY), DeleteGroup())
    assert history.state.scaling == Scaling()


# --- at rest


@pytest.mark.parametrize("name", EXAMPLES)
def test_events_round_trip_and_golden_files_still_read(name: str) -> None:
    codec, event = GroupCodec(), EXAMPLES[name]
    assert codec.decode(codec.encode(event, context())) == (event, context())
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    assert codec.decode(base64.b64decode(golden["data"])) == (event, context())
    assert repr(event) == golden["event"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_first_release_folds_them_as_no_change(name: str) -> None:
    history = scaled()
    message = pb.AssignerEvent.FromString(GroupCodec().encode(EXAMPLES[name], context()))
    message.ClearField(name)  # type: ignore[arg-type]  # which that release passes over
    event, when = GroupCodec().decode(message.SerializeToString())
    assert event == GroupUpdated(SPEC)
    before, after = history.state, history.decider.evolve(history.state, event, when)
    assert replace(after, spec_changes=before.spec_changes) == before
    assert history.decider.evolve(history.state, EXAMPLES[name], when).spec_changes == after.spec_changes


def test_a_mode_of_a_later_release_is_no_event_of_this_one() -> None:
    message = pb.AssignerEvent.FromString(GroupCodec().encode(EXAMPLES["scaling_set"], context()))
    message.scaling_set.policy.mode = 9  # type: ignore[assignment]
    with pytest.raises(CorruptHistory):
        GroupCodec().decode(message.SerializeToString())


def test_a_snapshot_keeps_policy_and_number() -> None:
    history = scaled()
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    history.do(wish(history, 6))
    data = snapshots.encode(history.state)
    assert snapshots.decode(data) == history.state and snapshots.encode(snapshots.decode(data)) == data
    assert b"scaling" not in snapshots.encode(joined(1, seen()).state)


# --- fewer members, by preview


def test_fewer_members_must_bear_the_load_with_head_room() -> None:
    history = joined(4, seen(partitions=8))  # of capacity 2 each
    history.settle()
    for cost, enough in ((0.1, True), (0.34, True), (0.36, False)):
        loads = Loads(dict.fromkeys(history.state.leases, cost))
        assert finished(enough_members(history.state, loads, 2, 10**9)) is enough


def test_one_hot_partition_keeps_no_member() -> None:
    history = joined(4, seen(partitions=4))
    history.settle()
    hot = Loads({"logs/live/1/0": 5.0})
    assert finished(enough_members(history.state, hot, 4, 10**9))


def test_members_that_alone_may_hold_a_lease_are_kept() -> None:
    history = joined(2, seen(partitions=4))
    history.settle()
    history.do(BanMember(Ban(member(2), "logs/live/1/0")))
    assert not finished(enough_members(history.state, Loads(), 1, 10**9))
