"""Events and commands of the history of outlets. Values only."""

from dataclasses import dataclass

from services.lagmon.alerts.outlets.decisions.model import NotificationOutcome, NotificationType


@dataclass(frozen=True, slots=True)
class OutletOpened:
    """A leader served an outlet for the first time."""

    outlet: str


@dataclass(frozen=True, slots=True)
class OutletFailed:
    """An outlet takes nothing, for a reason."""

    outlet: str
    reason: str


@dataclass(frozen=True, slots=True)
class OutletRecovered:
    """An outlet takes alerts again."""

    outlet: str


@dataclass(frozen=True, slots=True)
class NotificationBegun:
    """A notification is about to be sent: from now on the receiver may have it."""

    outlet: str
    alert: str
    fire_time_ms: int
    type: NotificationType


@dataclass(frozen=True, slots=True)
class NotificationEnded:
    """A notification was taken by its receiver, was given up, or is not to be sent."""

    outlet: str
    alert: str
    fire_time_ms: int
    type: NotificationType
    outcome: NotificationOutcome


Event = OutletOpened | OutletFailed | OutletRecovered | NotificationBegun | NotificationEnded


@dataclass(frozen=True, slots=True)
class OpenOutlet:
    """Makes an outlet known to the history."""

    outlet: str


@dataclass(frozen=True, slots=True)
class NoteTrouble:
    """Records why an outlet takes nothing, or with an empty reason that it does."""

    outlet: str
    reason: str


@dataclass(frozen=True, slots=True)
class BeginNotification:
    """Records that a notification is about to be sent."""

    outlet: str
    alert: str
    fire_time_ms: int
    type: NotificationType


@dataclass(frozen=True, slots=True)
class EndNotification:
    """Records how a notification ended."""

    outlet: str
    alert: str
    fire_time_ms: int
    type: NotificationType
    outcome: NotificationOutcome


Command = OpenOutlet | NoteTrouble | BeginNotification | EndNotification
