"""Outlets and notifications as values, and which notification is due. Pure.

A notification is one message about one alert to one webhook. Its life has two marks in the history:

    due ──(NotificationBegun)──▶ begun ──(the receiver took it, or it is given up: NotificationEnded)──▶ ended

What is begun is finished first, with the same id, whatever happened to the alert since: nobody knows whether the
receiver has it already. So a leader that is killed between sending and recording leaves a repeat, never a loss.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.alert_outlets import NOTIFICATION_OVER_SECONDS, NOTIFICATION_OWED_SECONDS
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.model import Alert, Silence


class OutletKind(Enum):
    """How an outlet takes alerts."""

    WEBHOOK = "webhook"
    ALERTMANAGER = "alertmanager"


@dataclass(frozen=True, slots=True)
class OutletTarget:
    """Where an outlet is, as an operator's settings name it. No caller of an RPC can choose one.

    Attributes:
        name: Names it in metrics, logs and the history, because a URL may hold a secret.
        token_file: A file with a bearer token; empty for none.
        signing_key_file: A file with keys that sign each post of a webhook; empty for none.
        ca_file: Authorities that sign its certificate; empty for the system's.
    """

    name: str
    kind: OutletKind
    url: str
    token_file: str = ""
    signing_key_file: str = ""
    ca_file: str = ""


class NotificationType(IntEnum):
    """The news that a notification has of an alert, numbered as in `events.proto`."""

    FIRED = 1
    SILENCED = 2
    RESOLVED = 3


class NotificationOutcome(IntEnum):
    """How a notification ended, numbered as in `events.proto`."""

    SENT = 1
    GIVEN_UP = 2
    SKIPPED = 3  # the alert was silenced for all of its time


class Firing(NamedTuple):
    """The key of one time that an alert fired."""

    alert: str
    fired_ms: int


@dataclass(frozen=True, slots=True)
class Told:
    """The newest notifications of one firing to one outlet.

    Attributes:
        last: The newest notification that ended; None before the first.
        begun: The notification that is begun and not ended; None if there is none.
        count: Notifications that ended.
        at_ms: When the newest mark was made.
    """

    last: NotificationType | None = None
    begun: NotificationType | None = None
    count: int = 0
    at_ms: int = 0


_NOTHING: Final = Told()


@dataclass(frozen=True, slots=True)
class Outlet:
    """An outlet as the history knows it.

    Attributes:
        since_ms: When a leader first served it. What was over by then is never sent to it.
        trouble: Why it takes nothing; empty if it does.
        trouble_ms: Since when.
        told: What it was told, by firing; of a webhook only.
    """

    since_ms: int
    trouble: str = ""
    trouble_ms: int = 0
    told: Mapping[Firing, Told] = field(default_factory=dict)


class Notification(NamedTuple):
    """A message about an alert.

    Attributes:
        alert: None if the alert is not known any more; then there is nothing to send.
        ordinal: Its number among the notifications of this firing to this outlet.
    """

    firing: Firing
    alert: Alert | None
    type: NotificationType
    ordinal: int
    silence: Silence | None = None

    def id(self, mesh: str) -> str:
        """The same for every attempt of every leader, and no other's: receivers drop repeats by it."""
        parts = (mesh, self.firing.alert, str(self.firing.fired_ms), str(self.ordinal), self.type.name)
        return f"ntf_{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}"


def due_type(
    alert: Alert, silence: Silence | None, told: Told, since_ms: int, now_ms: int
) -> NotificationType | NotificationOutcome | None:
    """Returns what an outlet has to be told of a firing now.

    Nobody is told of an alert while it is silenced, except that it was silenced, and that it is over.

    Args:
        silence: The silence that holds now; None if none does.
        since_ms: When the outlet was first served.

    Returns:
        The type of the notification; `SKIPPED` if it is to be noted that none will come; None if nothing is due.
    """
    if told.begun is not None:
        return told.begun
    match told.last:
        case None:
            late = now_ms - alert.resolved_ms > NOTIFICATION_OVER_SECONDS * 1_000
            if alert.resolved_ms and (late or alert.resolved_ms < since_ms):
                return None
            if silence is not None:
                return NotificationOutcome.SKIPPED if alert.resolved_ms else None
            return NotificationType.FIRED
        case NotificationType.FIRED | NotificationType.SILENCED if alert.resolved_ms:
            late = now_ms - alert.resolved_ms > NOTIFICATION_OWED_SECONDS * 1_000
            return None if late else NotificationType.RESOLVED
        case NotificationType.FIRED if silence is not None:
            return NotificationType.SILENCED
        case NotificationType.SILENCED if silence is None:
            return NotificationType.FIRED  # again, because it still fires
        case _:
            return None


def is_moot(notification: Notification, now_ms: int) -> bool:
    """Whether a notification that is begun need not be sent any more: another one follows, or it is too late."""
    alert = notification.alert
    if alert is None:
        return True
    over = (now_ms - alert.resolved_ms) / 1_000 if alert.resolved_ms else 0.0
    match notification.type:
        case NotificationType.FIRED:
            return over > NOTIFICATION_OVER_SECONDS
        case NotificationType.SILENCED:
            return notification.silence is None or bool(alert.resolved_ms)
        case NotificationType.RESOLVED:
            return over > NOTIFICATION_OWED_SECONDS


def due_notifications(outlet: Outlet, alerts: Alerts, now_ms: int) -> list[Notification | Firing]:
    """Returns what a webhook has to be told: what is begun comes first, then pages before tickets, oldest first.

    Returns:
        Notifications, and firings of which it is to be noted that nothing will be sent.
    """
    known = {Firing(each.name, each.fired_ms): each for each in (*alerts.resolved, *alerts.open.values())}
    silences = {name: each for name, each in alerts.silences.items() if each.expire_ms > now_ms}
    begun: list[Notification | Firing] = [
        Notification(firing, known.get(firing), told.begun, told.count + 1, silences.get(firing.alert))
        for firing, told in outlet.told.items()
        if told.begun is not None
    ]
    found: list[Notification | Firing] = []
    for firing, alert in known.items():
        told = outlet.told.get(firing, _NOTHING)
        if told.begun is not None:
            continue
        silence = silences.get(alert.name)
        due = due_type(alert, silence, told, outlet.since_ms, now_ms)
        if isinstance(due, NotificationType):
            found.append(Notification(firing, alert, due, told.count + 1, silence))
        elif due is not None:
            found.append(firing)

    def order(each: Notification | Firing) -> tuple[int, int, str]:
        firing = each.firing if isinstance(each, Notification) else each
        return known[firing].severity, firing.fired_ms, firing.alert

    return begun + sorted(found, key=order)
