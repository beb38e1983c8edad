"""The lag monitor as the runtime runs it, and its answers about lag.

Replicas divide clusters between them, and each answers for all; the leader decides about alerts.
"""

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import Invalid, Unavailable
from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_BYTES
from braid.kernel.limits.lagmon.sampling import (
    LAG_LOOK_PAUSE_SECONDS_MAX,
    LAG_METRICS_SECONDS,
    LAG_PAUSE_FACTOR,
    LAG_WATCH_MS,
    LAG_WATCH_ROWS_MAX,
)
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.registry.resources import WATCH_ALIVE_SECONDS
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller, Kafka, RpcService
from braid.rpc.methods import method_path, server_stream, service_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from services.lagmon.alerts.codec import ALERTS
from services.lagmon.alerts.condition_gauges import ConditionGauges
from services.lagmon.alerts.decisions.evaluation import open_keys
from services.lagmon.alerts.outlets.codec import OUTLETS
from services.lagmon.alerts.outlets.outlets import AlertOutlets
from services.lagmon.alerts.outlets.sending import Outgoing
from services.lagmon.alerts.requests import AlertRequests
from services.lagmon.alerts.watch import AlertWatch
from services.lagmon.codec import LAG_TOKENS, gone_message, lag_message, read_detail, read_filter
from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.pages import page_of
from services.lagmon.columns.shown_lag import ShownLag
from services.lagmon.exchange.requests import SharedLag
from services.lagmon.kept.files import Files
from services.lagmon.kept.keeper import Keeper
from services.lagmon.kept.rows import SeriesKey
from services.lagmon.kept.trends import Trend
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, aged, changes
from services.lagmon.pathways.requests import PathwayRequests
from services.lagmon.policy import Now
from services.lagmon.reconciler.term import Clusters
from services.lagmon.servicer.division_metrics import DivisionGauges
from services.lagmon.servicer.exporter_metrics import Exporter
from services.lagmon.servicer.history import HistoryReads
from services.lagmon.servicer.kept_metrics import KeptGauges
from services.lagmon.servicer.metrics import Gauges
from services.lagmon.servicer.progress import ProgressReads

_NOWHERE: Final = Outgoing()


