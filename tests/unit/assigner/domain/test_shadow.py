"""A policy beside a group's own: what it would do is computed and compared, and never acted upon. Then it is chosen."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import rules_pb2
from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Invalid, NotFound
from braid.kernel.limits.assigner.placement import SHADOW_LOOK_SECONDS
from braid.kernel.timing.slices import in_turns
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.telemetry import Metrics, make_assigner_metrics
from services.assigner.codec.snapshots import decode, encode
from services.assigner.domain import explain
from services.assigner.domain.decide import GroupDecider
from services.assigner.domain.shadow import ShadowLook, look, tried
from services.assigner.model.commands import (
    Balance,
    Command,
    JoinMember,
    Loads,
    RemoveMember,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    RevokesStarted,
)
from services.assigner.model.group import Group
from services.assigner.model.rules import Basis, PlacementPolicy, PolicySet, SetPolicy, SetShadow, Shadow, ShadowSet
from services.assigner.reconciler.shadow_loop import ShadowKeeper
from tests.support.examples import examples
from tests.unit.assigner.domain.test_operator_rules import ask, run, three
from tests.unit.assigner.groups import SPEC, History, hello, joined, member, seen
from tests.unit.assigner.mesh import Mesh
from tests.unit.assigner.policy.test_by_load import finished

COUNT = PlacementPolicy(Basis.COUNT)
LOAD = PlacementPolicy()
LATER_MS = 10**9


def hot(history: History, cost: float = 0.9) -> Loads:
    """One lease of the first member costs as much as many others."""
    leases = sorted(history.state.held_by(member(1)))
    return Loads(dict.fromkeys(history.state.leases, 0.1) | {leases[0]: cost})


def looked(history: History, loads: Loads, policy: PlacementPolicy) -> ShadowLook:
    """A look; nothing has changed by it."""
    before = history.state
    told = finished(look(history.state, loads, policy, LATER_MS))
    assert history.state is before
    return told


def settle(history: History, loads: Loads) -> None:
    """Until loads are as the policy wants them."""
    history.now_ms = LATER_MS
    for _ in range(20):
        if not history.do(Balance(tuple(history.state.members), loads)):
            return
        history.settle_revokes()
    raise AssertionError("the balance does not settle")


# --- what it would do


def test_what_is_even_in_number_is_compared_by_load() -> None:
    history = joined(2, seen(partitions=8))
    told = looked(history, hot(history), LOAD)
    assert told.moves == 3, "the hot one stays, its neighbours go"
    assert told.now == pytest.approx(1.2 / 0.8) and told.then == pytest.approx(0.9 / 0.8)
    counted = looked(history, hot(history), COUNT)
    assert (counted.moves, counted.then) == (0, counted.now)


def test_a_wider_band_would_leave_alone_what_a_narrow_one_moves() -> None:
    history = joined(2, seen(partitions=8))
    first, second = (sorted(history.state.held_by(member(number))) for number in (1, 2))
    loads = Loads(dict.fromkeys(first, 0.05) | {first[0]: 0.4} | dict.fromkeys(second, 0.115))  # 9 % above the mean
    assert looked(history, loads, LOAD).moves == 0
    assert looked(history, loads, PlacementPolicy(high=0.05, low=0.05)).moves == 1
    assert looked(history, hot(history), PlacementPolicy(high=2.0, low=1.0)).moves == 0


def test_a_trial_goes_on_until_another_policy_is_tried() -> None:
    first, other = Shadow(COUNT, 5), Shadow(LOAD, 9)
    trial = tried(tried(None, first, ShadowLook(2, 1.5, 1.1)), first, ShadowLook(4, 1.3, 1.3))
    assert (trial.looks, trial.last.moves) == (2, 4)
    assert (trial.average_now, trial.average_then) == pytest.approx((1.4, 1.2))
    assert tried(trial, other, ShadowLook(0, 1.0, 1.0)).looks == 1


# --- never acted upon


class Obedient(GroupDecider):
    """A mutant that places by the shadow."""

    def decide(self, state: Group, command: Command, context: Context) -> list[Event]:
        shadow = state.rules.shadow
        acting = replace(state, rules=replace(state.rules, policy=shadow.policy)) if shadow else state
        return list(super().decide(acting if isinstance(command, Balance) else state, command, context))


def check_ignored(decider: GroupDecider, policy: PlacementPolicy, seeds: list[int]) -> None:
    """The same commands lead to the same events, whatever is tried beside them."""
    plain, shadowed = joined(3, seen(partitions=12)), joined(3, seen(partitions=12))
    plain.decider = shadowed.decider = decider
    shadowed.do(SetShadow(policy))
    for seed in seeds:
        made = []
        for history in (plain, shadowed):
            history.now_ms = LATER_MS + seed
            costs = {name: 0.02 * (1 + (at * seed) % 17) for at, name in enumerate(sorted(history.state.leases))}
            joins = JoinMember(hello(member(4 + seed % 3)), SPEC)
            leaves = RemoveMember(member(4 + seed % 3), GoneReason.LEFT)
            events = history.do(joins if seed % 2 else leaves)
            made.append([*events, *history.do(Balance(tuple(history.state.members), Loads(costs)))])
        assert made[0] == made[1]


@settings(max_examples=examples(40))
@given(st.sampled_from([COUNT, LOAD, PlacementPolicy(high=0.02, low=0.02)]), st.lists(st.integers(0, 50), max_size=6))
def test_a_shadow_changes_no_decision(policy: PlacementPolicy, seeds: list[int]) -> None:
    check_ignored(GroupDecider(), policy, seeds)


def test_a_shadow_that_is_acted_upon_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check_ignored(Obedient(), COUNT, [1, 3, 5, 8])


# --- as commands


def test_asked_for_changed_kept_and_taken_back() -> None:
    history = joined(2)
    assert history.do(SetShadow(COUNT)) == [ShadowSet(COUNT)]
    since = history.state.rules.shadow
    history.now_ms += 500
    assert history.do(SetShadow(COUNT)) == [] and history.state.rules.shadow == since
    history.do(SetShadow(PlacementPolicy(high=0.3)), SetPolicy(COUNT))
    assert history.state.rules.shadow == Shadow(PlacementPolicy(high=0.3), history.now_ms)
    assert decode(encode(history.state)) == history.state
    history.do(SetShadow(None), SetPolicy(LOAD))
    assert history.state.rules == joined(2).state.rules
    assert history.do(SetShadow(None)) == history.do(SetPolicy(LOAD)) == []


def test_chosen_it_is_acted_upon_and_the_next_choice_undoes_that() -> None:
    history = joined(2, seen(partitions=8))
    loads = hot(history)
    by_number = history.holders()
    settle(history, loads)
    assert len(history.state.held_by(member(1))) == 1
    history.do(SetPolicy(COUNT))
    settle(history, loads)
    assert [len(history.state.held_by(member(n))) for n in (1, 2)] == [4, 4]
    assert len(by_number) == 8
    asked = [event for event in history.events if isinstance(event, RevokesStarted)]
    assert asked[-1].reason == "balanced over 2 members"
    history.do(SetPolicy(LOAD))
    settle(history, loads)
    assert sorted(len(history.state.held_by(member(n))) for n in (1, 2)) == [1, 7]


def test_a_change_of_policy_is_explained() -> None:
    told = explain.rule_text("logs/live/1/0", "east", PolicySet(PlacementPolicy(high=0.3, low=0.5)), ())
    assert told == "Leases are placed by load (moved above 0.3 or below 0.5 of the mean) from then on"
    assert explain.rule_text("logs/live/1/0", "east", ShadowSet(COUNT), ()) == ""


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (PlacementPolicy(Basis.COUNT, high=0.3), "policy.band_high"),
        (PlacementPolicy(high=float("nan")), "policy.band_high"),
        (PlacementPolicy(high=-0.1), "policy.band_high"),
        (PlacementPolicy(high=11.0), "policy.band_high"),
        (PlacementPolicy(low=1.5), "policy.band_low"),
    ],
)
def test_an_absurd_band_is_refused(policy: PlacementPolicy, field: str) -> None:
    for command in (SetPolicy(policy), SetShadow(policy)):
        with pytest.raises(Invalid) as raised:
            joined(1).do(command)
        assert raised.value.field == field


# --- over the wire


async def compared(mesh: Mesh) -> api.PreviewPlacementResponse:
    """The answer to a preview."""
    request = api.PreviewPlacementRequest(group="indexer")
    client = mesh.client("cli")
    return cast(
        "api.PreviewPlacementResponse",
        await client.unary("PreviewPlacement", request, api.PreviewPlacementResponse, timeout_seconds=8),
    )


def test_a_shadow_is_looked_at_told_and_forgotten() -> None:
    async def scenario() -> None:
        mesh = await three()
        policy = rules_pb2.PlacementPolicy(basis=rules_pb2.PLACEMENT_BASIS_COUNT)
        group = await ask(mesh, "SetShadow", api.SetShadowRequest(group="indexer", policy=policy))
        assert group.rules.shadow.policy == policy and group.rules.shadow.since_ms > 0
        assert group.rules.policy.basis == rules_pb2.PLACEMENT_BASIS_LOAD
        before = len(await mesh.events())
        await mesh.host.clock.sleep(35)
        told = await compared(mesh)
        assert told.shadow.policy == policy and 3 <= told.shadow.looks <= 4
        assert (told.shadow.moves, told.shadow.max_over_mean_now) == (0, 1.0)
        assert len(await mesh.events()) == before, "looking decides nothing"
        await ask(mesh, "SetShadow", api.SetShadowRequest(group="indexer"))
        await mesh.host.clock.sleep(3)
        assert not (await compared(mesh)).HasField("shadow")

    run(scenario())


def test_what_makes_no_sense_is_refused() -> None:
    async def scenario() -> None:
        mesh = await three()
        unknown = rules_pb2.PlacementPolicy()
        cases: list[tuple[str, object, type[BraidError]]] = [
            ("SetPolicy", api.SetPolicyRequest(group="indexer"), Invalid),
            ("SetShadow", api.SetShadowRequest(group="indexer", policy=unknown), Invalid),
            ("SetShadow", api.SetShadowRequest(group="nobody"), NotFound),
        ]
        for method, request, error in cases:
            with pytest.raises(error):
                await ask(mesh, method, request)

    run(scenario())


def test_work_in_slices_lets_others_run_between_them() -> None:
    async def scenario() -> None:
        mesh = await three()
        history = joined(2, seen(partitions=8))
        told = await in_turns(mesh.host.clock, look(history.state, hot(history), LOAD, LATER_MS))
        assert told == looked(history, hot(history), LOAD)

    run(scenario())


def test_what_changes_between_slices_spoils_the_look() -> None:
    async def scenario() -> None:
        mesh = await three()
        replica = await mesh.leader()
        registry = MetricRegistry()
        metrics = make_assigner_metrics(cast("Metrics", SimpleNamespace(registry=registry)))
        history = joined(2, seen(partitions=8))
        history.do(SetShadow(COUNT))
        states = [history.state]
        spoilt = [replace(history.state, created_at_ms=1)]

        def measured() -> Loads:
            states.extend(spoilt)  # while it is looked at
            spoilt.clear()
            return hot(history)

        keeper = ShadowKeeper(replica, metrics, "g", state=lambda: states[-1], loads=measured)
        looks = []
        for _ in range(2):
            keeper.look()
            await mesh.host.clock.sleep(SHADOW_LOOK_SECONDS)
            looks.append(keeper.trial.looks if keeper.trial else 0)
        assert looks == [0, 1]
        assert registry.get_sample_value("braid_shadow_moves", {"group": "g"}) == 0
        then = registry.get_sample_value("braid_shadow_imbalance", {"group": "g", "placement": "then"})
        assert then == pytest.approx(1.5)
        states.append(joined(1).state)
        keeper.look()
        assert registry.get_sample_value("braid_shadow_moves", {"group": "g"}) is None

    run(scenario())
