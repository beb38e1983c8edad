"""Response policies of a group and the responses in force: what is accepted, recorded, told to members and kept."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.assigner.v1 import events_pb2 as pb
from braid.kernel.errors import CorruptHistory, Invalid, NotFound
from services.assigner.codec import snapshots
from services.assigner.codec.events import GroupCodec
from services.assigner.domain.responses import division_of
from services.assigner.model.backlog_splits import SplitAsked
from services.assigner.model.commands import Command, DeleteGroup, RemoveMember
from services.assigner.model.events import GoneReason, GroupUpdated
from services.assigner.model.lag.response_events import (
    ResponseEvent,
    ResponsesSet,
    ResponseTaken,
    ResponseUndone,
    SetResponses,
    TakeResponse,
    UndoResponse,
)
from services.assigner.model.lag.responses import (
    ResponseKey,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    ResponseState,
    shifted,
)
from tests.unit.assigner.groups import SPEC, History, context, joined, seen

GOLDEN = Path("tests/golden/later_events/assigner")
SHIFT = ResponsePolicy(ResponseKind.SHIFT_SHARES, mode=ResponseMode.AUTOMATIC, reach=0.8)
LIVE = ResponseKey(ResponseKind.SHIFT_SHARES, "live", "")
OWN, MORE = (("bulk", 1.0), ("live", 1.0)), (("bulk", 1.0), ("live", 4.0))
EXAMPLES: dict[str, ResponseEvent] = {
    "responses_set": ResponsesSet(
        SPEC, (ResponsePolicy(ResponseKind.SPLIT_BACKLOG, "live", ResponseMode.PROPOSE, 2, 0.25, 20.0, 60.0),)
    ),
    "response_taken": ResponseTaken(SPEC, *LIVE, ResponseState.EXHAUSTED, OWN, MORE, "logs/live is late"),
    "response_undone": ResponseUndone(SPEC, ResponseKind.LEAVE_SLOW_MEMBERS, "", "web-1", "it is as fast as others"),
}


def answering(*policies: ResponsePolicy) -> History:
    history = joined(2, seen(), seen("logs/bulk/1"))
    history.do(SetResponses(policies or (SHIFT,)))
    return history


def take(
    history: History, key: ResponseKey = LIVE, state: ResponseState = ResponseState.APPLIED, share: float = 0.2
) -> TakeResponse:
    after = (("share", share),) if key.subject else MORE
    return TakeResponse(key, state, OWN, after, "logs/live is late", history.state.responses)


def taken(history: History) -> dict[ResponseKey, ResponseState]:
    return {key: each.state for key, each in history.state.responses.taken.items()}


# --- policies


def test_policies_are_set_by_kind_and_lane_and_others_stay() -> None:
    history = answering()
    own = replace(SHIFT, lane="live", reach=0.9)
    history.do(SetResponses((own,)))
    assert history.state.responses.policies == (SHIFT, own)
    assert history.state.responses.policy(ResponseKind.SHIFT_SHARES, "live") == own
    assert history.state.responses.policy(ResponseKind.SHIFT_SHARES, "bulk") == SHIFT
    assert not history.do(SetResponses((own,))), "what is so already is no event"
    never = replace(SHIFT, lane="bulk", mode=ResponseMode.OFF)
    history.do(SetResponses((never,)))
    assert history.state.responses.policy(ResponseKind.SHIFT_SHARES, "bulk").mode is ResponseMode.OFF
    history.do(SetResponses((replace(SHIFT, mode=ResponseMode.OFF), replace(own, mode=ResponseMode.OFF))))
    assert not history.state.responses.policies, "off is what a group without a policy is"


@pytest.mark.parametrize(
    ("changed", "field", "remedy"),
    [
        ({"budget": 0}, "policies.0.budget", "use 1 to 100, or switch it off"),
        ({"budget": 101}, "policies.0.budget", "use 1 to 100"),
        ({"reach": 0.0}, "policies.0.reach", "more than 0, and less than 1"),
        ({"reach": 1.0}, "policies.0.reach", "less than 1"),
        ({"reach": float("nan")}, "policies.0.reach", "more than 0"),
        ({"kind": ResponseKind.RAISE_CONCURRENCY, "reach": 1.0}, "policies.0.reach", "more than 1"),
        ({"kind": ResponseKind.RAISE_CONCURRENCY, "reach": 17.0}, "policies.0.reach", "at most 16"),
        ({"kind": ResponseKind.RAISE_CONCURRENCY, "lane": "live"}, "policies.0.lane", "leave the lane out"),
        ({"cooldown_seconds": 1.0}, "policies.0.cooldown_seconds", "use 5 to 86400 seconds"),
        ({"undo_after_seconds": float("nan")}, "policies.0.undo_after_seconds", "use 10 to"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(changed: dict[str, object], field: str, remedy: str) -> None:
    with pytest.raises(Invalid) as refused:
        answering(replace(SHIFT, **changed))  # type: ignore[arg-type]  # of these fields
    assert refused.value.field == field
    assert remedy in refused.value.remedy


def test_a_lane_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound) as refused:
        answering(replace(SHIFT, lane="lvie"))
    assert (refused.value.field, refused.value.remedy) == ("policies.0.lane", "use bulk, live")
    with pytest.raises(NotFound):
        History().do(SetResponses((SHIFT,)))


# --- responses


def test_a_response_is_taken_once_exhausted_once_and_undone() -> None:
    history = answering()
    stale = take(history)
    assert len(history.do(stale)) == 1
    assert taken(history) == {LIVE: ResponseState.APPLIED}
    assert not history.do(stale), "told twice, or by a leader that was paused"
    assert not history.do(take(history)), "it is in force"
    history.do(take(history, state=ResponseState.EXHAUSTED))
    assert not history.do(take(history, state=ResponseState.EXHAUSTED))
    (undone,) = history.do(UndoResponse(LIVE, "x" * 1_000, history.state.responses))
    assert isinstance(undone, ResponseUndone) and len(undone.reason) == 400
    assert not taken(history) and list(history.state.responses.undone) == [LIVE]
    history.do(SetResponses((replace(SHIFT, reach=0.7),)))
    assert not history.state.responses.undone, "an operator knows better"


def test_a_response_to_policies_that_no_longer_stand_is_none() -> None:
    history = answering()
    before = take(history)
    history.do(SetResponses((replace(SHIFT, reach=0.7),)))
    assert not history.do(before), "it was computed for another reach"
    history.do(take(history))
    stale = UndoResponse(LIVE, "healed", history.state.responses)
    history.do(take(history, state=ResponseState.EXHAUSTED))
    assert not history.do(stale)


def test_what_a_policy_does_not_allow_leads_to_nothing() -> None:
    history = answering(replace(SHIFT, mode=ResponseMode.PROPOSE))
    assert not history.do(take(history)), "it is only to be proposed"
    assert history.do(take(history, state=ResponseState.PROPOSED))
    assert not history.do(take(history, LIVE._replace(lane="bulk"), ResponseState.PROPOSED)), "the budget is 1"
    assert division_of(history.state).shares == {}
    history.do(SetResponses((SHIFT,)))
    assert taken(history) == {LIVE: ResponseState.PROPOSED}
    assert history.do(take(history)) and taken(history) == {LIVE: ResponseState.APPLIED}


def test_a_policy_that_is_switched_off_undoes_what_is_in_force() -> None:
    for mode in (ResponseMode.OFF, ResponseMode.PROPOSE):
        history = answering()
        history.do(take(history))
        told = division_of(history.state)
        events = history.do(SetResponses((replace(SHIFT, mode=mode),)))
        assert [type(each) for each in events] == [ResponsesSet, ResponseUndone]
        assert division_of(history.state).shares == {} and division_of(history.state).revision > told.revision


def test_a_split_asks_the_holder_beside_its_event() -> None:
    split = ResponsePolicy(ResponseKind.SPLIT_BACKLOG, mode=ResponseMode.AUTOMATIC, reach=0.2)
    history = answering(split)
    key = ResponseKey(ResponseKind.SPLIT_BACKLOG, "live", "logs/live/1/0")
    response, asked = history.do(take(history, key))
    lease = history.state.leases["logs/live/1/0"]
    assert isinstance(response, ResponseTaken)
    assert asked == SplitAsked("logs/live/1/0", lease.epoch, 0.2, relaxed=False)


# --- shares


def test_shares_give_a_lane_its_part_and_leave_the_others_theirs() -> None:
    assert shifted({"live": 1, "bulk": 1}, ["live"], 0.8) == {"live": 4, "bulk": 1}
    assert shifted({"live": 1, "bulk": 6, "slow": 2}, ["live"], 0.6) == {"live": 6, "bulk": 3, "slow": 1}
    assert shifted({"live": 9, "bulk": 1}, ["live"], 0.5) == {"live": 9, "bulk": 1}, "it has more already"
    assert min(shifted({f"lane-{n}": 1 for n in range(16)}, ["lane-0"], 0.99).values()) == 1
    assert shifted({"live": 1}, ["live"], 0.8) == {"live": 1}, "there is nothing to shift"


def test_undoing_one_of_two_shifts_leaves_the_other() -> None:
    history = answering(replace(SHIFT, budget=2))
    history.do(take(history))
    history.do(take(history, LIVE._replace(lane="bulk")))
    both = division_of(history.state).shares
    history.do(UndoResponse(LIVE, "", history.state.responses))
    assert both["live"] == both["bulk"]
    assert division_of(history.state).shares == {"bulk": 1, "live": 1}
    history.do(UndoResponse(LIVE._replace(lane="bulk"), "", history.state.responses))
    assert division_of(history.state).shares == {}


# --- at rest


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_of_responses_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, told = GroupCodec().decode(base64.b64decode(golden["data"]))
    assert (event, told, repr(event)) == (EXAMPLES[name], context(), golden["event"])


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES)
def test_an_earlier_release_passes_over_a_response(event: ResponseEvent) -> None:
    record = pb.AssignerEvent.FromString(GroupCodec().encode(event, context()))
    for name in ("responses_set", "response_taken", "response_undone"):
        record.ClearField(name)  # as a release that does not know it
    assert GroupCodec().decode(record.SerializeToString())[0] == GroupUpdated(SPEC)


def test_a_kind_of_a_later_release_is_no_event_of_this_one() -> None:
    record = pb.AssignerEvent.FromString(GroupCodec().encode(EXAMPLES["response_undone"], context()))
    record.response_undone.kind = 99  # type: ignore[assignment]
    with pytest.raises(CorruptHistory):
        GroupCodec().decode(record.SerializeToString())


def test_responses_survive_a_snapshot_and_end_with_the_group() -> None:
    history = answering(SHIFT, ResponsePolicy(ResponseKind.SPLIT_BACKLOG, "live", ResponseMode.PROPOSE, 2, 0.3))
    history.do(take(history))
    history.do(UndoResponse(LIVE, "", history.state.responses))
    history.do(take(history))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    gone: list[Command] = [RemoveMember(member, GoneReason.LEFT) for member in history.state.members]
    history.do(*gone, DeleteGroup())
    assert not history.state.responses.policies and not history.state.responses.taken
