"""Looks at lag and the mesh's state once a second, on every replica; on the leader, records what follows. No rules."""

import asyncio
from collections.abc import Awaitable, Callable

from braid.kernel.errors import BraidError
from braid.kernel.limits.alerts import ALERT_SECONDS
from braid.kernel.limits.lagmon import LAG_PAUSE_FACTOR
from braid.runtime.replica import Replica
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.domain import Alerts
from services.lagmon.alerts.evaluation import Evaluation, Look, open_keys
from services.lagmon.alerts.gauges import AlertGauges
from services.lagmon.alerts.peers import AlertPeers
from services.lagmon.alerts.tracker import Pending


class AlertWatch:
    """The loop of every replica, and the leader's part of it."""

    def __init__(self, replica: Replica, look: Callable[[], Awaitable[Look]]) -> None:
        self._replica = replica
        self._look = look
        self._evaluation = Evaluation()
        self._peers = AlertPeers(replica.host, replica.client("registry"))
        self._looked = asyncio.Event()

    @property
    def state(self) -> Alerts:
        """All alerts, as this replica follows them."""
        return self._replica.aggregates.state(ALERTS, MESH)

    def pending(self) -> list[Pending]:
        """Returns conditions that hold and did not fire yet, as this replica sees them."""
        return self._evaluation.pending(open_keys(self.state))

    async def follow(self) -> None:
        """Looks until cancelled, leading or not."""
        clock, gauges = self._replica.host.clock, AlertGauges(self._replica.metrics)
        task = self._replica.host.tasks.spawn(self._peers.run(), "peers of alerts")
        try:
            while True:
                look = await self._look()
                began = clock.elapsed()
                self._evaluation.look(look, self._peers.facts, open_keys(self.state), began, clock.now_ms())
                self._looked.set()
                gauges.show(self.state, self._evaluation.left_out)
                await clock.sleep(max(ALERT_SECONDS, (clock.elapsed() - began) * LAG_PAUSE_FACTOR))
        finally:
            task.cancel()

    async def lead(self) -> None:
        """Records what each look leads to, until cancelled."""
        replica = self._replica
        while True:
            await self._looked.wait()
            self._looked.clear()
            for command in self._evaluation.commands(self.state, replica.host.clock.now_ms()):
                try:
                    await replica.aggregates.execute(ALERTS, MESH, command, actor=replica.instance)
                except BraidError as error:  # the next look decides anew, from the history as it is then
                    replica.log.warning("alerts were not recorded", error=str(error))
