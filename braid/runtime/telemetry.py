"""The catalogue of the services' metrics (prefix `braid_`, base units), and the format of their logs."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from braid.runtime.plain_structlog import structlog
from braid.telemetry.tracing import trace_ids

SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metrics:
    """One replica's instruments in its own registry; services add theirs to the same registry."""

    registry: CollectorRegistry
    rpc_seconds: Histogram
    decide_seconds: Histogram
    append_seconds: Histogram
    conflicts: Counter
    events: Counter
    leader: Gauge
    elections: Counter
    sessions: Counter
    watch_lag_seconds: Histogram
    loop_lag_seconds: Histogram
    tasks: Gauge
    archived_events: Counter
    archive_failures: Counter
    archive_failing: Gauge
    archive_holes: Counter
    archive_bytes: Gauge
    clock_ahead_seconds: Gauge
    access_refusals: Counter
    audit: "AuditMetrics"
    tenants: "TenantMetrics"


def make_metrics(service: str, instance: str) -> Metrics:
    """Creates the runtime's instruments in a fresh registry, with `braid_service_info`."""
    registry = CollectorRegistry()
    Gauge("braid_service_info", "What runs here", ["service", "instance"], registry=registry).labels(
        service, instance
    ).set(1)

    def seconds(name: str, text: str, labels: Sequence[str] = ()) -> Histogram:
        return Histogram(name, text, labels, registry=registry, buckets=SECONDS_BUCKETS)

    return Metrics(
        registry=registry,
        rpc_seconds=seconds("braid_rpc_seconds", "Time from a call's arrival to its end", ["method", "code"]),
        decide_seconds=seconds("braid_decide_seconds", "Time of one decision", ["kind"]),
        append_seconds=seconds("braid_append_seconds", "Time of one append to the event store", ["kind"]),
        conflicts=Counter("braid_append_conflicts", "Appends that came second", ["kind"], registry=registry),
        events=Counter("braid_events", "Events folded, own and followed", ["kind"], registry=registry),
        leader=Gauge("braid_leader", "1 while this replica leads", registry=registry),
        elections=Counter("braid_elections_won", "Times this replica became leader", registry=registry),
        sessions=Counter("braid_sessions_opened", "Sessions opened on the event store", registry=registry),
        watch_lag_seconds=seconds("braid_watch_lag_seconds", "Age of another replica's events when followed here"),
        loop_lag_seconds=seconds("braid_loop_lag_seconds", "How late the event loop ran a timer"),
        tasks=Gauge("braid_tasks", "Tasks on the event loop", registry=registry),
        archived_events=Counter("braid_archived_events", "Events this replica archived", registry=registry),
        archive_failures=Counter("braid_archive_failures", "Times the archive took nothing", registry=registry),
        archive_failing=Gauge("braid_archive_failing", "1 while the archive takes nothing", registry=registry),
        archive_holes=Counter(
            "braid_archive_holes", "Events this leader compacted without a copy in the archive", registry=registry
        ),
        archive_bytes=Gauge("braid_archive_bytes", "Size of this replica's archive", registry=registry),
        clock_ahead_seconds=Gauge(
            "braid_clock_ahead_seconds",
            "A replica's wall clock ahead of most replicas', as the leader saw it, where that was too far",
            ["replica"],
            registry=registry,
        ),
        access_refusals=Counter(
            "braid_access_refusals",
            "Calls refused, and open streams ended: the caller is unknown, was revoked, has no right or too much open",
            ["method", "reason"],
            registry=registry,
        ),
        audit=make_audit_metrics(registry),
        tenants=make_tenant_metrics(registry),
    )


@dataclass(frozen=True, slots=True)
class AuditMetrics:
    """The metrics of a replica's records of calls."""

    records: Counter
    lost: Counter
    failing: Gauge


def make_audit_metrics(registry: CollectorRegistry) -> AuditMetrics:
    """Creates the metrics of records of calls in a registry."""
    return AuditMetrics(
        records=Counter(
            "braid_audit_records",
            "Calls recorded, by how they ended",
            ["outcome"],
            registry=registry,
        ),
        lost=Counter(
            "braid_audit_lost",
            "Calls whose records are lost: they were too many while none could be written",
            registry=registry,
        ),
        failing=Gauge(
            "braid_audit_failing",
            "1 while records of calls cannot be written, by where to: the store, or a file",
            ["to"],
            registry=registry,
        ),
    )


