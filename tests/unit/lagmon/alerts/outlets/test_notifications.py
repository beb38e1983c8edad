"""Which notification is due to a webhook, for each state of an alert and of what the webhook was told."""

from dataclasses import replace

import pytest

from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.model import Alert, AlertKey, Severity, Silence
from services.lagmon.alerts.outlets.decisions.model import (
    Firing,
    Notification,
    NotificationOutcome,
    NotificationType,
    Outlet,
    Told,
    due_notifications,
    due_type,
    is_moot,
)

NOW = 1_770_000_000_000
HOUR_MS = 3_600_000
FIRED, SILENCED, RESOLVED = NotificationType
KEY = AlertKey("lag-page", "logs", "", "live", "indexer")
OPEN = Alert(KEY, Severity.PAGE, "behind", NOW - 60_000)
OVER = replace(OPEN, resolved_ms=NOW - 1_000, resolve_reason="over")
LONG_OVER = replace(OPEN, fired_ms=NOW - 9 * HOUR_MS, resolved_ms=NOW - 2 * HOUR_MS)
DAYS_OVER = replace(OPEN, fired_ms=NOW - 90 * HOUR_MS, resolved_ms=NOW - 25 * HOUR_MS)
QUIET = Silence("ticket 17", NOW - 500, NOW + HOUR_MS, "ann")


@pytest.mark.parametrize(
    ("alert", "silence", "last", "due"),
    [
        (OPEN, None, None, FIRED),
        (OPEN, QUIET, None, None),
        (OPEN, None, FIRED, None),
        (OPEN, QUIET, FIRED, SILENCED),
        (OPEN, QUIET, SILENCED, None),
        (OPEN, None, SILENCED, FIRED),  # the silence is over, and it still fires
        (OVER, None, None, FIRED),  # it came and went while nobody could be told
        (OVER, QUIET, None, NotificationOutcome.SKIPPED),
        (OVER, None, FIRED, RESOLVED),
        (OVER, QUIET, FIRED, RESOLVED),  # an incident is open that nobody else closes
        (OVER, QUIET, SILENCED, RESOLVED),
        (OVER, None, RESOLVED, None),
        (LONG_OVER, None, None, None),
        (LONG_OVER, None, FIRED, RESOLVED),
        (DAYS_OVER, None, FIRED, None),
    ],
)
def test_what_is_due_follows_from_the_alert_and_the_last_word(
    alert: Alert, silence: Silence | None, last: NotificationType | None, due: object
) -> None:
    assert due_type(alert, silence, Told(last), 0, NOW) is due


@pytest.mark.parametrize("begun", list(NotificationType))
@pytest.mark.parametrize(("alert", "silence"), [(OPEN, None), (OPEN, QUIET), (OVER, None), (OVER, QUIET)])
def test_what_is_begun_is_finished_whatever_happened_since(
    alert: Alert, silence: Silence | None, begun: NotificationType
) -> None:
    assert due_type(alert, silence, Told(None, begun), 0, NOW) is begun


def test_a_new_webhook_hears_what_fires_and_not_what_is_over() -> None:
    outlet = Outlet(since_ms=NOW)
    alerts = Alerts({OPEN.name: OPEN}, (replace(OVER, fired_ms=NOW - 90_000),))
    assert due_notifications(outlet, alerts, NOW) == [
        Notification(Firing(OPEN.name, OPEN.fired_ms), OPEN, FIRED, 1, None)
    ]


def test_what_is_begun_comes_first_and_pages_before_tickets() -> None:
    ticket = Alert(KEY._replace(group="a"), Severity.TICKET, "", NOW - 90_000)
    begun = Alert(KEY._replace(group="z"), Severity.TICKET, "", NOW - 10_000)
    told = {Firing(begun.name, begun.fired_ms): Told(None, FIRED, 0, NOW)}
    alerts = Alerts({each.name: each for each in (ticket, OPEN, begun)})
    found = due_notifications(Outlet(0, told=told), alerts, NOW)
    assert [each.alert for each in found if isinstance(each, Notification)] == [begun, OPEN, ticket]


def test_each_notification_has_an_id_of_its_own() -> None:
    firing = Firing(OPEN.name, OPEN.fired_ms)
    first = Notification(firing, OPEN, FIRED, 1)
    others = [
        first._replace(ordinal=2),
        first._replace(type=RESOLVED),
        first._replace(firing=Firing(OPEN.name, OPEN.fired_ms + 1)),
        first._replace(firing=Firing("cluster/east/cluster-down", OPEN.fired_ms)),
    ]
    ids = {each.id("mesh-1") for each in (first, *others)} | {first.id("mesh-2")}
    assert len(ids) == 6
    assert first._replace(alert=OVER, silence=QUIET).id("mesh-1") == first.id("mesh-1")  # of a later attempt
    assert not {char for id in ids for char in id} & {".", "|", " "}  # a signature is over `<id>.<time>.<body>`


@pytest.mark.parametrize(
    ("alert", "silence", "type", "moot"),
    [
        (OPEN, None, FIRED, False),
        (OVER, QUIET, FIRED, False),
        (LONG_OVER, None, FIRED, True),
        (OPEN, QUIET, SILENCED, False),
        (OPEN, None, SILENCED, True),
        (OVER, QUIET, SILENCED, True),
        (OVER, None, RESOLVED, False),
        (DAYS_OVER, None, RESOLVED, True),
        (None, None, FIRED, True),
    ],
)
def test_what_is_too_late_or_overtaken_is_given_up(
    alert: Alert | None, silence: Silence | None, type: NotificationType, moot: bool
) -> None:
    assert is_moot(Notification(Firing(OPEN.name, OPEN.fired_ms), alert, type, 1, silence), NOW) is moot


def test_a_silence_that_is_over_counts_no_more() -> None:
    alerts = Alerts({OPEN.name: OPEN}, (), {OPEN.name: replace(QUIET, expire_ms=NOW)})
    assert len(due_notifications(Outlet(0), alerts, NOW)) == 1
    assert due_notifications(Outlet(0), alerts, NOW - 1) == []
