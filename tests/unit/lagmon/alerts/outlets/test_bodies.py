"""Bodies of posts to webhooks and Alertmanagers, as their receivers rely on them."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from braid.kernel.errors import Unavailable
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.model import RULES, Alert, AlertKey, Severity, Silence
from services.lagmon.alerts.outlets.decisions.alertmanager import alert_name, batches, to_post
from services.lagmon.alerts.outlets.decisions.cloud_events import cloud_event, signature_headers
from services.lagmon.alerts.outlets.decisions.model import Firing, Notification, NotificationType
from services.lagmon.alerts.outlets.sending import retry_seconds

NOW = 1_770_000_000_000
FIRED, SILENCED, RESOLVED = NotificationType
KEY = AlertKey("lag-page", "logs", "", "live", "indexer")
OPEN = Alert(KEY, Severity.PAGE, "group indexer is 12 s behind", NOW - 60_000)
OVER = replace(OPEN, resolved_ms=NOW - 1_000, resolve_reason="its condition does not hold any more")
DOWN = Alert(AlertKey("cluster-down", "", "east"), Severity.PAGE, "cluster east is down", NOW - 5_000)
QUIET = Silence("ticket 17", NOW - 500, NOW + 3_600_000, "ann")
RUNBOOKS = "https://docs.example/runbooks"


def event(alert: Alert, type: NotificationType, silence: Silence | None = None) -> dict[str, Any]:
    """The body of a notification, read."""
    notification = Notification(Firing(alert.name, alert.fired_ms), alert, type, 1, silence)
    found: dict[str, Any] = json.loads(cloud_event(notification, alert, "mesh-1", RUNBOOKS))
    return found


def posted(alerts: Alerts, now_ms: int = NOW) -> list[dict[str, Any]]:
    """The alerts that an Alertmanager is sent, read."""
    bodies = batches(to_post(alerts, now_ms), "mesh-1", RUNBOOKS, now_ms)
    return [each for body in bodies for each in json.loads(body)]


def test_a_cloud_event_has_what_the_specification_asks_for() -> None:
    found = event(OPEN, FIRED)
    assert {"specversion", "id", "source", "type"} <= set(found)  # CloudEvents 1.0, "REQUIRED Attributes"
    assert (found["specversion"], found["type"]) == ("1.0", "braid.alert.fired")
    assert (found["source"], found["subject"]) == ("urn:braid:mesh:mesh-1", "stream/logs/lag-page/live/indexer")
    assert (found["time"], found["datacontenttype"]) == ("2026-02-02T02:39:00.000Z", "application/json")
    assert found["data"] == {
        "alert": OPEN.name, "state": "firing", "rule": "lag-page", "stream": "logs", "lane": "live",
        "group": "indexer", "severity": "page", "summary": "group indexer is 12 s behind",
        "remedy": RULES["lag-page"].remedy, "runbook": "https://docs.example/runbooks/lag-page.md",
        "command": "braid get lag indexer --stream logs", "fire_time": "2026-02-02T02:39:00.000Z",
    }  # fmt: skip


def test_the_end_and_a_silence_are_told_with_their_reasons() -> None:
    over = event(OVER, RESOLVED)
    assert (over["type"], over["time"]) == ("braid.alert.resolved", "2026-02-02T02:39:59.000Z")
    assert (over["data"]["state"], over["data"]["resolve_reason"]) == ("resolved", OVER.resolve_reason)
    quiet = event(OPEN, SILENCED, QUIET)["data"]
    assert quiet["silence"] == {"until": "2026-02-02T03:40:00.000Z", "reason": "ticket 17", "created_by": "ann"}


def test_an_alert_of_a_rule_unknown_here_is_told_all_the_same() -> None:
    newer = replace(OPEN, key=KEY._replace(rule="newer-rule"))
    assert "command" not in event(newer, FIRED)["data"]
    assert posted(Alerts({newer.name: newer}))[0]["labels"]["alertname"] == "BraidNewerRule"


def test_signatures_are_those_of_standard_webhooks() -> None:
    keys = [b"k" * 24, b"l" * 24]
    body = b'{"a":1}'
    headers = signature_headers(
        "ntf_1", 1_770_000_000, body, [f"whsec_{base64.b64encode(key).decode()}" for key in keys]
    )
    expected = [
        base64.b64encode(hmac.new(key, b"ntf_1.1770000000." + body, hashlib.sha256).digest()).decode() for key in keys
    ]
    assert headers == {
        "webhook-id": "ntf_1",
        "webhook-timestamp": "1770000000",
        "webhook-signature": f"v1,{expected[0]} v1,{expected[1]}",
    }
    assert "webhook-signature" not in signature_headers("ntf_1", 1, body, [])


@pytest.mark.parametrize("key", ["", "whsec_", "whsec_!!", "c2VjcmV0"])
def test_a_key_of_another_form_signs_nothing(key: str) -> None:
    with pytest.raises(Unavailable, match="whsec_"):
        signature_headers("ntf_1", 1, b"", [key])


def test_alertmanager_gets_what_fires_with_an_end_ahead() -> None:
    (found,) = posted(Alerts({OPEN.name: OPEN}))
    assert found["labels"] == {
        "alertname": "BraidLagPage", "severity": "page", "mesh": "mesh-1", "rule": "lag-page", "stream": "logs",
        "lane": "live", "group": "indexer",
    }  # fmt: skip
    assert found["annotations"] == {
        "summary": OPEN.summary,
        "description": RULES["lag-page"].remedy,
        "runbook_url": "https://docs.example/runbooks/lag-page.md",
        "command": "braid get lag indexer --stream logs",
    }
    assert (found["startsAt"], found["endsAt"]) == ("2026-02-02T02:39:00.000Z", "2026-02-02T02:45:00.000Z")
    assert found["generatorURL"] == "https://docs.example/runbooks/lag-page.md"


def test_alertmanager_gets_the_end_for_a_quarter_of_an_hour() -> None:
    alerts = Alerts({}, (OVER,))
    (found,) = posted(alerts)
    assert found["endsAt"] == "2026-02-02T02:39:59.000Z"
    assert found["annotations"]["resolve_reason"] == OVER.resolve_reason
    assert posted(alerts, NOW + 890_000)
    assert posted(alerts, NOW + 900_000) == []


def test_an_end_that_came_before_does_not_end_what_fires_again() -> None:
    before = replace(OVER, fired_ms=NOW - 200_000, resolved_ms=NOW - 100_000)
    (found,) = posted(Alerts({OPEN.name: OPEN}, (before,)))
    assert found["endsAt"] == "2026-02-02T02:45:00.000Z"
    (found,) = posted(Alerts({}, (before, OVER)))
    assert found["endsAt"] == "2026-02-02T02:39:59.000Z"


def test_a_silenced_alert_is_over_for_alertmanager() -> None:
    (found,) = posted(Alerts({OPEN.name: OPEN}, (), {OPEN.name: QUIET}))
    assert found["endsAt"] == "2026-02-02T02:39:59.500Z"
    assert found["annotations"]["resolve_reason"].startswith(
        "silenced until 2026-02-02T03:40:00.000Z by ann: ticket 17"
    )
    (found,) = posted(Alerts({OPEN.name: OPEN}, (), {OPEN.name: QUIET}), QUIET.expire_ms)
    assert found["endsAt"] == "2026-02-02T03:45:00.000Z"
    early = replace(QUIET, created_ms=OPEN.fired_ms - 10_000)  # made before the alert fired
    (found,) = posted(Alerts({OPEN.name: OPEN}, (), {OPEN.name: early}))
    assert found["startsAt"] < found["endsAt"] < "2026-02-02T02:39:01"


def test_posts_are_bounded_and_what_fires_comes_first() -> None:
    many = {f"{n}": replace(DOWN, key=DOWN.key._replace(cluster=f"c{n:03}")) for n in range(100)}
    bodies = list(batches(to_post(Alerts(many, (OVER,)), NOW), "mesh-1", RUNBOOKS, NOW))
    assert [len(json.loads(body)) for body in bodies] == [64, 37]
    assert json.loads(bodies[-1])[-1]["labels"]["rule"] == "lag-page"


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({alert_name(name) for name in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0),
        ("7", 7.0),
        ("999999999999999999999", 300.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("Mon, 02 Feb 2026 02:40:30 GMT", 30.0),
        ("Mon, 02 Feb 2026 02:39:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 300.0),
        ("\u0667", 0.0),
    ],
)
def test_retry_after_is_heeded_within_a_bound(text: str, seconds: float) -> None:
    assert retry_seconds(text, NOW) == seconds
