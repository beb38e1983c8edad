"""The rules: a table of situations with the alerts that follow, and the causes that inhibit others."""

from dataclasses import replace
from pathlib import Path

import pytest

from braid.kernel.limits.lagmon.alerts import ALERT_STUCK_SECONDS
from services.lagmon.alerts.decisions.burn_rates import BurnRates
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    Facts,
    Health,
    HeldDrain,
    LaneKey,
    LaneLag,
    Retention,
    StreamFacts,
    lane_lags,
)
from services.lagmon.alerts.decisions.model import RULES, AlertKey
from services.lagmon.alerts.decisions.rules import Seen, conditions
from services.lagmon.alerts.decisions.stuck import BaseOffsets
from services.lagmon.model.lag import LagRow, RowKey, Source

LIVE = LaneKey("logs", "live", "indexer")
NOW_MS = 1_770_000_000_000
STREAM = StreamFacts(targets={"live": 5.0}, clusters=frozenset({"east"}))
HEALTHY = {"east": ClusterFacts(Health.WELL, "")}
GOOD = LaneLag(seconds=0.5, records=10, largest=4, partitions=4)
BEHIND = LaneLag(seconds=9.0, records=100, largest=30, partitions=4)


def burnt(seconds: int = 60, good: int = 3_600) -> BurnRates[LaneKey]:
    """Windows of an hour of good time and some bad seconds."""
    rates: BurnRates[LaneKey] = BurnRates()
    rates.advance(0.0)
    for at in range(0, good, 5):
        rates.advance(at + 5.0)
        rates.observe({LIVE: False}, at, at + 5.0)
    for at in range(good, good + seconds):
        rates.advance(at + 1.0)
        rates.observe({LIVE: True}, at, at + 1.0)
    return rates


def found(
    lag: LaneLag | None = None,
    stream: StreamFacts = STREAM,
    cluster: ClusterFacts = HEALTHY["east"],
    burns: BurnRates[LaneKey] | None = None,
) -> set[str]:
    """The rules whose conditions hold."""
    facts = Facts({"logs": stream}, {"east": cluster})
    seen = Seen(facts, {LIVE: lag} if lag else {}, burns if burns is not None else burnt(0), NOW_MS)
    return {each.key.rule for each in conditions(seen).values() if each.holds}


@pytest.mark.parametrize(
    ("lag", "rules"),
    [
        (GOOD, set()),
        (BEHIND, set()),  # behind its target, and within its budget
        (replace(BEHIND, unattended=True), {"group-unattended"}),
        (replace(GOOD, unattended=True), set()),
        (replace(BEHIND, stuck=[2]), {"partition-stuck"}),
        (replace(GOOD, stuck=[2]), set()),
        (replace(BEHIND, largest=81), {"partition-hot"}),
        (replace(BEHIND, largest=80), set()),
        (replace(BEHIND, largest=100, partitions=3), set()),
        (replace(BEHIND, retention=Retention(0.81, 86_399.0)), {"retention-near"}),
        (replace(BEHIND, retention=Retention(0.80, 3_600.0)), set()),
        (replace(BEHIND, known=False, retention=Retention(1.1, -60.0)), {"retention-near"}),
        (replace(GOOD, known=False, unattended=True), set()),
    ],
)
def test_each_lag_leads_to_these_alerts(lag: LaneLag, rules: set[str]) -> None:
    assert found(lag) == rules


def test_days_that_are_left_wake_nobody() -> None:
    assert found(replace(BEHIND, retention=Retention(0.99, 86_400.0))) == set()


def test_a_lane_that_burns_its_budget_pages() -> None:
    assert found(BEHIND, burns=burnt(60)) == {"lag-page"}
    assert found(BEHIND, replace(STREAM, targets={}), burns=burnt(60)) == set()


def test_nobody_is_paged_about_what_is_over() -> None:
    assert found(GOOD, burns=burnt(60)) == set()


def test_a_cause_inhibits_what_it_explains() -> None:
    burns = burnt(60)
    assert found(replace(BEHIND, unattended=True, stuck=[1], largest=99), burns=burns) == {"group-unattended"}
    assert found(replace(BEHIND, stuck=[1], largest=99), burns=burns) == {"lag-page", "partition-stuck"}


def test_a_dead_cluster_is_one_alert() -> None:
    down = ClusterFacts(Health.DOWN, "no broker answers")
    lag = replace(BEHIND, unattended=True, stuck=[1], largest=99, retention=Retention(0.9, 60.0))
    assert found(lag, cluster=down, burns=burnt(60)) == {"cluster-down"}
    elsewhere = replace(STREAM, clusters=frozenset({"west"}))
    assert found(lag, elsewhere, down, burnt(60)) == {"cluster-down", "group-unattended", "retention-near"}


