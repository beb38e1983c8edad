"""Notifications as CloudEvents 1.0 in structured mode, signed as Standard Webhooks says. Pure.

`id` and `source` are those of every attempt, so a receiver drops repeats by them. The signature covers the body, the
id and the time of the attempt: an old copy of a post does not pass for a new one.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from braid.kernel.errors import Unavailable
from services.lagmon.alerts.decisions.model import RULES, Alert, Severity
from services.lagmon.alerts.outlets.decisions.model import Notification, NotificationType

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
_PREFIX: Final = "whsec_"


def event_type(type: NotificationType) -> str:
    """Names what happened to the alert."""
    return f"braid.alert.{type.name.lower()}"


def cloud_event(notification: Notification, alert: Alert, mesh: str, runbooks: str) -> bytes:
    """Builds the body of a post; equal notifications give equal bytes.

    Args:
        mesh: The id of the mesh.
        runbooks: Where the pages about rules are.
    """
    document = {
        "specversion": "1.0",
        "id": notification.id(mesh),
        "source": f"urn:braid:mesh:{mesh}",
        "type": event_type(notification.type),
        "subject": alert.name,
        "time": moment(_time_ms(notification, alert)),
        "datacontenttype": "application/json",
        "data": _data(notification, alert, runbooks),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def signature_headers(id: str, attempt_seconds: int, body: bytes, keys: Sequence[str]) -> Mapping[str, str]:
    """Returns the headers of Standard Webhooks; each key gives a signature. Raises `Unavailable` for an unreadable key.

    Args:
        attempt_seconds: Wall clock.
        keys: As `whsec_` and base64; none to sign nothing.
    """
    headers = {"webhook-id": id, "webhook-timestamp": str(attempt_seconds)}
    signed = f"{id}.{attempt_seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(_key(each), signed, hashlib.sha256)).decode() for each in keys]
    return {**headers, "webhook-signature": " ".join(f"v1,{each}" for each in signatures)} if signatures else headers


def moment(time_ms: int) -> str:
    """Writes a wall time as RFC 3339 has it, in UTC."""
    return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe(alert: Alert, runbooks: str) -> dict[str, str]:
    """Returns what helps a person with an alert: the remedy, the page about its rule, and a command."""
    rule = RULES.get(alert.key.rule)  # None for one that a newer release fired
    if rule is None:
        return {}
    command = "braid " + rule.command.format_map(alert.key._asdict())
    return {"remedy": rule.remedy, "runbook": f"{runbooks.rstrip('/')}/{rule.name}.md", "command": command}


def _data(notification: Notification, alert: Alert, runbooks: str) -> Mapping[str, object]:
    state = {
        NotificationType.FIRED: "firing",
        NotificationType.SILENCED: "silenced",
        NotificationType.RESOLVED: "resolved",
    }[notification.type]
    data: dict[str, object] = {"alert": alert.name, "state": state, **alert.key._asdict()}
    data |= {"severity": Severity(alert.severity).name.lower(), "summary": alert.summary, **describe(alert, runbooks)}
    data["fire_time"] = moment(alert.fired_ms)
    if notification.type is NotificationType.RESOLVED:
        data |= {"resolve_time": moment(alert.resolved_ms), "resolve_reason": alert.resolve_reason}
    silence = notification.silence
    if notification.type is NotificationType.SILENCED and silence is not None:
        data |= {
            "silence": {
                "until": moment(silence.expire_ms),
                "reason": silence.reason,
                "created_by": silence.created_by,
            }
        }
    return {name: each for name, each in data.items() if each != ""}


def _time_ms(notification: Notification, alert: Alert) -> int:
    if notification.type is NotificationType.RESOLVED:
        return alert.resolved_ms
    if notification.type is NotificationType.SILENCED and notification.silence is not None:
        return notification.silence.created_ms
    return alert.fired_ms


def _key(text: str) -> bytes:
    try:
        if text.startswith(_PREFIX) and (key := base64.b64decode(text.removeprefix(_PREFIX), validate=True)):
            return key
    except binascii.Error:
        pass
    raise Unavailable("a signing key is not `whsec_` and base64", remedy="write it as the receiver gave it")
