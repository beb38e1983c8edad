"""Which boards there are, and what each shows."""

from typing import Final

from braid.client.telemetry import metrics as sdk
from braid.client.telemetry.zone_bytes import ZONE_IO
from braid.runtime.metrics import catalogue as runtime
from services.assigner.reconciler import gauges as assigner
from services.lagmon.alerts import gauges as alerts
from services.lagmon.servicer import kept_metrics as kept
from services.lagmon.servicer import metrics as lag
from services.lagmon.servicer.exporter_metrics import EXPORTER_METRICS, Exporter
from services.registry.reconciler import gauges as registry
from tools.boards.panels import Board, Section, Variable, count, quantiles, rate, replicas, top, total, value

_LAG: Final = {each.name.removeprefix("kafka_"): each for each in EXPORTER_METRICS[Exporter.KAFKA_EXPORTER]}
_STREAM: Final = 'stream=~"$stream"'
_GROUP: Final = 'group=~"$group"'
_CLUSTER: Final = 'cluster=~"$cluster"'
_FOREIGN_GROUP: Final = 'consumergroup=~"$group"'
_SDK_GROUP: Final = 'messaging_consumer_group_name=~"$group"'
_SDK_CLUSTER: Final = 'braid_cluster=~"$cluster"'
_GROUPS: Final = Variable("group", lag.GROUP_LAG_RECORDS, "group")
_SDK_NAME: Final = ("messaging_consumer_group_name",)

MESH: Final = Board(
    "braid-mesh",
    "Braid: mesh",
    "Replicas, calls, decisions and the event store.",
    (),
    (
        Section("Replicas", (
            count("Replicas", runtime.SERVICE_INFO, ("service",)),
            replicas("Leaders", runtime.LEADER, runtime.SERVICE_INFO),
            value("Alerts firing", alerts.ALERTS_FIRING, ("rule", "severity"), fold="max"),
            rate("Elections won", runtime.ELECTIONS_WON, ("instance",)),
            rate("Sessions opened", runtime.SESSIONS_OPENED, ("instance",)),
            value("Clocks ahead", runtime.CLOCK_AHEAD_SECONDS, ("replica",), fold="max"),
            quantiles("Event loop late by", runtime.LOOP_LAG_SECONDS, ("instance",)),
            value("Tasks", runtime.TASKS, ("instance",)),
            value("Certificates end in", runtime.TLS_CERTIFICATE_EXPIRY_SECONDS, ("instance",), fold="min"),
        )),
        Section("Calls", (
            rate("Calls", runtime.RPC_SECONDS, ("method",)),
            rate("Failed calls", runtime.RPC_SECONDS, ("method", "code"), 'code!="OK"'),
            quantiles("Time of calls", runtime.RPC_SECONDS, ("method",)),
            rate("Refused calls", runtime.ACCESS_REFUSALS, ("method", "reason")),
            rate("Requests over a quota", runtime.TENANT_REFUSALS, ("tenant", "quota")),
            value("Open calls of tenants", runtime.TENANT_OPEN_CALLS, ("tenant",)),
        )),
        Section("Decisions and the event store", (
            quantiles("Time of decisions", runtime.DECIDE_SECONDS, ("kind",)),
            quantiles("Time of appends", runtime.APPEND_SECONDS, ("kind",)),
            quantiles("Age of events when followed", runtime.WATCH_LAG_SECONDS),
            rate("Events", runtime.EVENTS, ("kind",)),
            rate("Appends that came second", runtime.APPEND_CONFLICTS, ("kind",)),
            quantiles("Time of generation bumps", runtime.BUMP_SECONDS),
        )),
        Section("Archive and audit", (
            value("Archive", runtime.ARCHIVE_BYTES, ("instance",)),
            rate("Events archived", runtime.ARCHIVED_EVENTS, ("instance",)),
            value("Archive takes nothing", runtime.ARCHIVE_FAILING, ("instance",), fold="max"),
            rate("Events lost to the archive", runtime.ARCHIVE_HOLES, ("instance",)),
            rate("Audit records", runtime.AUDIT_RECORDS, ("outcome",)),
            rate("Audit records lost", runtime.AUDIT_LOST, ("instance",)),
        )),
    ),
)  # fmt: skip

