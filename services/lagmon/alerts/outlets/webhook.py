"""Sends notifications to one webhook, one after the other: records each as begun, posts it, records it as ended.

Repeats have the same id. Nothing is kept in memory: what is due follows from the histories, so a new leader goes on
where the old one was killed.
"""

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.lagmon.alert_outlets import NOTIFICATION_REFUSED_ATTEMPTS, OUTLET_LOOK_SECONDS
from services.lagmon.alerts.outlets.decisions.cloud_events import CONTENT_TYPE, cloud_event, signature_headers
from services.lagmon.alerts.outlets.decisions.events import BeginNotification, EndNotification
from services.lagmon.alerts.outlets.decisions.model import (
    Firing,
    Notification,
    NotificationOutcome,
    NotificationType,
    due_notifications,
    is_moot,
)
from services.lagmon.alerts.outlets.sending import Refused, Sending


class WebhookSender:
    """One webhook on the leader."""

    def __init__(self, sending: Sending, runbooks: str) -> None:
        self._sending = sending
        self._runbooks = runbooks
        self._refused: tuple[str, int] = ("", 0)  # the id of a notification, and how often it was refused

    async def run(self) -> None:
        """Sends until cancelled."""
        clock = self._sending.replica.host.clock
        while True:
            try:
                worked = await self._step()
            except BraidError as error:  # the store is away, or another replica leads: the next look decides anew
                self._sending.replica.log.warning("a notification was not recorded", error=str(error))
                worked = False
            if not worked:
                await clock.sleep(OUTLET_LOOK_SECONDS)

    async def _step(self) -> bool:
        """Takes the next notification one step on; returns whether there was one."""
        outlet = await self._sending.open()
        now_ms = self._sending.replica.host.clock.now_ms()
        due = due_notifications(outlet, self._sending.alerts, now_ms)
        if not due:
            return False
        name, first = self._sending.target.name, due[0]
        if isinstance(first, Firing):
            skipped = (NotificationType.FIRED, NotificationOutcome.SKIPPED)
            await self._sending.record(EndNotification(name, *first, *skipped))
            return True
        told = outlet.told.get(first.firing)
        if told is None or told.begun is None:
            await self._sending.record(BeginNotification(name, *first.firing, first.type))
        elif is_moot(first, now_ms):
            await self._end(first, NotificationOutcome.GIVEN_UP)
        else:
            await self._attempt(first)
        return True

    async def _attempt(self, notification: Notification) -> None:
        refused = await self._post(notification)
        if refused is None:
            await self._end(notification, NotificationOutcome.SENT)
            await self._sending.took(1)
            return
        id, times = self._refused
        own = notification.id(self._sending.replica.mesh)
        self._refused = (own, (times if id == own else 0) + refused.is_message)
        if self._refused[1] >= NOTIFICATION_REFUSED_ATTEMPTS:
            await self._end(notification, NotificationOutcome.GIVEN_UP)
        await self._sending.failed(refused)

    async def _post(self, notification: Notification) -> Refused | None:
        replica, alert = self._sending.replica, notification.alert
        if alert is None:
            return Refused("the alert is not known any more", True)
        id = notification.id(replica.mesh)
        body = cloud_event(notification, alert, replica.mesh, self._runbooks)
        try:
            keys = await self._sending.keys()
            signed = signature_headers(id, replica.host.clock.now_ms() // 1_000, body, keys)
        except Unavailable as error:
            return Refused(error.message, False)
        return await self._sending.send(self._sending.target.url, body, {"Content-Type": CONTENT_TYPE, **signed})

    async def _end(self, notification: Notification, outcome: NotificationOutcome) -> None:
        name, log = self._sending.target.name, self._sending.replica.log
        await self._sending.record(EndNotification(name, *notification.firing, notification.type, outcome))
        if outcome is NotificationOutcome.GIVEN_UP:
            self._sending.gauges.count(name, "given_up", 1)
            log.warning("a notification was given up", outlet=name, alert=notification.firing.alert)