def test_a_cluster_that_is_not_well_is_doubted() -> None:
    assert found(cluster=ClusterFacts(Health.DOUBTED, "slow")) == {"cluster-doubted"}


def test_a_blocked_failover_and_a_held_drain_are_told() -> None:
    assert found(stream=replace(STREAM, blocked="no cluster has room")) == {"failover-blocked"}
    drain = HeldDrain("live", "logs/live/1", ("group indexer",), NOW_MS - 3_600_000)
    assert found(stream=replace(STREAM, drains=(drain,))) == set()
    assert found(stream=replace(STREAM, drains=(drain._replace(since_ms=NOW_MS - 3_600_001),))) == {"drain-held"}


def test_facts_that_are_old_decide_nothing_about_clusters() -> None:
    facts = Facts({"logs": replace(STREAM, blocked="x")}, {"east": ClusterFacts(Health.DOWN, "")}, fresh=False)
    told = conditions(Seen(facts, {}, burnt(0), NOW_MS))
    assert {each.holds for each in told.values()} == {None}


def test_a_group_has_its_own_target() -> None:
    own = replace(STREAM, targets={"live": 5.0, "live/indexer": 60.0})
    assert found(replace(BEHIND, unattended=True), own) == set()


def test_a_group_with_members_is_known_to_be_attended() -> None:
    facts = Facts({"logs": STREAM}, HEALTHY)
    told = conditions(Seen(facts, {LIVE: replace(GOOD, known=False)}, burnt(0), NOW_MS))
    assert told[AlertKey("group-unattended", "logs", "", "live", "indexer")].holds is False


def test_unknown_lag_leads_to_conditions_that_are_not_known() -> None:
    unknown = replace(GOOD, known=False, unattended=True)
    facts = Facts({"logs": STREAM}, HEALTHY)
    told = conditions(Seen(facts, {LIVE: unknown}, burnt(0), NOW_MS))
    assert told[AlertKey("group-unattended", "logs", "", "live", "indexer")].holds is None


def row(partition: int = 0, **changed: object) -> LagRow:
    """One partition's lag."""
    values: dict[str, object] = {
        "key": RowKey("indexer", "logs", "live", "east", "t", partition), "partitions": 1, "lag_records": 5,
        "lag_seconds": 2.0, "source": Source.ENVELOPE, "foreign": False, "stale": False, "as_of_ms": 0,
        "committed_offset": 7,
    }  # fmt: skip
    return LagRow(**{**values, **changed})  # type: ignore[arg-type]


def test_partitions_add_up_to_a_lane() -> None:
    rows = [row(), row(1, lag_seconds=9.0, lag_records=1), row(2, foreign=True), row(3, unattended=True)]
    lag = lane_lags(rows, frozenset({("indexer", "t", 1)}))[LIVE]
    assert lag == LaneLag(True, 9.0, 11, 5, 3, True, [1])


@pytest.mark.parametrize("changed", [{"stale": True, "lag_seconds": 99.0}, {"source": Source.UNKNOWN}])
def test_a_lane_with_a_stale_or_unknown_partition_is_not_known(changed: dict[str, object]) -> None:
    lag = lane_lags([row(), row(1, **changed)], frozenset())[LIVE]
    assert (lag.known, lag.seconds) == (False, 2.0)


def test_what_is_nearest_to_being_deleted_counts_for_a_lane() -> None:
    rows = [row(lag_seconds=50.0), row(1, lag_seconds=90.0), row(2, stale=True, lag_seconds=99.0)]
    assert lane_lags(rows, frozenset(), {("east", "t"): 100.0})[LIVE].retention == Retention(0.9, 10.0)
    assert lane_lags(rows, frozenset(), {("west", "t"): 100.0})[LIVE].retention is None
    drained = row(key=RowKey("indexer", "logs", "live", "east", "old", 0), lag_seconds=70.0)
    both = lane_lags([*rows, drained], frozenset(), {("east", "t"): 1_000.0, ("east", "old"): 100.0})
    assert both[LIVE].retention == Retention(0.7, 30.0)


def test_a_base_offset_that_stays_is_stuck_after_its_time() -> None:
    bases = BaseOffsets()
    assert bases.observe([row()], 0.0) == frozenset()
    assert bases.observe([row(stale=True, committed_offset=9)], ALERT_STUCK_SECONDS - 1) == frozenset()
    assert bases.observe([row()], ALERT_STUCK_SECONDS) == {("indexer", "t", 0)}
    assert bases.observe([row(committed_offset=8)], ALERT_STUCK_SECONDS + 1) == frozenset()
    assert bases.observe([row(lag_records=0)], 2 * ALERT_STUCK_SECONDS + 9) == frozenset()


def test_every_rule_has_its_page_and_no_page_is_without_a_rule() -> None:
    pages = {path.stem for path in Path("docs/runbooks").glob("*.md")} - {"README"}
    assert pages == set(RULES)
