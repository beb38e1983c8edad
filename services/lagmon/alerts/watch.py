"""Takes in each look at lag, on every replica; on the leader, records what follows. No rules."""

import asyncio
from dataclasses import replace
from typing import Final

from braid.kernel.errors import BraidError
from braid.kernel.limits.lagmon.alerts import ALERT_CHANGES_AT_ONCE, ALERT_PAST_TARGETS, ALERTS_OPEN_MAX
from braid.kernel.limits.lagmon.sampling import LAG_METRICS_SECONDS
from braid.kernel.timing.slices import in_turns
from braid.runtime.replica import Replica
from services.lagmon.alerts.certificate_peers import CertificatePeers
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.evaluation import Evaluation, Look, is_part, open_keys
from services.lagmon.alerts.decisions.facts import Facts
from services.lagmon.alerts.decisions.model import AlertKey
from services.lagmon.alerts.decisions.past_windows import Moment, PastWindows, outages
from services.lagmon.alerts.decisions.tracker import Pending
from services.lagmon.alerts.gauges import AlertGauges
from services.lagmon.alerts.peers import AlertPeers
from services.lagmon.kept.keeper import Keeper
from services.lagmon.kept.past import PastRows
from services.lagmon.kept.rows import SeriesKey

_ROUNDS_MAX: Final = 2 * ALERTS_OPEN_MAX // ALERT_CHANGES_AT_ONCE  # all alerts are resolved, and as many fire


class AlertWatch:
    """The alerts of one replica, and the leader's part of them."""

    def __init__(self, replica: Replica, keeper: Keeper) -> None:
        self._replica = replica
        self._keeper = keeper
        self._began = Moment(replica.host.clock.elapsed(), replica.host.clock.now_ms())
        self._evaluation = Evaluation()
        self._gauges = AlertGauges(replica.metrics)
        self._peers = AlertPeers(replica.host, replica.client("registry"), replica.client("assigner"))
        self._certificates = CertificatePeers(replica)
        self._looked = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def state(self) -> Alerts:
        """All alerts, as this replica follows them."""
        return self._replica.aggregates.state(ALERTS, MESH)

    @property
    def facts(self) -> Facts:
        """The mesh as this replica last heard of it."""
        return replace(self._peers.facts, certificates=self._certificates.readings)

    async def pending(self) -> list[Pending]:
        """Returns conditions that hold and did not fire yet, as this replica sees them; no more than may fire."""
        return await in_turns(self._replica.host.clock, self._evaluation.listing(open_keys(self.state)))

    def pending_keys(self) -> list[AlertKey]:
        """Returns the keys of the same conditions, in no order."""
        return self._evaluation.pending_keys(open_keys(self.state))

    async def follow(self) -> None:
        """Asks others what the rules need, until cancelled, leading or not; adds the kept past once."""
        spawn = self._replica.host.tasks.spawn
        tasks = [
            spawn(self._add_past(), "past of alerts"),
            spawn(self._certificates.run(), "certificates of alerts"),
        ]
        try:
            await self._peers.run()
        finally:
            for task in tasks:
                task.cancel()

    async def take(self, look: Look) -> None:
        """Takes in one look at the lag, in slices; the loop over the gauges makes one a second."""
        clock = self._replica.host.clock
        fired = open_keys(self.state)
        async with self._looking:
            work = self._evaluation.looking(look, self.facts, fired, clock.elapsed(), clock.now_ms())
            await in_turns(clock, work)
        self._looked.set()
        self._gauges.show(self.state, self._evaluation.left_out)

    async def _add_past(self) -> None:
        """Adds to the windows what was kept before this process began, once all targets are known."""
        clock = self._replica.host.clock
        while not (targets := self._evaluation.targets(clock.elapsed() - self._began.elapsed)):
            await clock.sleep(LAG_METRICS_SECONDS)
        keys = {SeriesKey(key.group, key.stream, key.lane): key for key in targets}
        windows = PastWindows(targets, self._began, outages(self.state, clock.now_ms()))

        def take(rows: PastRows) -> None:
            columns = {keys[series]: values for series, values in rows.columns.items()}
            windows.take(rows.times_ms, rows.stepped, columns, rows.step_ms)

        await self._keeper.read_past(sorted(keys), self._began.wall_ms, take)
        for lanes, seen in windows.parts(ALERT_PAST_TARGETS):
            async with self._looking:
                self._evaluation.seed(lanes, seen, clock.elapsed())
            await clock.sleep(0)
        self._replica.log.info("windows of alerts have their kept past", targets=len(targets))

    async def lead(self) -> None:
        """Records what each look leads to, until cancelled."""
        while True:
            await self._looked.wait()
            self._looked.clear()
            for _ in range(_ROUNDS_MAX):
                if not await self._record():
                    break

    async def _record(self) -> bool:
        """Records what the newest look leads to, and returns whether there may be more."""
        replica = self._replica
        commands = self._evaluation.commands(self.state, replica.host.clock.now_ms())
        for command in commands:
            try:
                await replica.aggregates.execute(ALERTS, MESH, command, actor=replica.instance)
            except BraidError as error:  # the next look decides anew, from the history as it is then
                replica.log.warning("alerts were not recorded", error=str(error))
                return False
        return any(is_part(command) for command in commands)