class Lagmon:
    """The lag monitor: a read model of lag, and the history of the alerts that follow from it.

    It is a `runtime.service.Service`.

    One instance serves one replica.
    """

    name = "lagmon"
    kinds: Mapping[str, AnyKind] = MappingProxyType({ALERTS.name: ALERTS, OUTLETS.name: OUTLETS})

    def __init__(
        self,
        kafka: Kafka,
        files: Files | None = None,
        kept_bytes: int = KEPT_LAG_BYTES,
        exporters: Sequence[Exporter] = (Exporter.KAFKA_EXPORTER,),
        outgoing: Outgoing = _NOWHERE,
    ) -> None:
        """Prepares a lag monitor; without `files` it keeps lag over time in memory.

        `exporters` are those whose metrics it has, too; `outgoing` says where the leader sends alerts.
        """
        self._outgoing = outgoing
        self._kafka = kafka
        self._files = files
        self._kept_bytes = kept_bytes
        self._exporters = exporters
        self._clusters: Clusters | None = None
        self._alerts: AlertWatch | None = None
        self._outlets: AlertOutlets | None = None
        self._keeper: Keeper | None = None

    def rpc(self, replica: Replica) -> RpcService:
        """Returns the table of methods; called once, before serving."""
        clusters = self._clusters = Clusters(replica, self._kafka, self._files)
        keeper = self._keeper = Keeper(replica.host, clusters.table, replica.log, self._files, self._kept_bytes)
        reads = Reads(replica, clusters, keeper)
        histories = HistoryReads(replica.host.clock, keeper, replica.instance, lambda: clusters.readers.members)
        progress = ProgressReads(clusters.commit, lambda: clusters.readers.members)
        watch = self._alerts = AlertWatch(replica, keeper)
        outlets = self._outlets = AlertOutlets(replica, self._outgoing)
        alerts = AlertRequests(replica, watch, outlets, self._outgoing.runbooks)
        pathways = PathwayRequests(replica)
        shared = SharedLag(replica.host, clusters.own, clusters.readers.asked_by)
        return RpcService(
            name=service_path(self.name),
            unary={
                method_path(self.name, "ListLag"): unary(api.ListLagRequest, reads.list_lag),
                method_path(self.name, "ListLagHistory"): unary(api.ListLagHistoryRequest, histories.list_lag_history),
                method_path(self.name, "GetProgress"): unary(api.GetProgressRequest, progress.get_progress),
                method_path(self.name, "ListAlerts"): unary(api.ListAlertsRequest, alerts.list),
                method_path(self.name, "GetAlert"): unary(api.GetAlertRequest, alerts.get),
                method_path(self.name, "CreateSilence"): unary(api.CreateSilenceRequest, alerts.create_silence),
                method_path(self.name, "ReportPathways"): unary(api.ReportPathwaysRequest, pathways.report),
                method_path(self.name, "ListPathways"): unary(api.ListPathwaysRequest, pathways.list),
                method_path(self.name, "DeleteSilence"): unary(api.DeleteSilenceRequest, alerts.delete_silence),
                method_path(self.name, "ExportAlertRules"): unary(api.ExportAlertRulesRequest, alerts.export_rules),
            },
            server_stream={
                method_path(self.name, "WatchLag"): server_stream(api.WatchLagRequest, reads.watch_lag),
                method_path(self.name, "ReadLagColumns"): server_stream(api.ReadLagColumnsRequest, shared.read),
            },
            duplex={},
        )

    async def lead(self, replica: Replica) -> None:
        """Fires and resolves alerts, and sends them to outlets; the leader decides nothing else."""
        if self._alerts is None or self._outlets is None:
            raise Unavailable("the lag monitor does not serve yet")
        sending = replica.host.tasks.spawn(self._outlets.lead(), "outlets of alerts")
        try:
            await self._alerts.lead()
        finally:
            sending.cancel()

    async def follow(self, replica: Replica) -> None:
        """Reads its share of clusters, leading or not, takes the others' rows, keeps lag over time, and the gauges."""
        if self._clusters is None or self._alerts is None or self._keeper is None:
            raise Unavailable("the lag monitor does not serve yet")
        spawn = replica.host.tasks.spawn
        tasks = [
            spawn(self._measure(replica, self._clusters, self._alerts, self._keeper), "gauges"),
            spawn(self._alerts.follow(), "facts of alerts"),
            spawn(self._keeper.run(), "kept lag"),
        ]
        try:
            await self._clusters.run()
        finally:
            for task in tasks:
                task.cancel()

    async def _measure(self, replica: Replica, clusters: Clusters, alerts: AlertWatch, keeper: Keeper) -> None:
        gauges, kept = Gauges(replica.metrics.registry, self._exporters), KeptGauges(replica.metrics)
        conditions, division = ConditionGauges(replica.metrics), DivisionGauges(replica.metrics)
        clock = replica.host.clock
        while True:
            began = clock.elapsed()
            table = await clusters.table()
            gauges.show(ShownLag(table.clusters, table.channels, clusters.left_out()))
            await alerts.take(clusters.look(table))
            conditions.show((*open_keys(alerts.state), *alerts.pending_keys()), alerts.facts)
            gauges.show_counts(clusters.counts(), clusters.probes())
            division.show(clusters.reads(), 1 + len(clusters.readers.members))
            kept.show(keeper)
            pause = min((clock.elapsed() - began) * LAG_PAUSE_FACTOR, LAG_LOOK_PAUSE_SECONDS_MAX)
            await clock.sleep(max(LAG_METRICS_SECONDS, pause))


