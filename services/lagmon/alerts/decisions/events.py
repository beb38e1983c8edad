"""Events and commands of the history of alerts. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.lagmon.alerts.decisions.model import AlertKey, Severity


@dataclass(frozen=True, slots=True)
class AlertFired:
    """An alert fired: its condition held for as long as its rule says."""

    key: AlertKey
    severity: Severity
    summary: str


@dataclass(frozen=True, slots=True)
class AlertResolved:
    """An alert's condition is known not to hold any more, or its subject is gone."""

    alert: str
    reason: str


@dataclass(frozen=True, slots=True)
class AlertSilenced:
    """Nobody is to be told of an alert until a time."""

    alert: str
    reason: str
    expire_time_ms: int


@dataclass(frozen=True, slots=True)
class SilenceEnded:
    """A silence expired, or a person ended it."""

    alert: str
    reason: str


Event = AlertFired | AlertResolved | AlertSilenced | SilenceEnded


class Firing(NamedTuple):
    """An alert to fire, with its reason."""

    key: AlertKey
    severity: Severity
    summary: str


@dataclass(frozen=True, slots=True)
class RecordChanges:
    """Records what the rules found: alerts to fire, and to resolve, each with its reason."""

    firing: Sequence[Firing] = ()
    resolved: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class CreateSilence:
    """Silences an alert for a time."""

    alert: str
    lasting_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteSilence:
    """Ends a silence before its time."""

    alert: str


@dataclass(frozen=True, slots=True)
class ExpireSilences:
    """Ends every silence whose time is over."""


Command = RecordChanges | CreateSilence | DeleteSilence | ExpireSilences
