"""Measures every cluster's load regularly while leading: one request per broker.

The rules are in `model/clusters/loads.py`.
"""

import asyncio
from collections.abc import Mapping

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.traffic import LOAD_BROKERS_AT_ONCE, LOAD_KEPT_SECONDS, LOAD_LOOK_SECONDS
from braid.kernel.ports import KafkaAdmin
from braid.runtime.replica import Replica
from services.registry.each_cluster import watch_each
from services.registry.histories import CLUSTERS
from services.registry.kafka.clients import Access
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad, Meter
from services.registry.reconciler.gauges import Gauges
from services.registry.reconciler.offsets_retention import OffsetsRetention


class Measurer:
    """Measures the load of all clusters for one term.

    Attributes:
        problems: Why a cluster's last measurement failed; removed at the next success.
    """

    def __init__(self, replica: Replica, access: Access, gauges: Gauges) -> None:
        self.problems: dict[str, str] = {}
        self._replica = replica
        self._access = access
        self._gauges = gauges
        self._measured: dict[str, tuple[float, MeasuredLoad]] = {}  # and until when it counts
        self._segments: dict[str, int] = {}  # open ones, at the last look
        self._retention = OffsetsRetention(replica)

    @property
    def loads(self) -> Mapping[str, MeasuredLoad]:
        """Recent measurements by cluster."""
        now = self._replica.host.clock.elapsed()
        return {name: load for name, (until, load) in self._measured.items() if now < until}

    async def run(self) -> None:
        """Measures until cancelled."""
        try:
            await watch_each(self._replica, self._watch, self._show)
        finally:
            self._gauges.show_loads({})
            self._gauges.show_logs({}, {})

    def _show(self) -> None:
        loads = self.loads
        self._gauges.show_loads(loads)
        measured = {name: count for name, count in self._segments.items() if name in loads}
        self._gauges.show_logs(measured, self._retention.seconds)

    async def _watch(self, name: str) -> None:
        """Measures one cluster until it is deleted."""
        meter = Meter()
        while (cluster := self._replica.aggregates.state(CLUSTERS, name)).exists:
            if cluster.reachable:
                await self._look(cluster, meter)
            await self._replica.host.clock.sleep(LOAD_LOOK_SECONDS)
        self._measured.pop(name, None)
        self._segments.pop(name, None)
        self._retention.forget(name)
        self.problems.pop(name, None)

    async def _look(self, cluster: Cluster, meter: Meter) -> None:
        admin = self._access.admin(cluster, "load")
        at_once = asyncio.Semaphore(LOAD_BROKERS_AT_ONCE)
        reasons: list[str] = []
        segments: list[int] = []

        async def ask(broker: int) -> None:
            async with at_once:
                reasons.append(await _see(admin, meter, broker, segments))

        try:
            brokers = (await admin.survey([])).brokers
        except BraidError as error:
            self.problems[cluster.name] = error.message
            return
        await asyncio.gather(*(ask(broker) for broker in brokers))
        if len(segments) == len(brokers):
            self._segments[cluster.name] = sum(segments)
        await self._retention.look(cluster.name, admin, sorted(brokers))
        clock = self._replica.host.clock
        load = meter.end(clock.elapsed(), clock.now_ms())
        if load is None:
            self.problems[cluster.name] = next(filter(None, reasons), "no broker reports its disk space")
            return
        self.problems.pop(cluster.name, None)
        self._measured[cluster.name] = clock.elapsed() + LOAD_KEPT_SECONDS, load


async def _see(admin: KafkaAdmin, meter: Meter, broker: int, segments: list[int]) -> str:
    """Asks one broker, and adds its open segments; returns why it did not answer, or ''."""
    try:
        directories = await admin.log_dirs(broker)
        meter.see(broker, directories)
        segments.append(sum(len(each.sizes) for each in directories))
    except BraidError as error:
        meter.miss(broker)
        return error.message
    return ""
