"""Broken rules of alerts, each of which a test of this package finds."""

from collections.abc import Callable
from enum import IntEnum

import pytest

from services.lagmon.alerts.decisions.facts import LaneLag
from services.lagmon.kept.rows import Column, Flag
from tests.unit.lagmon.alerts.decisions import (
    test_burn_rates,
    test_certificates,
    test_copies,
    test_disks,
    test_domain,
    test_each_rule,
    test_evaluation,
    test_group_rules,
    test_past_windows,
    test_rules,
    test_tracker,
)


def _never_dead(stream: str, facts: object) -> bool:
    return False


def _always_known(lag: LaneLag, target: float) -> bool:
    return lag.seconds > target


class _UnmarkedFlag:
    """Takes rows of earlier releases for rows with a smallest lag."""

    SECONDS = Flag.SECONDS
    SMALLEST = Flag.SECONDS


def _some_stories() -> None:
    for seed in range(8):
        test_past_windows.tell_story(seed)


class _SmallestIsLargest(IntEnum):
    """Takes rows for good in which any sample was good."""

    MAX_MS = Column.MIN_MS
    MIN_MS = Column.MIN_MS
    KNOWN_MS = Column.KNOWN_MS
    FLAGS = Column.FLAGS


@pytest.mark.parametrize(
    ("place", "broken", "check"),
    [
        ("rules.is_on_dead_cluster", _never_dead, test_rules.test_a_dead_cluster_is_one_alert),
        ("rules.is_bad", _always_known, test_rules.test_unknown_lag_leads_to_conditions_that_are_not_known),
        ("rules.ALERT_DRAIN_SECONDS", 1.0, test_rules.test_a_blocked_failover_and_a_held_drain_are_told),
        ("rules.ALERT_RETENTION_LEFT_SECONDS", 1e9, test_rules.test_days_that_are_left_wake_nobody),
        (
            "copies.ALERT_COPIES_SECONDS",
            1.0,
            test_copies.test_a_rolling_restart_is_not_told_and_a_long_absence_is,
        ),
        ("copies.ALERT_RESTART_SECONDS", 0.0, test_copies.test_a_broker_that_leaves_again_and_again_is_told),
        (
            "copies.ALERT_COPIES_TOPICS_MAX",
            99,
            test_copies.test_one_alert_about_the_cluster_leaves_those_of_topics_open,
        ),
        ("copies.ALERT_COPIES_GAP_SECONDS", 1e9, test_copies.test_a_lack_that_ends_is_over_at_once_and_begins_anew),
        ("disks.ALERT_DISK_TAKEN", 1e9, test_disks.test_a_ripple_after_a_gap_fills_nothing),
        ("cluster_rules.WATCHED_FOR_PAGE", 0.0, test_disks.test_a_replica_that_has_just_begun_resolves_nothing),
        ("disks._RECENT", 1e-3, test_disks.test_growth_that_is_over_pages_nobody_anew),
        (
            "certificates.ALERT_CERTIFICATE_LIFE_TICKET",
            1e9,
            lambda: test_certificates.test_a_certificate_that_ends_is_told_in_time(30, 90, {}),
        ),
        (
            "certificates.ALERT_CERTIFICATE_KEPT_SECONDS",
            1.0,
            test_certificates.test_a_restarting_replica_is_kept_and_a_gone_one_forgotten,
        ),
        (
            "certificates._ends_with_authority",
            lambda reading: False,
            test_certificates.test_an_authority_that_ends_is_one_alert,
        ),
        (
            "certificates.ALERT_CERTIFICATES_MAX",
            1_000,
            test_certificates.test_replicas_beyond_the_bound_are_not_watched,
        ),
        ("past_windows.Flag", _UnmarkedFlag, test_past_windows.test_rows_without_a_smallest_lag_are_never_bad),
        (
            "past_windows.ALERT_PAST_MARGIN_SECONDS",
            -60.0,
            test_past_windows.test_time_in_which_a_cluster_was_down_burns_no_budget,
        ),
        (
            "past_windows.Column",
            _SmallestIsLargest,
            _some_stories,
        ),
        (
            "rewinds.ALERT_REWIND_SECONDS",
            1e9,
            test_group_rules.test_a_rewind_names_its_partitions_and_ends_after_its_time,
        ),
        ("rewinds.GroupFacts.resets", 0, test_group_rules.test_a_reset_that_braid_made_is_no_rewind),
        ("stuck.ALERT_STUCK_SECONDS", 0.0, test_rules.test_a_base_offset_that_stays_is_stuck_after_its_time),
        (
            "group_rules.is_idle",
            lambda group: False,
            lambda: test_each_rule.test_an_alert_fires_in_its_trouble_and_is_resolved_after("group-idle"),
        ),
        (
            "tracker.ALERT_QUIET_SECONDS",
            1e9,
            lambda: test_each_rule.test_an_alert_fires_in_its_trouble_and_is_resolved_after("drain-held"),
        ),
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
