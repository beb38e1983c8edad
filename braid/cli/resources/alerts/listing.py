"""Alerts as items to show, and one of them in full."""

from typing import Final

from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render_document
from braid.cli.core.session import Session, missing
from braid.cli.core.times import age_text, clock_text
from braid.kernel.errors import NotFound, Unavailable
from braid.kernel.limits.names import PAGE_SIZE_MAX

COLUMNS: Final = Columns((Column("SEVERITY"), Column("STATE"), Column("WHY", shrinks=True)))


async def list_alerts(session: Session, scope: Scope) -> list[Item]:
    """Alerts that fire or are pending, by name."""
    return [alert_item(each) for each in await _alerts(session, scope.stream)]


async def resolved_alerts(session: Session, items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Divides alerts that are listed no more: those that were resolved, as they are now, and those that are gone."""
    resolved: list[Item] = []
    gone: list[Item] = []
    for item in items:
        try:
            request = api.GetAlertRequest(name=item.name)
            alert = await session.read("lagmon", "GetAlert", request, alert_pb2.Alert)
        except (NotFound, Unavailable):
            gone.append(item)
            continue
        if alert.resolve_time_ms and item.since_ms:  # one that never fired is gone, whatever was resolved before it
            resolved.append(alert_item(alert))
        else:
            gone.append(item)
    return resolved, gone


def is_changed(one: Item, other: Item) -> bool:
    """Whether a watch tells an alert again: its severity or state differs. Why it is pending differs all the time."""
    return one.cells[:2] != other.cells[:2]


def alert_item(alert: alert_pb2.Alert) -> Item:
    """The row of an alert."""
    severity = enum_text(alert_pb2.AlertSeverity.DESCRIPTOR, alert.severity).upper()
    why = f"{alert.resolve_reason}; it was: {alert.summary}" if alert.resolve_time_ms else alert.summary
    cells = (severity, state_text(alert), why)
    document: Document = {"apiVersion": API_VERSION, "kind": "Alert", **to_document(alert)}
    return Item(alert.name, f"alert/{alert.name}", cells, alert.fire_time_ms, document)


def state_text(alert: alert_pb2.Alert) -> str:
    """An alert's state, as tables show it: SILENCED while it fires and is silenced."""
    if alert.state == alert_pb2.ALERT_STATE_FIRING and alert.HasField("silence"):
        return "SILENCED"
    return enum_text(alert_pb2.AlertState.DESCRIPTOR, alert.state).upper()


async def describe_alert(session: Session, name: str, format: Format) -> int:
    """Prints one alert: why it fires, since when, and what would help. Raises `NotFound`."""
    name = name.removeprefix("alert/")
    try:
        alert = await session.read("lagmon", "GetAlert", api.GetAlertRequest(name=name), alert_pb2.Alert)
    except NotFound as error:
        raise missing(error, name, [each.name for each in await _alerts(session, "")]) from error
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, alert_item(alert).document))
        return 0
    session.terminal.print("\n".join(_story(session, alert)))
    return 0


def _story(session: Session, alert: alert_pb2.Alert) -> list[str]:
    silence = ""
    if alert.HasField("silence"):
        until = clock_text(alert.silence.expire_time_ms, session.now)
        silence = f"until {until} by {alert.silence.created_by}: {alert.silence.reason}"
    fields = {
        "name": alert.name,
        "state": state_text(alert),
        "severity": enum_text(alert_pb2.AlertSeverity.DESCRIPTOR, alert.severity).upper(),
        "why": alert.summary,
        "since": _moment(session, alert.fire_time_ms),
        "resolved": _moment(session, alert.resolve_time_ms),
        "because": alert.resolve_reason,
        "silence": silence,
        "remedy": alert.remedy,
        "runbook": alert.runbook,
    }
    lines = [f"{label + ':':11}{text}" for label, text in fields.items() if text]
    commands = [] if alert.resolve_time_ms or not alert.command else [alert.command]
    return [*lines, "", *commands, "braid events --for alerts/mesh"]


def _moment(session: Session, time_ms: int) -> str:
    return f"{clock_text(time_ms, session.now)} ({age_text(time_ms, session.now_ms)} ago)" if time_ms else ""


async def _alerts(session: Session, stream: str) -> list[alert_pb2.Alert]:
    return await session.pages(
        "lagmon",
        "ListAlerts",
        lambda token: api.ListAlertsRequest(stream=stream, page_size=PAGE_SIZE_MAX, page_token=token),
        api.ListAlertsResponse,
        lambda page: page.alerts,
    )