STREAM: Final = Board(
    "braid-stream",
    "Braid: stream",
    "What groups have not done of a stream, lane by lane, and its dead letters.",
    (Variable("stream", lag.GROUP_LAG_RECORDS, "stream"),),
    (
        Section("Lag", (
            value("Age of the oldest record", lag.GROUP_LAG_SECONDS, ("lane", "group"), _STREAM, "max"),
            total("Records not done", lag.GROUP_LAG_RECORDS, ("lane", "group"), _STREAM),
            total("Records not done by cluster", lag.GROUP_LAG_RECORDS, ("cluster", "lane"), _STREAM),
        )),
        Section("Dead letters", (
            value("Dead letters", runtime.DEAD_LETTERS, ("group",), _STREAM, "max"),
            value("Streams that cannot leave a cluster", registry.FAILOVER_BLOCKED, ("cluster",), fold="max"),
        )),
    ),
)  # fmt: skip

GROUP: Final = Board(
    "braid-group",
    "Braid: group",
    "A group's lag, its partitions, and what its members report by OTLP.",
    (_GROUPS,),
    (
        Section("Lag", (
            value("Age of the oldest record", lag.GROUP_LAG_SECONDS, ("stream", "lane"), _GROUP, "max"),
            total("Records not done", lag.GROUP_LAG_RECORDS, ("stream", "lane"), _GROUP),
            top("Partitions with most records", _LAG["consumergroup_lag"], ("topic", "partition"), _FOREIGN_GROUP),
            top("Partitions that are oldest", _LAG["consumergroup_lag_seconds"], ("topic", "partition"),
                _FOREIGN_GROUP),
            total("Committed offsets", _LAG["consumergroup_current_offset_sum"], ("topic",), _FOREIGN_GROUP),
            value("Leases a shadow policy would move", runtime.SHADOW_MOVES, ("group",), _GROUP),
        )),
        Section("Responses to lag", (
            value("Responses", assigner.GROUP_RESPONSES, ("kind", "state"), _GROUP, "max"),
            rate("Responses taken and undone", assigner.GROUP_RESPONSE_CHANGES, ("kind", "outcome"), _GROUP),
            value("Members wanted", assigner.GROUP_DESIRED_MEMBERS, ("group",), _GROUP, "max"),
            value("Slow members", assigner.GROUP_SLOW_MEMBERS, ("group",), _GROUP, "max"),
        )),
        Section("Members", (
            rate("Records fetched", sdk.CONSUMED, _SDK_NAME, _SDK_GROUP),
            quantiles("Time of handlers", sdk.PROCESS, _SDK_NAME, _SDK_GROUP),
            quantiles("Time of polls and commits", sdk.OPERATION, ("messaging_operation_name",), _SDK_GROUP),
            value("Records waiting for another attempt", sdk.PARKED, _SDK_NAME, _SDK_GROUP),
            value("Handlers over their time", sdk.OVERDUE, _SDK_NAME, _SDK_GROUP),
            value("Lanes stopped", sdk.STOPPED, _SDK_NAME, _SDK_GROUP),
            value("Lanes held back", sdk.HELD_BACK, _SDK_NAME, _SDK_GROUP),
            rate("Commits that claim less than is done", sdk.TRUNCATED, _SDK_NAME, _SDK_GROUP),
            rate("Bumps without fencing", runtime.FENCING_WAIVED, ("group",), _GROUP),
        )),
    ),
)  # fmt: skip

