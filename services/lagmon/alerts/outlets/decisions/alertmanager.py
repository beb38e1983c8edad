"""Alerts as Alertmanager's API v2 takes them. Pure.

Alertmanager takes an alert that is not sent again for over. So all that fire are sent every minute, each with an end
that lies ahead, and those that are over are sent with the end they had. While an alert is silenced here it is over for
Alertmanager: nobody is told of it. Labels never change while an alert lives, because they are its identity.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.alert_outlets import (
    ALERTMANAGER_BATCH,
    ALERTMANAGER_END_AHEAD_SECONDS,
    ALERTMANAGER_ENDED_SECONDS,
)
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.model import Alert, Severity
from services.lagmon.alerts.outlets.decisions.cloud_events import describe, moment

PATH: Final = "/api/v2/alerts"
CONTENT_TYPE: Final = "application/json"


class Posted(NamedTuple):
    """An alert as Alertmanager is to see it.

    Attributes:
        ended_ms: When it was over; 0 while it fires.
        why: Why it is over.
    """

    alert: Alert
    ended_ms: int
    why: str


def to_post(alerts: Alerts, now_ms: int) -> list[Posted]:
    """Returns all that fire, and what is over for a quarter of an hour at most; pages come first."""
    since = now_ms - ALERTMANAGER_ENDED_SECONDS * 1_000
    found = [Posted(each, each.resolved_ms, each.resolve_reason) for each in alerts.resolved]
    for name, alert in alerts.open.items():
        silence = alerts.silences.get(name)
        if silence is None or silence.expire_ms <= now_ms:
            found.append(Posted(alert, 0, ""))
        else:
            why = f"silenced until {moment(silence.expire_ms)} by {silence.created_by}: {silence.reason}"
            found.append(Posted(alert, max(silence.created_ms, alert.fired_ms + 1), why))
    newest = {each.alert.name: each for each in found}  # an end that came before must not end what fires again
    wanted = [each for each in newest.values() if not each.ended_ms or each.ended_ms > since]
    return sorted(wanted, key=lambda each: (bool(each.ended_ms), each.alert.severity, each.alert.name))


def batches(posted: Sequence[Posted], mesh: str, runbooks: str, now_ms: int) -> Iterator[bytes]:
    """Yields the bodies of the posts, each of a bounded number of alerts."""
    for at in range(0, len(posted), ALERTMANAGER_BATCH):
        documents = [_document(each, mesh, runbooks, now_ms) for each in posted[at : at + ALERTMANAGER_BATCH]]
        yield json.dumps(documents, separators=(",", ":"), ensure_ascii=False).encode()


def _document(posted: Posted, mesh: str, runbooks: str, now_ms: int) -> Mapping[str, object]:
    alert = posted.alert
    help = describe(alert, runbooks)
    annotations = {
        "summary": alert.summary,
        "description": help.get("remedy", ""),
        "runbook_url": help.get("runbook", ""),
        "command": help.get("command", ""),
        "resolve_reason": posted.why,
    }
    document: dict[str, object] = {
        "labels": _labels(alert, mesh),
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": moment(alert.fired_ms),
        "endsAt": moment(posted.ended_ms or now_ms + round(ALERTMANAGER_END_AHEAD_SECONDS * 1_000)),
    }
    if help.get("runbook", "").startswith(("https://", "http://")):  # it has to be a URL
        document["generatorURL"] = help["runbook"]
    return document


def alert_name(rule: str) -> str:
    """Returns the `alertname` of a rule's alerts: `BraidLagPage` of `lag-page`."""
    return "Braid" + "".join(part.capitalize() for part in rule.split("-"))


def _labels(alert: Alert, mesh: str) -> Mapping[str, str]:
    labels = {
        "alertname": alert_name(alert.key.rule),
        "severity": Severity(alert.severity).name.lower(),
        "mesh": mesh,
        **alert.key._asdict(),
    }
    return {name: text for name, text in labels.items() if text}