class Reads:
    """Handlers of the reading methods."""

    def __init__(self, replica: Replica, clusters: Clusters, keeper: Keeper) -> None:
        self._clock = replica.host.clock
        self._clusters = clusters
        self._keeper = keeper

    async def list_lag(self, request: api.ListLagRequest, caller: Caller) -> api.ListLagResponse:
        """Returns one page of rows. Raises `Invalid`."""
        detail, last = read_detail(request.detail), LAG_TOKENS.read(request.page_token)
        if request.page_size < 0:
            raise Invalid(
                f"a page cannot have {request.page_size} rows", field="page_size", remedy="use 0 for the default"
            )
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        parts, now, catching_up = await self._shown(wanted := read_filter(request.filter))
        page, behind = page_of(parts, wanted, detail, last, size)
        since = self._clock.elapsed() - now.elapsed
        then_ms = now.later(since).wall_ms
        return api.ListLagResponse(
            lags=[lag_message(aged(row, since, then_ms), self._trend(row, detail)) for row in page],
            next_page_token=LAG_TOKENS.write(behind),
            time_ms=self._clock.now_ms(),
            catching_up=catching_up,
        )

    async def _shown(self, wanted: Filter) -> tuple[Sequence[LagColumns], Now, Sequence[str]]:
        """Returns the rows among which a list finds those it wants, their instant, and clusters with missing rows.

        Rows of named groups are as they are now. Others are those of a table that answered another call before.
        """
        if not wanted.named:
            table = await self._clusters.last_table()
            return table.clusters, table.now, table.catching_up
        table = await self._clusters.any_table()
        return *await self._clusters.renewed(table, wanted.named), table.catching_up

    async def watch_lag(self, request: api.WatchLagRequest, caller: Caller) -> AsyncIterator[api.WatchLagResponse]:
        """Yields all rows, then rows that changed; without changes a sign of life now and then. Raises `Invalid`.

        A slow reader gets no backlog: nothing is computed while it reads, and it gets the newest rows next.
        """
        detail, wanted = read_detail(request.detail), read_filter(request.filter)
        seconds = _interval_seconds(request.interval_ms)
        told: dict[RowKey, LagRow] = {}
        caught = None
        spoke = -WATCH_ALIVE_SECONDS
        while True:
            table = await self._clusters.table()
            rows, _ = page_of(table.clusters, wanted, detail, None, sys.maxsize - 1)
            told, changed, gone = changes(told, rows)
            now = self._clock.elapsed()
            if changed or gone or caught != table.catching_up or now - spoke >= WATCH_ALIVE_SECONDS:
                for answer in _answers([lag_message(row, self._trend(row, detail)) for row in changed], gone):
                    answer.time_ms = self._clock.now_ms()
                    answer.catching_up.extend(table.catching_up)
                    yield answer
                spoke, caught = now, table.catching_up
            await self._clock.sleep(min(seconds, WATCH_ALIVE_SECONDS) if not changed else seconds)

    def _trend(self, row: LagRow, detail: Detail) -> Trend | None:
        """Returns the trend of a lane's row; other rows have none."""
        key = row.key
        return self._keeper.trend(SeriesKey(key.group, key.stream, key.lane)) if detail is Detail.LANE else None


def _answers(changed: Sequence[lag_pb2.Lag], gone: Sequence[RowKey]) -> Iterator[api.WatchLagResponse]:
    """Splits rows into answers within the bound of each; yields an empty one when there is nothing to report."""
    messages = [(message, True) for message in changed] + [(gone_message(key), False) for key in gone]
    for at in range(0, max(len(messages), 1), LAG_WATCH_ROWS_MAX):
        part = messages[at : at + LAG_WATCH_ROWS_MAX]
        lags: list[lag_pb2.Lag] = [message for message, is_row in part if is_row]
        yield api.WatchLagResponse(lags=lags, gone=[message for message, is_row in part if not is_row])


def _interval_seconds(interval_ms: int) -> float:
    shortest, usual, longest = LAG_WATCH_MS
    if interval_ms and not shortest <= interval_ms <= longest:
        remedy = f"use {shortest} to {longest}, or 0 for {usual}"
        raise Invalid(f"an interval of {interval_ms} ms", field="interval_ms", remedy=remedy)
    return (interval_ms or usual) / 1000
