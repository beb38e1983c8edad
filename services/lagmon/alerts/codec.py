"""Events of alerts ⇄ protobuf at rest; states ⇄ canonical JSON for snapshots. No rules."""

import json
from dataclasses import asdict
from enum import IntEnum
from typing import Any, Final, cast, get_args

from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.histories.event_messages import EventMessages, conversion
from braid.runtime.histories.kinds import Kind
from services.lagmon.alerts.decisions.domain import Alerts, AlertsDecider
from services.lagmon.alerts.decisions.events import Command, Event
from services.lagmon.alerts.decisions.model import Alert, AlertKey, Severity, Silence
from services.lagmon.alerts.outlets.decisions.events import Event as OutletEvent
from services.lagmon.alerts.outlets.decisions.model import NotificationOutcome, NotificationType

_FORMAT: Final = 1
MESH: Final = "mesh"  # the id of the only history of the kind


class AlertsCodec:
    """The `kernel.decider.EventCodec` of the kind `alerts`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """Encodes an event and its metadata as a `LagmonEvent`; equal inputs give equal bytes."""
        return EVENTS.encode(event, context)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Decodes `encode`'s bytes. Raises `CorruptHistory` for damaged bytes or an unknown event type."""
        event, context = EVENTS.decode(data)
        return cast("Event", event), context

    def encode_state(self, state: Alerts) -> bytes:
        """Encodes a state; equal states give equal bytes."""
        document = {
            "format": _FORMAT,
            "open": [_alert_document(each) for _, each in sorted(state.open.items())],
            "resolved": [_alert_document(each) for each in state.resolved],
            "silences": {name: asdict(each) for name, each in state.silences.items()},
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def decode_state(self, data: bytes) -> Alerts:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT:
                raise CorruptHistory("the snapshot's format is unknown", remedy="run a newer release")
            alerts = [_read_alert(each) for each in document["open"]]
            return Alerts(
                {each.name: each for each in alerts},
                tuple(_read_alert(each) for each in document["resolved"]),
                {name: Silence(**each) for name, each in document["silences"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptHistory(f"no state of alerts: {error}") from error


ALERTS: Final[Kind[Alerts, Command, Event]] = Kind("alerts", AlertsDecider(), AlertsCodec())


def _alert_document(alert: Alert) -> dict[str, Any]:
    return {**asdict(alert), "key": _key_parts(alert.key), "severity": alert.severity.value}


def _key_parts(key: AlertKey) -> list[str]:
    """A key's parts; a release that knows fewer of them still reads a key that has no others."""
    parts: list[str] = list(key)
    return parts if key.certificate else parts[:-1]


def _read_alert(document: dict[str, Any]) -> Alert:
    return Alert(**{**document, "key": AlertKey(*document["key"]), "severity": Severity(document["severity"])})


def _severity_number(severity: Severity) -> "alert_pb2.AlertSeverity.ValueType":
    return cast("alert_pb2.AlertSeverity.ValueType", severity.value)


def _enum_number(value: IntEnum) -> int:
    return value.value


# The events of all histories of this service: they share one envelope.
EVENTS: Final = EventMessages(
    pb.LagmonEvent,
    (*get_args(Event), *get_args(OutletEvent)),
    {
        "AlertSeverity": conversion(_severity_number, Severity),
        "NotificationOutcome": conversion(_enum_number, NotificationOutcome),
        "NotificationType": conversion(_enum_number, NotificationType),
    },
    spread={"key": AlertKey},
)
