"""One tail and one end watch for each cluster that this replica reads, and the table of lag that answers requests.

Clusters are divided between replicas (`division`). Rows of all others come from the replicas that read them.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.kafka.offset_log.table import OffsetCounts
from braid.kernel.limits.lagmon.division import LAG_PEER_SECONDS, LAG_RECALL_SECONDS
from braid.kernel.limits.lagmon.sampling import LAG_RENEWED_ROWS_MAX, LAG_TABLE_SECONDS
from braid.kernel.ports import Kafka, Task
from braid.kernel.timing.slices import Slices, in_turns
from braid.runtime.replica import Replica
from services.lagmon.alerts.decisions.evaluation import Look
from services.lagmon.columns.lags import LagColumns, LagRows
from services.lagmon.columns.pairs import pairs_of
from services.lagmon.columns.progress import PairName
from services.lagmon.division.owners import Division, divide
from services.lagmon.division.reading import ReadingRule
from services.lagmon.division.standing import Standing, chosen, looked_at
from services.lagmon.division.views import ClusterView
from services.lagmon.domain import ClusterModel
from services.lagmon.exchange.peers import LagPeers
from services.lagmon.exchange.requests import OwnReading, OwnReadings
from services.lagmon.kept.files import Files
from services.lagmon.model.mesh_view import ClusterPlace
from services.lagmon.peers import Peers
from services.lagmon.policy import Commit, Now
from services.lagmon.reconciler.checkpoints import Checkpoints
from services.lagmon.reconciler.ends import EndWatch
from services.lagmon.reconciler.shared_table import SharedTable
from services.lagmon.reconciler.tail import OffsetTail


class Table(NamedTuple):
    """The lag of all groups at one instant.

    Attributes:
        clusters: The lag of each cluster.
        channels: The same, without topics that are no channels.
        rows: Rows of single partitions of channels, in no order: what alerts and kept lag are about.
        now: The instant.
        catching_up: Clusters whose offsets were not read to their end yet.
        own: What this replica reads by itself.
    """

    clusters: Sequence[LagColumns]
    channels: Sequence[LagColumns]
    rows: LagRows
    now: Now
    catching_up: Sequence[str]
    own: OwnReadings


@dataclass(slots=True)
class _Followed:
    place: ClusterPlace
    model: ClusterModel
    tail: OffsetTail
    ends: EndWatch
    tasks: Sequence[Task]
    recalls_until: float


class Clusters:
    """Every cluster the registry knows: some are read by this replica, leading or not, the others by its peers."""

    def __init__(self, replica: Replica, kafka: Kafka, files: Files | None = None) -> None:
        """Follows nothing yet; `files` keep checkpoints of offsets."""
        self._replica = replica
        self._files = files
        self._kafka = kafka
        self._peers = Peers(replica.host, replica.client("registry"), replica.client("assigner"), self._heard)
        self.readers = LagPeers(replica, self._divide)
        self._rule = ReadingRule(replica.instance)
        self._division = divide((), (replica.instance,))
        self._followed: dict[str, _Followed] = {}
        self._checkpoints: dict[str, Checkpoints] = {}  # of clusters that are or were followed
        self._table = SharedTable(replica.host, self._compute)
        self._news = asyncio.Event()  # of groups and channels, or of a cluster that is followed

    async def run(self) -> None:
        """Follows until cancelled."""
        spawn = self._replica.host.tasks.spawn
        tasks = [spawn(self.readers.run(), "other lag monitors"), spawn(self._register(), "groups of clusters")]
        try:
            await self._peers.run()
        finally:
            for task in tasks:
                task.cancel()
            for name in list(self._followed):
                self._leave(name, "this replica stops")

    async def table(self, age_seconds: float = LAG_TABLE_SECONDS) -> Table:
        """Returns the present lag, at most so old, computed in slices so that other tasks get their turn.

        Where computing it takes long, it is older: see `SharedTable.present`.
        """
        return await self._table.present(age_seconds)

    async def last_table(self) -> Table:
        """Returns the last table unless it is old, so that lists do not wait for the next one; else as `table`."""
        return await self._table.last()

    async def any_table(self) -> Table:
        """Returns the last table, however old: see `SharedTable.any`."""
        return await self._table.any()

    async def renewed(self, table: Table, groups: Collection[str]) -> tuple[Sequence[LagColumns], Now]:
        """Returns the rows that a table has of some groups as they are now, and when that is.

        They are computed anew, or are as peers read them last. Where that cannot be, or they are very many, they are as
        in the table, grown older.
        """
        clock = self._replica.host.clock
        now, slices, found = Now(clock.elapsed(), clock.now_ms()), Slices(clock), list[LagColumns]()
        since = now.elapsed - table.now.elapsed
        parts = [(part, pairs) for part in table.clusters if len(pairs := pairs_of(part.keys, groups))]
        few = sum(len(part.spans(pairs)) for part, pairs in parts) <= LAG_RENEWED_ROWS_MAX
        for part, pairs in parts:
            newer = await self._renewed(table, part, groups, now) if few else None
            found.append(part.older(pairs, since, table.now.later(since).wall_ms) if newer is None else newer)
            await slices.turn()
        return found, now

    async def _renewed(self, table: Table, part: LagColumns, groups: Collection[str], now: Now) -> LagColumns | None:
        """Returns the rows of some groups on one cluster; None where their reader has changed since, or is away."""
        name, view = part.keys[0].cluster, self._peers.view
        mine, followed = table.own.clusters.get(name), self._followed.get(name)
        if mine is None or mine.columns is not part:
            views = self._views(name, view.clusters.get(name))
            return views[chosen([each.standing for each in views], now.elapsed)].columns(now, groups) if views else None
        if (
            followed is None
            or followed.place != mine.place
            or not self._standing(followed, now.elapsed).good(now.elapsed)
        ):
            return None
        return await in_turns(self._replica.host.clock, followed.model.renewing(part, groups, view, now))

    def look(self, table: Table) -> Look:
        """Returns a table for the rules of alerts."""
        return Look(table.rows, not table.catching_up and self._peers.view.groups is not None)

    async def own(self) -> OwnReadings:
        """Returns what this replica reads by itself, for its peers."""
        return (await self.table(LAG_PEER_SECONDS)).own

    def commit(self, cluster: str, pair: PairName, partition: int) -> Commit | None:
        """Returns the newest commit of one partition that this replica itself has read; None for none."""
        followed = self._followed.get(cluster)
        if followed is None:
            return None
        row = followed.model.progress.row_of(pair, partition)
        return followed.model.progress.commit_of(row) if row >= 0 else None

    def reads(self) -> Mapping[str, bool]:
        """Says of each cluster whether this replica reads it."""
        return {name: name in self._followed for name in self._peers.view.clusters}

    def counts(self) -> dict[str, OffsetCounts]:
        """Counts the records of the offset logs by outcome, for each cluster."""
        return {name: followed.tail.table.counts for name, followed in self._followed.items()}

    def probes(self) -> dict[str, int]:
        """Counts records read for their time, by cluster."""
        return {name: followed.ends.probes for name, followed in self._followed.items()}

    def left_out(self) -> int:
        """Counts commits of groups and partitions beyond the bound of one cluster's model."""
        return sum(followed.model.left_out for followed in self._followed.values())

    # --- the table

    async def _compute(self) -> Table:
        clock = self._replica.host.clock
        view, now = self._peers.view, Now(clock.elapsed(), clock.now_ms())
        own: dict[str, OwnReading] = {}
        for name, followed in list(self._followed.items()):
            model = followed.model
            await in_turns(clock, model.registering(view))
            self._recall(name, followed, now)
            facts, parts = model.facts(view), []
            for rows in model.slices(facts):
                parts.append(model.lags(rows, facts, now))
                await clock.sleep(0)
            columns = LagColumns.of(facts.keys, parts)
            standing = self._standing(followed, looked_at(columns.lags, now))
            own[name] = OwnReading(followed.place, columns, standing)
        found, catching_up = self._together(view.clusters, own, now)
        channels = [each.of_streams() for each in found]
        return Table(found, channels, LagRows(channels), now, catching_up, OwnReadings(now, own))

    def _standing(self, followed: _Followed, looked: float) -> Standing:
        return Standing(not followed.model.catching_up, followed.tail.read_at, looked)

    def _views(self, name: str, place: ClusterPlace | None) -> Sequence[ClusterView]:
        """Returns what peers read of a cluster at this place."""
        return [view for view in self.readers.views(name) if view.reading.place == place]

    def _recall(self, name: str, followed: _Followed, now: Now) -> None:
        """Takes from a peer's reading what this replica was too late to see, until it has seen all logs."""
        if followed.recalls_until < now.elapsed or followed.model.catching_up:
            return
        for view in self.readers.views(name):
            if view.reading.place == followed.place and view.reading.caught_up:
                followed.model.recall(view.columns(now), now)
                if not followed.model.ends.unseen:
                    followed.recalls_until = now.elapsed
                return

    def _together(
        self, clusters: Mapping[str, ClusterPlace], own: Mapping[str, OwnReading], now: Now
    ) -> tuple[list[LagColumns], list[str]]:
        """Returns the rows of all clusters, each from the reading that answers, and the clusters with missing rows."""
        found, catching_up = list[LagColumns](), list[str]()
        for name, place in clusters.items():
            mine = own.get(name)
            views = self._views(name, place)
            standings = [*([mine.standing] if mine else []), *(view.standing for view in views)]
            if not standings:
                catching_up.append(name)
                continue
            best = chosen(standings, now.elapsed)
            if mine is not None and best == 0:
                columns = mine.columns
                if mine.standing.good(now.elapsed):
                    self.readers.forget(name)
            else:
                columns = views[best - bool(mine)].columns(now)
            if len(columns):
                found.append(columns)
            if not standings[best].caught_up:
                catching_up.append(name)
        return found, sorted(catching_up)

    # --- which clusters are read

    def _heard(self) -> None:
        view = self._peers.view
        tasks = self._replica.host.tasks
        self.readers.keep_only(view.clusters)
        for name in self._checkpoints.keys() - view.clusters.keys():
            tasks.spawn(tasks.run_blocking(self._checkpoints.pop(name).remove), f"checkpoint {name}")
        self._divide()
        self._news.set()

    async def _register(self) -> None:
        """Adds registered groups to all models, slice by slice, so that ends of their logs are looked at soon."""
        clock = self._replica.host.clock
        while True:
            await self._news.wait()
            self._news.clear()
            async with self._table.computing:
                for followed in list(self._followed.values()):
                    await in_turns(clock, followed.model.registering(self._peers.view))
                    followed.ends.wake()

    def _divide(self) -> None:
        """Begins and ends to read clusters, by who else reads them well."""
        clusters = self._peers.view.clusters
        for name in [each for each, followed in self._followed.items() if clusters.get(each) != followed.place]:
            self._leave(name, "it is gone, or elsewhere")
        if not self.readers.looked:
            return
        now, members = self._replica.host.clock.elapsed(), self.readers.members
        shown = {
            instance: {
                name: view.standing.good(now)
                for name, view in peer.views.items()
                if view.reading.place == clusters.get(name)
            }
            for instance, peer in members.items()
        }
        wanted = self._rule.decide(now, self._divided(clusters, members), shown, self._followed)
        for name in self._followed.keys() - wanted:
            self._leave(name, "another replica reads it")
        for name in sorted(wanted - self._followed.keys()):
            self._follow(name, clusters[name])

    def _divided(self, clusters: Collection[str], members: Collection[str]) -> Division:
        everybody = frozenset({*members, self._replica.instance})
        if (everybody, clusters) != (self._division.members, self._division.ranks.keys()):
            self._division = divide(clusters, everybody)
            self._replica.log.info("clusters are divided", members=len(everybody), clusters=len(clusters))
        return self._division

    def _follow(self, name: str, place: ClusterPlace) -> None:
        host, log = self._replica.host, self._replica.log.bind(cluster=name)
        cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
        model = ClusterModel(name)
        ends = EndWatch(host, cluster, model, lambda: self._peers.view)
        checkpoints = None
        if self._files is not None:
            checkpoints = self._checkpoints[name] = Checkpoints(host, self._files, name, log)
        tail = OffsetTail(host, cluster, model, ends.wake, log, checkpoints)
        tasks = [host.tasks.spawn(tail.run(), f"offsets {name}"), host.tasks.spawn(ends.run(), f"ends {name}")]
        until = host.clock.elapsed() + LAG_RECALL_SECONDS
        self._followed[name] = _Followed(place, model, tail, ends, tasks, until)
        self._news.set()
        log.info("following a cluster's offsets")

    def _leave(self, name: str, why: str) -> None:
        followed = self._followed.pop(name)
        for task in followed.tasks:
            task.cancel()
        self._replica.log.info("a cluster's offsets are not followed any more", cluster=name, why=why)
