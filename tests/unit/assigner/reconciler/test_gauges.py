"""Metrics about responses to lag: what is in force and what was done, and nothing of groups that are gone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from prometheus_client import generate_latest

from braid.runtime.telemetry import Metrics, make_metrics
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import ResponseUndone, SetResponses, TakeResponse, UndoResponse
from services.assigner.model.lag.responses import ResponseKey, ResponseKind, ResponseMode, ResponsePolicy, ResponseState
from services.assigner.model.lag.scaling import DesiredCapacity
from services.assigner.policy.responses.facts import MemberFacts
from services.assigner.reconciler.gauges import GroupGauges
from tests.unit.assigner.groups import History, joined, seen

LIVE: Final = ResponseKey(ResponseKind.SHIFT_SHARES, "live", "")
POLICIES: Final = tuple(
    ResponsePolicy(kind, mode=ResponseMode.AUTOMATIC, reach=0.8)
    for kind in (ResponseKind.SHIFT_SHARES, ResponseKind.LEAVE_SLOW_MEMBERS)
)
SHARES: Final = (("bulk", 1.0), ("live", 4.0))


def answering() -> History:
    history = joined(2, seen(), seen("logs/bulk/1"))
    history.do(SetResponses(POLICIES))
    return history


def rows(metrics: Metrics) -> Mapping[str, float]:
    """The samples of the assigner's own metrics about groups."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith("braid_group_")]
    return {name.removeprefix("braid_group_"): float(figure) for name, _, figure in found}


def test_a_response_is_shown_while_it_is_in_force() -> None:
    history, metrics = answering(), make_metrics("assigner", "assigner-0")
    gauges = GroupGauges(metrics)
    take = TakeResponse(LIVE, ResponseState.APPLIED, SHARES, SHARES, "late", history.state.responses)
    gauges.count("indexer", history.do(take))
    gauges.show({"indexer": history.state})
    applied = 'response_changes_total{group="indexer",kind="shift-shares",outcome="applied"}'
    assert rows(metrics) == {'responses{group="indexer",kind="shift-shares",state="applied"}': 1.0, applied: 1.0}
    gauges.count("indexer", history.do(UndoResponse(LIVE, "healed", history.state.responses)))
    gauges.show({"indexer": history.state})
    assert rows(metrics) == {applied: 1.0, applied.replace("applied", "undone"): 1.0}


def test_desired_and_slow_members_are_shown_by_group() -> None:
    metrics, state = make_metrics("assigner", "assigner-0"), answering().state
    gauges = GroupGauges(metrics)
    desired = replace(state.scaling, desired=DesiredCapacity(5, 0, "late"))
    gauges.compare("indexer", {str(number): MemberFacts("web", ratio) for number, ratio in enumerate((1.0, 9.0, 2.9))})
    gauges.show({"indexer": replace(state, scaling=desired)})
    shown = {'desired_members{group="indexer"}': 5.0, 'slow_members{group="indexer"}': 1.0}
    assert rows(metrics) == shown
    gauges.show({"indexer": replace(state, responses=replace(state.responses, policies=()))})
    assert rows(metrics) == {}, "nobody compares its members any more"


def test_a_group_that_was_deleted_has_no_row() -> None:
    history, metrics = answering(), make_metrics("assigner", "assigner-0")
    gauges = GroupGauges(metrics)
    gauges.count("indexer", [ResponseUndone(history.state.spec, *LIVE, "healed")] if history.state.spec else [])
    gauges.show({"indexer": history.state})
    assert rows(metrics)
    gauges.show({"indexer": Group("indexer")})
    assert rows(metrics) == {}


def test_a_replica_that_leads_no_more_shows_no_group() -> None:
    history, metrics = answering(), make_metrics("assigner", "assigner-0")
    gauges = GroupGauges(metrics)
    history.do(TakeResponse(LIVE, ResponseState.APPLIED, SHARES, SHARES, "late", history.state.responses))
    gauges.compare("indexer", {"m-1": MemberFacts("web", 9.0)})
    gauges.show({"indexer": history.state})
    gauges.clear()
    assert rows(metrics) == {}