CLUSTER: Final = Board(
    "braid-cluster",
    "Braid: cluster",
    "Disks and traffic of the Kafka clusters, and how lagmon follows them.",
    (Variable("cluster", registry.CLUSTER_DISK_TOTAL_BYTES, "cluster"),),
    (
        Section("Load", (
            value("Free on the fullest disk", registry.CLUSTER_DISK_FREE_BYTES, ("cluster",), _CLUSTER, "min"),
            value("Size of the fullest disk", registry.CLUSTER_DISK_TOTAL_BYTES, ("cluster",), _CLUSTER, "max"),
            value("Taken by logs", registry.CLUSTER_TAKEN_BYTES_PER_SECOND, ("cluster",), _CLUSTER, "max"),
            value("Open segments", registry.CLUSTER_OPEN_SEGMENTS, ("cluster",), _CLUSTER, "max"),
            value("Idle groups kept for", registry.CLUSTER_OFFSETS_RETENTION_SECONDS, ("cluster",), _CLUSTER, "min"),
            value("Streams that cannot leave", registry.FAILOVER_BLOCKED, ("cluster",), _CLUSTER, "max"),
            total("Records not done", lag.GROUP_LAG_RECORDS, ("cluster",), _CLUSTER),
            value("Age of the oldest record", lag.GROUP_LAG_SECONDS, ("cluster",), _CLUSTER, "max"),
        )),
        Section("Followed by lagmon", (
            rate("Records of the offset log", lag.LAGMON_OFFSET_RECORDS, ("cluster", "outcome"), _CLUSTER, "max"),
            rate("Records read for their time", lag.LAGMON_PROBES, ("cluster",), _CLUSTER, "max"),
            value("Rows left out of gauges", lag.LAG_ROWS_LEFT_OUT, ("gauge",), fold="max"),
            value("Kept lag", kept.KEPT_LAG_BYTES, ("instance", "resolution")),
        )),
        Section("Applications", (
            rate("Bytes of records", ZONE_IO, ("braid_direction", "braid_cross_zone"), _SDK_CLUSTER),
            rate("Records sent", sdk.SENT, ("error_type",), _SDK_CLUSTER),
        )),
    ),
)  # fmt: skip

DEAD_LETTERS: Final = Board(
    "braid-dead-letters",
    "Braid: dead letters",
    "Records that groups gave up, those on their way there, and replays.",
    (Variable("stream", runtime.DEAD_LETTERS, "stream"),),
    (
        Section("Dead letters", (
            value("Dead letters", runtime.DEAD_LETTERS, ("stream", "group"), _STREAM, "max"),
            rate("Records sent by replays", runtime.REPLAY_SENT),
            value("Records waiting to be copied", sdk.COPYING, _SDK_NAME),
            value("Records waiting for another attempt", sdk.PARKED, _SDK_NAME),
            value("Bound on records that wait", sdk.PARKED_BOUND, _SDK_NAME),
            value("Lanes stopped", sdk.STOPPED, _SDK_NAME),
        )),
    ),
)  # fmt: skip

SPARK: Final = Board(
    "braid-spark",
    "Braid: Spark",
    "Spark queries as the mesh sees them: each is a group, whose commits follow its checkpoint.",
    (_GROUPS,),
    (
        Section("Query", (
            value("Age of the oldest record", lag.GROUP_LAG_SECONDS, ("group", "stream", "lane"), _GROUP, "max"),
            total("Records not done", lag.GROUP_LAG_RECORDS, ("group", "stream", "lane"), _GROUP),
            total("Committed offsets", _LAG["consumergroup_current_offset_sum"], ("consumergroup",), _FOREIGN_GROUP),
        )),
        Section("Clusters it reads", (
            total("Ends of logs", _LAG["topic_partition_current_offset"], ("cluster",)),
            rate("Bytes of records", ZONE_IO, ("braid_direction", "braid_cluster")),
            rate("Records sent by sinks", sdk.SENT, ("braid_cluster",)),
        )),
    ),
)  # fmt: skip

BOARDS: Final = (MESH, STREAM, GROUP, CLUSTER, DEAD_LETTERS, SPARK)
