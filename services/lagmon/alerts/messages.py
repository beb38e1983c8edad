"""Alerts, pending conditions and silences as API messages. No rules."""

from typing import cast

from braid.api.lagmon.v1 import alert_pb2 as pb
from services.lagmon.alerts.decisions.model import RULES, Alert, AlertKey, Severity, Silence
from services.lagmon.alerts.decisions.tracker import Pending


def alert_message(alert: Alert, silence: Silence | None) -> pb.Alert:
    """Builds the message of an alert that fires or was resolved."""
    state = pb.ALERT_STATE_RESOLVED if alert.resolved_ms else pb.ALERT_STATE_FIRING
    message = _message(alert.key, state, alert.severity, alert.summary)
    message.fire_time_ms = alert.fired_ms
    message.resolve_time_ms = alert.resolved_ms
    message.resolve_reason = alert.resolve_reason
    if silence is not None:
        message.silence.CopyFrom(silence_message(alert.name, silence))
    return message


def pending_message(pending: Pending, silence: Silence | None) -> pb.Alert:
    """Builds the message of a condition that did not fire yet."""
    severity = RULES[pending.key.rule].severity
    message = _message(pending.key, pb.ALERT_STATE_PENDING, severity, pending.summary)
    if silence is not None:
        message.silence.CopyFrom(silence_message(pending.key.name, silence))
    return message


def silence_message(alert: str, silence: Silence) -> pb.Silence:
    """Builds the message of a silence."""
    return pb.Silence(
        alert=alert,
        reason=silence.reason,
        create_time_ms=silence.created_ms,
        expire_time_ms=silence.expire_ms,
        created_by=silence.created_by,
    )


def _message(key: AlertKey, state: "pb.AlertState.ValueType", severity: Severity, summary: str) -> pb.Alert:
    rule = RULES.get(key.rule)  # None for one that a newer release fired
    return pb.Alert(
        name=key.name,
        rule=key.rule,
        severity=cast("pb.AlertSeverity.ValueType", severity.value),
        state=state,
        summary=summary,
        remedy=rule.remedy if rule else "",
        command="braid " + rule.command.format_map(key._asdict()) if rule else "",
        runbook=f"docs/runbooks/{key.rule}.md" if rule else "",
        stream=key.stream,
        cluster=key.cluster,
        lane=key.lane,
        group=key.group,
        certificate=key.certificate,
    )
