"""A response stays within its policy and the mesh's bounds, whatever members say and lag is."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.limits.assigner.responses import RESPONSE_FACTOR_MAX
from services.assigner.domain.responses import check_response_policy
from services.assigner.model.lag.responses import (
    Response,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    Responses,
    ResponseState,
    part_of,
)
from services.assigner.policy.responses.answering import Need
from services.assigner.policy.responses.facts import LaneFacts, LeaseFacts, MemberFacts, ResponseFacts
from services.assigner.policy.responses.kinds import KINDS
from tests.support.examples import examples

AMOUNTS = st.one_of(st.floats(0.0, 1e9), st.sampled_from([0.0, 1e-300, 9.0, 90.0, float("inf")]))
COUNTS = st.one_of(st.integers(0, 10**12), st.sampled_from([10, 10_000]))
PARTS = st.one_of(st.floats(0.01, 0.99), st.just(0.99))
TARGETS = st.sampled_from([5.0, 5.0, None])
OWN = {"bulk": 3, "live": 1}


@st.composite
def groups(draw: st.DrawFn) -> ResponseFacts:
    """Any group: lag, loads and what members say of themselves are whatever somebody may claim."""
    lanes = [LaneFacts("logs", lane, draw(AMOUNTS), draw(COUNTS), draw(TARGETS)) for lane in OWN]
    leases = [LeaseFacts(f"logs/{lane}/1/{at}", lane, draw(AMOUNTS), draw(COUNTS)) for lane in OWN for at in (0, 1)]
    ids = [f"m-{at}" for at in range(draw(st.integers(0, 6)))]
    members = {id: MemberFacts("web", draw(AMOUNTS), part=draw(AMOUNTS)) for id in ids}
    return ResponseFacts(
        lanes,
        leases,
        members=members,
        own=OWN,
        dividable=2,
        handlers=draw(COUNTS),
        handlers_max=draw(COUNTS),
        busy_per_s=draw(AMOUNTS),
    )


def accepted(policy: ResponsePolicy) -> bool:
    """Whether an operator can set a policy."""
    try:
        check_response_policy(policy, "policies.0")
    except Invalid:
        return False
    return True


def within(policy: ResponsePolicy, need: Need) -> bool:
    """Whether what a response changes is within its policy and within the bounds of its kind."""
    after, reach = dict(need.after), policy.reach
    match policy.kind:
        case ResponseKind.SHIFT_SHARES:
            part = max(reach, part_of(need.lane, tuple(OWN.items())))
            return all(each >= 1 for each in after.values()) and part_of(need.lane, need.after) <= part + 0.05
        case ResponseKind.RAISE_CONCURRENCY:
            return 1 < after["factor"] <= min(reach, RESPONSE_FACTOR_MAX)
        case ResponseKind.LEAVE_SLOW_MEMBERS:
            return round(reach, 2) <= after["capacity"] <= 1 and need.subject.startswith("m-")
        case _:
            return after == {"share": reach} and 0 < reach < 1


@settings(max_examples=examples(75))
@given(facts=groups(), reach=st.one_of(PARTS, st.floats(1.01, 20.0)), budget=st.integers(-1, 200))
def test_a_response_stays_within_its_policy(facts: ResponseFacts, reach: float, budget: int) -> None:
    for kind in KINDS:
        policy = ResponsePolicy(kind.kind, mode=ResponseMode.AUTOMATIC, reach=reach, budget=budget)
        if accepted(policy):
            assert all(within(policy, need) for need in kind.needs(facts, Responses((policy,))))


@settings(max_examples=examples(75))
@given(facts=groups(), reach=PARTS)
def test_what_members_are_told_leaves_every_lane_a_share(facts: ResponseFacts, reach: float) -> None:
    shift = ResponsePolicy(ResponseKind.SHIFT_SHARES, mode=ResponseMode.AUTOMATIC, reach=reach)
    raised = replace(shift, kind=ResponseKind.RAISE_CONCURRENCY, reach=RESPONSE_FACTOR_MAX)
    responses = Responses((shift, raised))
    needs = [(kind.kind, need) for kind in KINDS for need in kind.needs(facts, responses)]
    taken = [
        Response(kind, each.lane, each.subject, ResponseState.APPLIED, each.before, each.after, each.reason, 0)
        for kind, each in needs
        if kind in (shift.kind, raised.kind)
    ]
    division = replace(responses, taken={each.key: each for each in taken}).division(OWN)
    assert not division.shares or (division.shares.keys() == OWN.keys() and min(division.shares.values()) >= 1)
    assert division.concurrency <= RESPONSE_FACTOR_MAX
