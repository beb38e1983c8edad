"""Sends all alerts to one Alertmanager: at once when one changes, and every minute, because it forgets the others."""

from braid.kernel.errors import BraidError
from braid.kernel.limits.lagmon.alert_outlets import ALERTMANAGER_RESEND_SECONDS, OUTLET_LOOK_SECONDS
from services.lagmon.alerts.outlets.decisions.alertmanager import CONTENT_TYPE, PATH, Posted, batches, to_post
from services.lagmon.alerts.outlets.sending import Sending


class AlertmanagerSender:
    """One Alertmanager on the leader. What it has to know follows from the alerts alone."""

    def __init__(self, sending: Sending, runbooks: str) -> None:
        self._sending = sending
        self._runbooks = runbooks
        self._sent: list[tuple[str, int, int]] | None = None
        self._sent_at = 0.0

    async def run(self) -> None:
        """Sends until cancelled."""
        clock = self._sending.replica.host.clock
        while True:
            try:
                await self._sending.open()
                posted = to_post(self._sending.alerts, clock.now_ms())
                if self._is_due(posted, clock.elapsed()):
                    await self._send(posted)
            except BraidError as error:  # the store is away, or another replica leads: the next look decides anew
                self._sending.replica.log.warning("an outlet's state was not recorded", error=str(error))
            await clock.sleep(OUTLET_LOOK_SECONDS)

    def _is_due(self, posted: list[Posted], now: float) -> bool:
        if _marks(posted) != self._sent:
            return bool(posted) or self._sent is not None
        return bool(posted) and now - self._sent_at >= ALERTMANAGER_RESEND_SECONDS

    async def _send(self, posted: list[Posted]) -> None:
        replica, url = self._sending.replica, self._sending.target.url.rstrip("/") + PATH
        began = replica.host.clock.elapsed()
        for body in batches(posted, replica.mesh, self._runbooks, replica.host.clock.now_ms()):
            refused = await self._sending.send(url, body, {"Content-Type": CONTENT_TYPE})
            if refused is not None:
                await self._sending.failed(refused)
                return
        self._sent, self._sent_at = _marks(posted), began
        if posted:
            await self._sending.took(len(posted))


def _marks(posted: list[Posted]) -> list[tuple[str, int, int]]:
    return [(each.alert.name, each.alert.fired_ms, each.ended_ms) for each in posted]