@dataclass(frozen=True, slots=True)
class TenantMetrics:
    """The metrics of a replica's tenants; their labels are names of declared tenants, of which there are few."""

    refusals: Counter
    open_calls: Gauge

    def forget(self, tenant: str) -> None:
        """Shows nothing of a tenant any more."""
        for metric in (self.refusals, self.open_calls):
            metric.remove_by_labels({"tenant": tenant})


def make_tenant_metrics(registry: CollectorRegistry) -> TenantMetrics:
    """Creates the metrics of tenants in a registry."""
    return TenantMetrics(
        refusals=Counter(
            "braid_tenant_refusals",
            "Requests refused because their tenant had all that its quota lets it have",
            ["tenant", "quota"],
            registry=registry,
        ),
        open_calls=Gauge(
            "braid_tenant_open_calls",
            "Calls and streams that a tenant has open at this replica",
            ["tenant"],
            registry=registry,
        ),
    )


@dataclass(frozen=True, slots=True)
class TlsMetrics:
    """The metrics of a replica's certificate, beside those of the runtime."""

    expiry_seconds: Gauge
    unusable_files: Counter


def make_tls_metrics(metrics: Metrics) -> TlsMetrics:
    """Creates the instruments of mutual TLS; a replica without a certificate has none, so that none seems to expire."""
    registry = metrics.registry
    return TlsMetrics(
        expiry_seconds=Gauge(
            "braid_tls_certificate_expiry_seconds", "Time until this replica's certificate ends", registry=registry
        ),
        unusable_files=Counter(
            "braid_tls_files_unusable",
            "Times the TLS files changed and could not be used, so that those read before stayed in use",
            registry=registry,
        ),
    )


def make_store_tls_expiry(metrics: Metrics) -> Gauge:
    """The instrument of a replica that shows etcd another certificate than everybody else."""
    return Gauge(
        "braid_store_tls_certificate_expiry_seconds",
        "Time until the certificate ends that this replica shows the event store, where that is one of its own",
        registry=metrics.registry,
    )


@dataclass(frozen=True, slots=True)
class DlqMetrics:
    """The dlq service's own instruments, beside those of the runtime."""

    dead_letters: Gauge
    replay_sent: Counter


def make_dlq_metrics(metrics: Metrics) -> DlqMetrics:
    """Creates the dlq service's instruments."""
    registry = metrics.registry
    return DlqMetrics(
        dead_letters=Gauge("braid_dead_letters", "Dead letters indexed here", ["stream", "group"], registry=registry),
        replay_sent=Counter("braid_replay_sent", "Records replays sent and brokers acknowledged", registry=registry),
    )


@dataclass(frozen=True, slots=True)
class AssignerMetrics:
    """The assigner's own instruments, beside those of the runtime."""

    bump_seconds: Histogram
    fencing_waived: Counter
    shadow_moves: Gauge
    shadow_imbalance: Gauge
    idle_alerted: Gauge


def make_assigner_metrics(metrics: Metrics) -> AssignerMetrics:
    """Creates the assigner's instruments."""
    registry = metrics.registry
    return AssignerMetrics(
        bump_seconds=Histogram(
            "braid_bump_seconds",
            "Time to make a group's next generation on a cluster, events included",
            registry=registry,
            buckets=SECONDS_BUCKETS,
        ),
        fencing_waived=Counter(
            "braid_fencing_waived", "Bumps that failed while members reached the cluster", ["group"], registry=registry
        ),
        shadow_moves=Gauge(
            "braid_shadow_moves", "Leases that a group's shadow policy would move", ["group"], registry=registry
        ),
        shadow_imbalance=Gauge(
            "braid_shadow_imbalance",
            "The most loaded member over the mean, as it is now and as the group's shadow policy would have it then",
            ["group", "placement"],
            registry=registry,
        ),
        idle_alerted=Gauge(
            "braid_groups_idle_alerted",
            "Groups without members that drains will stop waiting for, or do not wait for any more",
            registry=registry,
        ),
    )


def logger(service: str, instance: str = "") -> structlog.stdlib.BoundLogger:
    """A structured logger over the standard library's, so that tests and simulation receive its messages without any
    setup."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(f"braid.{service}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    )
    bound = wrapped.bind(instance=instance) if instance else wrapped
    return cast("structlog.stdlib.BoundLogger", bound)


def _add_trace(logger: object, method: str, values: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Adds the ids of the span in which a log is written, where there is one."""
    values.update(trace_ids())
    return values


def configure_logs(level: str) -> None:
    """Sends this process's logs to stderr: JSON lines, or readable ones when stderr is a terminal."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
