"""Kind `approvals`: who may approve what, for how long and how often; its bounds; its events as bytes."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.api.registry.v1 import approval_pb2 as pb
from braid.kernel.access.approvals import Approval, ApprovalPolicy, GuardedRequest, GuardedVerb
from braid.kernel.access.requests import Need
from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind
from braid.kernel.decider import Context
from braid.kernel.errors import AccessDenied, BraidError, CorruptHistory, Exhausted, Invalid, NotFound, Refused
from braid.kernel.limits.access.rights import (
    APPROVAL_KEPT_SECONDS,
    APPROVAL_POLICIES_MAX,
    APPROVAL_REPEAT_SECONDS,
    APPROVALS_MAX,
    APPROVALS_PER_PRINCIPAL_MAX,
    GRANT_REASON_CHARS_MAX,
)
from braid.runtime.access.approval_codec import APPROVALS
from braid.runtime.access.approval_history import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalsDecider,
    ApprovalsState,
    ApprovalUsed,
    Claim,
    Command,
    Decide,
    DeletePolicy,
    Event,
    PolicyDeleted,
    PolicySet,
    SetPolicy,
)

GOLDEN = Path("tests/golden/events/approvals")
DECIDER, CODEC = ApprovalsDecider(), APPROVALS.codec
NOW_MS = 1_770_000_000_123
LED_MS = 5_000_000
HOUR_MS = 3_600_000
CONTEXT = Context(NOW_MS, "spiffe://braid.local/user/ann", "default", "r-1", "", 7)
ANN, BOB, EVE = (f"spiffe://braid.local/user/{name}" for name in ("ann", "bob", "eve"))
LOGS = Resource(ResourceKind.STREAM, "logs")
POLICY = ApprovalPolicy("careful", (GuardedVerb.DELETE_STREAM, GuardedVerb.REPLAY), LOGS, HOUR_MS, 100)
DELETING = GuardedRequest(
    (GuardedVerb.DELETE_STREAM,),
    (LOGS,),
    "1769",
    "ab" * 32,
    ANN,
    needs=(Need(Action.CHANGE, LOGS), Need(Action.VIEW, MESH)),
    command="braid delete stream logs",
    tenant="default",
)
REPLAYING = replace(DELETING, verbs=(GuardedVerb.REPLAY,), identity="", digest="cd" * 32, letters=500)
EXAMPLES: dict[str, Event] = {
    "policy_set": PolicySet(replace(POLICY, reason="two of us")),
    "policy_deleted": PolicyDeleted("careful", "nobody else is there"),
    "asked": ApprovalAsked("a-1", replace(REPLAYING, verbs=tuple(GuardedVerb)), HOUR_MS, LED_MS),
    "decided": ApprovalDecided("a-1", True, "still in use", LED_MS),
    "used": ApprovalUsed("a-1", "r-1", LED_MS),
}


def run(state: ApprovalsState, command: Command, actor: str = ANN) -> ApprovalsState:
    """Decides a command, and folds its events through their bytes."""
    context = Context(NOW_MS, actor, "default", "r-1", "", 7)
    for event in DECIDER.decide(state, command, context):
        state = DECIDER.evolve(state, *CODEC.decode(CODEC.encode(event, context)))
    assert CODEC.decode_state(CODEC.encode_state(state)) == state
    return state


def claim(
    state: ApprovalsState,
    request: GuardedRequest = DELETING,
    request_id: str = "r-2",
    led_ms: int = LED_MS,
    lost: tuple[str, ...] = (),
    id: str = "",
) -> tuple[ApprovalsState, bool]:
    """Claims an approval. Returns whether the call may be carried out."""
    state = run(
        state, Claim(request, request_id, id or f"a-{len(state.approvals) + 1}", led_ms, lost), request.asked_by
    )
    return state, not state.guarding(request) or state.used_by(request, request_id, led_ms) is not None


def approve(state: ApprovalsState, by: str = BOB, id: str = "a-1", led_ms: int = LED_MS) -> ApprovalsState:
    """The state after an approval."""
    return run(state, Decide(id, False, "", led_ms), by)


def asked(request: GuardedRequest = DELETING) -> ApprovalsState:
    """A mesh with a policy, and a request that waits as `a-1`."""
    state, allowed = claim(run(ApprovalsState(), SetPolicy(POLICY)), request, "r-1")
    assert not allowed
    return state


def test_nothing_needs_an_approval_without_a_policy() -> None:
    state, allowed = claim(ApprovalsState())
    assert allowed and not state.approvals
    other = replace(DELETING, resources=(Resource(ResourceKind.STREAM, "payments"),))
    assert claim(run(state, SetPolicy(POLICY)), other)[1]


def test_a_request_waits_once_and_goes_on_when_approved() -> None:
    state = asked()
    state, allowed = claim(state)
    assert not allowed and list(state.approvals) == ["a-1"], "the same request asks once"
    assert claim(approve(state))[1]


def test_who_asks_cannot_approve() -> None:
    with pytest.raises(AccessDenied, match="cannot approve it"):
        approve(asked(), ANN)


def test_an_approval_of_who_asked_counts_for_nothing() -> None:
    state = asked()
    forged = replace(state.approvals["a-1"], decided_by=ANN)
    assert not claim(replace(state, approvals={"a-1": forged}))[1]


@pytest.mark.parametrize(
    "other",
    [
        replace(DELETING, digest="00" * 32),
        replace(DELETING, identity="1770"),
        replace(DELETING, asked_by=EVE),
        replace(DELETING, tenant="other"),
        replace(DELETING, verbs=(GuardedVerb.DELETE_STREAM, GuardedVerb.CLOSE_CHANNEL)),
        replace(DELETING, resources=(Resource(ResourceKind.STREAM, "other"), LOGS)),
    ],
    ids=["another body", "made again", "another principal", "another tenant", "another verb", "another stream"],
)
def test_an_approval_is_of_no_other_request(other: GuardedRequest) -> None:
    state, allowed = claim(approve(asked()), other)
    assert not allowed
    assert list(state.approvals) == ["a-1", "a-2"], "it waits by itself"


def test_an_approval_is_used_once() -> None:
    state, allowed = claim(approve(asked()), request_id="r-2")
    assert allowed
    again, allowed = claim(state, request_id="r-3")
    assert not allowed and again.waiting(DELETING, LED_MS) == again.approvals["a-2"]


def test_a_repeat_with_the_same_request_id_goes_on() -> None:
    state, _ = claim(approve(asked()), request_id="r-2")
    later = LED_MS + int(APPROVAL_REPEAT_SECONDS * 1_000)
    assert claim(state, request_id="r-2", led_ms=later - 1)[1]
    assert not claim(state, request_id="r-2", led_ms=later)[1]
    assert not claim(state, replace(DELETING, digest="00" * 32), "r-2")[1], "another body with the same id"


def test_an_approval_expires_by_led_time() -> None:
    state = approve(asked())
    assert claim(state, led_ms=LED_MS + HOUR_MS - 1)[1]
    assert not claim(state, led_ms=LED_MS + HOUR_MS)[1]
    with pytest.raises(Refused, match="has expired"):
        approve(asked(), led_ms=LED_MS + HOUR_MS)


def test_giving_an_approval_late_does_not_lengthen_it() -> None:
    state = approve(asked(), led_ms=LED_MS + HOUR_MS - 1)
    assert not claim(state, led_ms=LED_MS + HOUR_MS)[1]


def test_led_time_that_goes_back_ends_nothing() -> None:
    assert claim(approve(asked()), led_ms=0)[1]


def test_an_approver_without_rights_counts_no_more() -> None:
    state = approve(asked())
    state, allowed = claim(state, lost=(BOB,))
    assert not allowed and list(state.approvals) == ["a-1"]
    assert claim(approve(state, EVE), lost=(BOB,))[1]
    assert claim(state)[1], "with the rights back it counts again"


def test_a_refusal_ends_the_request_and_the_next_asks_anew() -> None:
    state = run(asked(), Decide("a-1", True, "still in use", LED_MS), BOB)
    assert run(state, Decide("a-1", True, "", LED_MS), EVE) == state
    with pytest.raises(Refused, match="was refused by"):
        approve(state)
    state, allowed = claim(state)
    assert not allowed and list(state.approvals) == ["a-1", "a-2"]


def test_an_approval_can_be_taken_back_until_it_is_used() -> None:
    state = run(approve(asked()), Decide("a-1", True, "", LED_MS), EVE)
    assert not claim(state)[1]
    used, _ = claim(approve(asked()))
    with pytest.raises(Refused, match="is used up"):
        run(used, Decide("a-1", True, "", LED_MS), EVE)


def test_who_asked_may_take_the_request_back() -> None:
    assert run(asked(), Decide("a-1", True, "", LED_MS), ANN).approvals["a-1"].refused


def test_a_policy_removed_meanwhile_lets_the_request_through() -> None:
    state, allowed = claim(run(asked(), DeletePolicy("careful")))
    assert allowed and not state.approvals["a-1"].used, "nothing is used up for it"


def test_a_policy_added_after_the_request_counts() -> None:
    shorter = ApprovalPolicy("shorter", (GuardedVerb.DELETE_STREAM,), MESH, HOUR_MS // 2)
    state = run(approve(asked()), SetPolicy(shorter))
    assert claim(state, led_ms=LED_MS + HOUR_MS // 2 - 1)[1]
    assert not claim(state, led_ms=LED_MS + HOUR_MS // 2)[1]


def test_few_letters_need_no_approval() -> None:
    state = run(ApprovalsState(), SetPolicy(POLICY))
    assert claim(state, replace(REPLAYING, letters=100))[1]
    assert not claim(state, replace(REPLAYING, letters=101))[1]


def test_an_approved_replay_may_grow_by_as_many_as_need_none() -> None:
    state = approve(asked(REPLAYING))
    assert claim(state, replace(REPLAYING, letters=600))[1]
    assert not claim(state, replace(REPLAYING, letters=601))[1]


def test_one_principal_has_so_many_waiting_and_others_go_on() -> None:
    state = run(ApprovalsState(), SetPolicy(POLICY))
    for number in range(APPROVALS_PER_PRINCIPAL_MAX):
        state, _ = claim(state, replace(DELETING, digest=f"{number:064x}"))
    with pytest.raises(Exhausted, match=f"{APPROVALS_PER_PRINCIPAL_MAX} requests of"):
        claim(state)
    assert len(claim(state, replace(DELETING, asked_by=EVE))[0].approvals) == APPROVALS_PER_PRINCIPAL_MAX + 1
    later = LED_MS + HOUR_MS
    assert claim(state, led_ms=later, id="b")[0].waiting(DELETING, later), "those that expired make room"


def test_a_full_mesh_asks_no_more_and_forgets_what_is_over() -> None:
    full = {
        f"a-{n}": Approval(f"a-{n}", replace(DELETING, asked_by=f"dns:{n}"), NOW_MS, LED_MS, HOUR_MS)
        for n in range(APPROVALS_MAX)
    }
    state = replace(run(ApprovalsState(), SetPolicy(POLICY)), approvals=full)
    with pytest.raises(Exhausted, match=f"{APPROVALS_MAX} requests wait"):
        claim(state)
    over = {**full, "a-7": replace(full["a-7"], refused=True, decided_by=BOB)}
    kept, _ = claim(replace(state, approvals=over), id="new")
    assert len(kept.approvals) == APPROVALS_MAX and "a-7" not in kept.approvals


def test_what_is_over_is_forgotten_after_a_day() -> None:
    later = LED_MS + HOUR_MS + int(APPROVAL_KEPT_SECONDS * 1_000)
    assert set(claim(asked(), REPLAYING, led_ms=later - 1, id="b")[0].approvals) == {"a-1", "b"}
    assert set(claim(asked(), REPLAYING, led_ms=later, id="b")[0].approvals) == {"b"}


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (replace(POLICY, name="Not a name"), "name"),
        (replace(POLICY, verbs=()), "spec.verbs"),
        (replace(POLICY, verbs=(GuardedVerb.REPLAY,) * 2), "spec.verbs"),
        (replace(POLICY, resource=Resource(ResourceKind.CLUSTER, "east")), "spec.resource"),
        (replace(POLICY, expire_ms=59_000), "spec.expire_seconds"),
        (replace(POLICY, expire_ms=31 * 86_400_000), "spec.expire_seconds"),
        (replace(POLICY, letters_over=-1), "spec.letters_over"),
        (replace(POLICY, verbs=(GuardedVerb.DELETE_STREAM,)), "spec.letters_over"),
        (replace(POLICY, reason="x" * (GRANT_REASON_CHARS_MAX + 1)), "spec.reason"),
    ],
)
def test_a_malformed_policy_is_refused_by_its_field(policy: ApprovalPolicy, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        run(ApprovalsState(), SetPolicy(policy))
    assert refused.value.field == field


def test_policies_are_replaced_deleted_and_bounded() -> None:
    state = run(ApprovalsState(), SetPolicy(POLICY))
    assert run(state, SetPolicy(POLICY), EVE) == state, "the same again is no change"
    assert state.policies["careful"].set_by == ANN
    many = {f"p{n}": replace(POLICY, name=f"p{n}") for n in range(APPROVAL_POLICIES_MAX)}
    with pytest.raises(Exhausted):
        run(ApprovalsState(many), SetPolicy(POLICY))
    replaced = run(ApprovalsState(many), SetPolicy(replace(POLICY, name="p1", letters_over=7)))
    assert replaced.policies["p1"].letters_over == 7
    assert not run(state, DeletePolicy("careful")).policies


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (DeletePolicy("none"), NotFound),
        (Decide("none", False, "", LED_MS), NotFound),
        (Decide("a-1", True, "x" * (GRANT_REASON_CHARS_MAX + 1), LED_MS), Invalid),
        (DeletePolicy("careful", "x" * (GRANT_REASON_CHARS_MAX + 1)), Invalid),
    ],
)
def test_what_cannot_be_is_refused(command: Command, error: type[BraidError]) -> None:
    with pytest.raises(error):
        run(asked(), command, BOB)


def test_events_told_twice_or_of_the_forgotten_change_nothing() -> None:
    state = approve(asked())
    context = Context(NOW_MS, BOB)
    twice = DECIDER.evolve(state, ApprovalDecided("a-1", False, "", LED_MS), context)
    assert twice == state
    for event in (ApprovalDecided("gone", False, "", LED_MS), ApprovalUsed("gone", "r", LED_MS), PolicyDeleted("gone")):
        assert DECIDER.evolve(state, event, context) == state


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.ApprovalEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    data = base64.b64decode(golden["data"])
    event, context = CODEC.decode(data)
    assert (event, context, repr(event)) == (EXAMPLES[name], CONTEXT, golden["event"])
    assert CODEC.encode(event, context) == data


@pytest.mark.parametrize(
    "data", [b"\xff", b"", pb.ApprovalEvent(metadata=EventMetadata(time_ms=1)).SerializeToString()]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)
    unknown = pb.ApprovalsSnapshot(policies=[pb.ApprovalPolicy(spec=pb.ApprovalPolicySpec(verbs=[99]))])  # type: ignore[list-item]
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(unknown.SerializeToString())
