"""Broken rules of alerts, each of which a test of this package finds."""

from collections.abc import Callable

import pytest

from services.lagmon.alerts.decisions.facts import LaneLag
from tests.unit.lagmon.alerts.decisions import test_burn_rates, test_domain, test_evaluation, test_rules, test_tracker


def _never_dead(stream: str, facts: object) -> bool:
    return False


def _always_known(lag: LaneLag, target: float) -> bool:
    return lag.seconds > target


@pytest.mark.parametrize(
    ("place", "broken", "check"),
    [
        ("rules.is_on_dead_cluster", _never_dead, test_rules.test_a_dead_cluster_is_one_alert),
        ("rules.is_bad", _always_known, test_rules.test_unknown_lag_leads_to_conditions_that_are_not_known),
        ("rules.ALERT_DRAIN_SECONDS", 1.0, test_rules.test_a_blocked_failover_and_a_held_drain_are_told),
        ("stuck.ALERT_STUCK_SECONDS", 0.0, test_rules.test_a_base_offset_that_stays_is_stuck_after_its_time),
        ("tracker.ALERT_QUIET_SECONDS", 0.5, test_tracker.test_an_alert_is_resolved_after_quiet_seconds_and_not_before),
        ("domain.ALERTS_OPEN_MAX", 10**9, test_domain.test_pages_fire_before_tickets_where_room_is_short),
        ("domain.ALERTS_RESOLVED_SECONDS", 1e9, test_domain.test_resolved_alerts_are_kept_up_to_a_number_and_an_age),
        ("domain.SILENCES_MAX", 10**9, test_domain.test_silences_are_bounded_and_one_may_be_renewed),
        ("burn_rates.ALERT_TARGETS_MAX", 10**9, test_burn_rates.test_targets_beyond_the_bound_are_counted_not_kept),
        ("evaluation.ALERT_SAMPLE_SECONDS_MAX", 1e3, test_evaluation.test_a_paused_process_decides_nothing_by_its_gap),
    ],
)
def test_a_broken_rule_is_found(
    place: str, broken: object, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    monkeypatch.setattr(f"services.lagmon.alerts.decisions.{place}", broken)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()
