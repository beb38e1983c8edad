"""Declarations of the metrics that the runtime keeps, and of those that the assigner and dlq keep beside them.

Names have the prefix `braid_` and base units. `braid.runtime.telemetry` makes the instruments. Metrics of other parts
are declared beside the code that sets them.
"""

from collections.abc import Mapping
from typing import Final

from braid.kernel.metrics import MetricDeclaration

# --- every service
RPC_SECONDS: Final = MetricDeclaration(
    "braid_rpc_seconds", "histogram", "s", ("method", "code"), "Time from a call's arrival to its end"
)
DECIDE_SECONDS: Final = MetricDeclaration("braid_decide_seconds", "histogram", "s", ("kind",), "Time of one decision")
APPEND_SECONDS: Final = MetricDeclaration(
    "braid_append_seconds", "histogram", "s", ("kind",), "Time of one append to the event store"
)
APPEND_CONFLICTS: Final = MetricDeclaration(
    "braid_append_conflicts", "counter", "{append}", ("kind",), "Appends that came second"
)
EVENTS: Final = MetricDeclaration("braid_events", "counter", "{event}", ("kind",), "Events folded, own and followed")
LEADER: Final = MetricDeclaration("braid_leader", "gauge", "", (), "1 while this replica leads")
ELECTIONS_WON: Final = MetricDeclaration(
    "braid_elections_won", "counter", "{election}", (), "Times this replica became leader"
)
SESSIONS_OPENED: Final = MetricDeclaration(
    "braid_sessions_opened", "counter", "{session}", (), "Sessions opened on the event store"
)
WATCH_LAG_SECONDS: Final = MetricDeclaration(
    "braid_watch_lag_seconds", "histogram", "s", (), "Age of another replica's events when followed here"
)
LOOP_LAG_SECONDS: Final = MetricDeclaration(
    "braid_loop_lag_seconds", "histogram", "s", (), "How late the event loop ran a timer"
)
TASKS: Final = MetricDeclaration("braid_tasks", "gauge", "{task}", (), "Tasks on the event loop")
ARCHIVED_EVENTS: Final = MetricDeclaration(
    "braid_archived_events", "counter", "{event}", (), "Events this replica archived"
)
ARCHIVE_FAILURES: Final = MetricDeclaration(
    "braid_archive_failures", "counter", "{failure}", (), "Times the archive took nothing"
)
ARCHIVE_FAILING: Final = MetricDeclaration(
    "braid_archive_failing", "gauge", "", (), "1 while the archive takes nothing"
)
ARCHIVE_HOLES: Final = MetricDeclaration(
    "braid_archive_holes", "counter", "{event}", (), "Events this leader compacted without a copy in the archive"
)
ARCHIVE_BYTES: Final = MetricDeclaration("braid_archive_bytes", "gauge", "By", (), "Size of this replica's archive")
CLOCK_AHEAD_SECONDS: Final = MetricDeclaration(
    "braid_clock_ahead_seconds",
    "gauge",
    "s",
    ("replica",),
    "A replica's wall clock ahead of most replicas', as the leader saw it, where that was too far",
)
ACCESS_REFUSALS: Final = MetricDeclaration(
    "braid_access_refusals",
    "counter",
    "{call}",
    ("method", "reason"),
    "Calls refused, and open streams ended: the caller is unknown, was revoked, has no right or too much open",
)
SERVICE_INFO: Final = MetricDeclaration("braid_service_info", "gauge", "", ("service", "instance"), "What runs here")
# --- records of calls
AUDIT_RECORDS: Final = MetricDeclaration(
    "braid_audit_records", "counter", "{call}", ("outcome",), "Calls recorded, by how they ended"
)
AUDIT_LOST: Final = MetricDeclaration(
    "braid_audit_lost",
    "counter",
    "{call}",
    (),
    "Calls whose records are lost: they were too many while none could be written",
)
AUDIT_FAILING: Final = MetricDeclaration(
    "braid_audit_failing",
    "gauge",
    "",
    ("to",),
    "1 while records of calls cannot be written, by where to: the store, or a file",
)
# --- tenants
TENANT_REFUSALS: Final = MetricDeclaration(
    "braid_tenant_refusals",
    "counter",
    "{request}",
    ("tenant", "quota"),
    "Requests refused because their tenant had all that its quota lets it have",
)
TENANT_OPEN_CALLS: Final = MetricDeclaration(
    "braid_tenant_open_calls",
    "gauge",
    "{call}",
    ("tenant",),
    "Calls and streams that a tenant has open at this replica",
)
# --- mutual TLS
TLS_CERTIFICATE_EXPIRY_SECONDS: Final = MetricDeclaration(
    "braid_tls_certificate_expiry_seconds", "gauge", "s", (), "Time until this replica's certificate ends"
)
TLS_AUTHORITY_EXPIRY_SECONDS: Final = MetricDeclaration(
    "braid_tls_authority_expiry_seconds",
    "gauge",
    "s",
    (),
    "Time until the authority ends that signed this replica's certificate; of several, the last",
)
TLS_FILES_UNUSABLE: Final = MetricDeclaration(
    "braid_tls_files_unusable",
    "counter",
    "{change}",
    (),
    "Times the TLS files changed and could not be used, so that those read before stayed in use",
)
STORE_TLS_CERTIFICATE_EXPIRY_SECONDS: Final = MetricDeclaration(
    "braid_store_tls_certificate_expiry_seconds",
    "gauge",
    "s",
    (),
    "Time until the certificate ends that this replica shows the event store, where that is one of its own",
)
# --- dlq
DEAD_LETTERS: Final = MetricDeclaration(
    "braid_dead_letters", "gauge", "{record}", ("stream", "group"), "Dead letters indexed here"
)
REPLAY_SENT: Final = MetricDeclaration(
    "braid_replay_sent", "counter", "{record}", (), "Records replays sent and brokers acknowledged"
)
# --- assigner
BUMP_SECONDS: Final = MetricDeclaration(
    "braid_bump_seconds", "histogram", "s", (), "Time to make a group's next generation on a cluster, events included"
)
FENCING_WAIVED: Final = MetricDeclaration(
    "braid_fencing_waived", "counter", "{bump}", ("group",), "Bumps that failed while members reached the cluster"
)
SHADOW_MOVES: Final = MetricDeclaration(
    "braid_shadow_moves", "gauge", "{lease}", ("group",), "Leases that a group's shadow policy would move"
)
SHADOW_IMBALANCE: Final = MetricDeclaration(
    "braid_shadow_imbalance",
    "gauge",
    "",
    ("group", "placement"),
    "The most loaded member over the mean, as it is now and as the group's shadow policy would have it then",
)
GROUPS_IDLE_ALERTED: Final = MetricDeclaration(
    "braid_groups_idle_alerted",
    "gauge",
    "{group}",
    (),
    "Groups without members that drains will stop waiting for, or do not wait for any more",
)

# Parts of the catalogue by whose they are; what is in none of them is every service's.
PARTS: Final[Mapping[str, tuple[MetricDeclaration, ...]]] = {
    "assigner": (BUMP_SECONDS, FENCING_WAIVED, SHADOW_MOVES, SHADOW_IMBALANCE, GROUPS_IDLE_ALERTED),
    "audit": (AUDIT_RECORDS, AUDIT_LOST, AUDIT_FAILING),
    "dlq": (DEAD_LETTERS, REPLAY_SENT),
    "tenant": (TENANT_REFUSALS, TENANT_OPEN_CALLS),
    "tls": (TLS_CERTIFICATE_EXPIRY_SECONDS, TLS_AUTHORITY_EXPIRY_SECONDS, TLS_FILES_UNUSABLE),
}
