"""One tail and one end watch for each cluster of the registry, and the table of lag that answers requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.kafka.offset_log.table import OffsetCounts
from braid.kernel.limits.lagmon.sampling import LAG_TABLE_SECONDS
from braid.kernel.ports import Kafka, Task
from braid.runtime.replica import Replica
from services.lagmon.alerts.decisions.evaluation import Look
from services.lagmon.columns.lags import LagColumns, LagRows
from services.lagmon.domain import ClusterModel
from services.lagmon.kept.files import Files
from services.lagmon.model.mesh_view import ClusterPlace
from services.lagmon.peers import Peers
from services.lagmon.policy import Now
from services.lagmon.reconciler.checkpoints import Checkpoints
from services.lagmon.reconciler.ends import EndWatch
from services.lagmon.reconciler.tail import OffsetTail


class Table(NamedTuple):
    """The lag of all groups at one instant.

    Attributes:
        clusters: The lag of each cluster.
        channels: The same, without topics that are no channels.
        rows: Rows of single partitions of channels, in no order: what alerts and kept lag are about.
        now: The instant.
        catching_up: Clusters whose offsets were not read to their end yet.
    """

    clusters: Sequence[LagColumns]
    channels: Sequence[LagColumns]
    rows: LagRows
    now: Now
    catching_up: Sequence[str]


@dataclass(slots=True)
class _Followed:
    place: ClusterPlace
    model: ClusterModel
    tail: OffsetTail
    ends: EndWatch
    checkpoints: Checkpoints | None
    tasks: Sequence[Task]


class Clusters:
    """Every cluster the registry knows, followed by this replica, leading or not."""

    def __init__(self, replica: Replica, kafka: Kafka, files: Files | None = None) -> None:
        """Follows nothing yet; `files` keep checkpoints of offsets."""
        self._replica = replica
        self._files = files
        self._kafka = kafka
        self._peers = Peers(replica.host, replica.client("registry"), replica.client("assigner"), self._heard)
        self._followed: dict[str, _Followed] = {}
        self._table: Table | None = None
        self._computing = asyncio.Lock()

    async def run(self) -> None:
        """Follows until cancelled."""
        try:
            await self._peers.run()
        finally:
            for name in list(self._followed):
                self._leave(name)

    async def table(self, age_seconds: float = LAG_TABLE_SECONDS) -> Table:
        """Returns the present lag, at most so old, computed in slices so that other tasks get their turn."""
        clock = self._replica.host.clock
        async with self._computing:
            known = self._table
            if known is None or clock.elapsed() - known.now.elapsed >= age_seconds:
                known = self._table = await self._compute()
            return known

    def look(self, table: Table) -> Look:
        """Returns a table for the rules of alerts."""
        return Look(table.rows, not table.catching_up and self._peers.view.groups is not None)

    async def _compute(self) -> Table:
        clock = self._replica.host.clock
        view, now = self._peers.view, Now(clock.elapsed(), clock.now_ms())
        found: list[LagColumns] = []
        for followed in list(self._followed.values()):
            model = followed.model
            model.register(view)
            facts, parts = model.facts(view), []
            for rows in model.slices():
                parts.append(model.lags(rows, facts, now))
                await clock.sleep(0)
            if parts:
                found.append(LagColumns.of(facts.keys, parts))
        channels = [each.of_streams() for each in found]
        return Table(found, channels, LagRows(channels), now, self._catching_up())

    def counts(self) -> dict[str, OffsetCounts]:
        """Counts the records of the offset logs by outcome, for each cluster."""
        return {name: followed.tail.table.counts for name, followed in self._followed.items()}

    def probes(self) -> dict[str, int]:
        """Counts records read for their time, by cluster."""
        return {name: followed.ends.probes for name, followed in self._followed.items()}

    def left_out(self) -> int:
        """Counts commits of groups and partitions beyond the bound of one cluster's model."""
        return sum(followed.model.left_out for followed in self._followed.values())

    def _catching_up(self) -> list[str]:
        unknown = self._peers.view.clusters.keys() - self._followed.keys()
        behind = {name for name, followed in self._followed.items() if followed.model.catching_up}
        return sorted(behind | unknown)

    def _heard(self) -> None:
        view = self._peers.view
        for name, followed in list(self._followed.items()):
            if view.clusters.get(name) != followed.place:
                self._leave(name)
            if name not in view.clusters and followed.checkpoints is not None:
                tasks = self._replica.host.tasks
                tasks.spawn(tasks.run_blocking(followed.checkpoints.remove), f"checkpoint {name}")
        for name, place in view.clusters.items():
            if name not in self._followed:
                self._follow(name, place)
        for followed in self._followed.values():
            followed.model.register(view)
            followed.ends.wake()

    def _follow(self, name: str, place: ClusterPlace) -> None:
        host, log = self._replica.host, self._replica.log.bind(cluster=name)
        cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
        model = ClusterModel(name)
        ends = EndWatch(host, cluster, model, lambda: self._peers.view)
        checkpoints = Checkpoints(host, self._files, name, log) if self._files is not None else None
        tail = OffsetTail(host, cluster, model, ends.wake, log, checkpoints)
        tasks = [host.tasks.spawn(tail.run(), f"offsets {name}"), host.tasks.spawn(ends.run(), f"ends {name}")]
        self._followed[name] = _Followed(place, model, tail, ends, checkpoints, tasks)
        log.info("following a cluster's offsets")

    def _leave(self, name: str) -> None:
        followed = self._followed.pop(name)
        for task in followed.tasks:
            task.cancel()
        self._replica.log.info("a cluster is gone", cluster=name)
