"""The instruments of the services' metrics, and the format of their logs. `metric_catalogue` declares the metrics."""

import logging
import sys
from dataclasses import dataclass
from typing import cast

from prometheus_client import Counter, Gauge, Histogram

from braid.runtime.metrics import catalogue
from braid.runtime.metrics.instruments import MetricRegistry, counter, gauge, histogram
from braid.runtime.plain_structlog import structlog
from braid.telemetry.tracing import trace_ids


@dataclass(frozen=True, slots=True)
class Metrics:
    """One replica's instruments in its own registry; services add theirs to the same registry."""

    registry: MetricRegistry
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
    registry = MetricRegistry()
    gauge(registry, catalogue.SERVICE_INFO).labels(service, instance).set(1)

    return Metrics(
        registry=registry,
        rpc_seconds=histogram(registry, catalogue.RPC_SECONDS),
        decide_seconds=histogram(registry, catalogue.DECIDE_SECONDS),
        append_seconds=histogram(registry, catalogue.APPEND_SECONDS),
        conflicts=counter(registry, catalogue.APPEND_CONFLICTS),
        events=counter(registry, catalogue.EVENTS),
        leader=gauge(registry, catalogue.LEADER),
        elections=counter(registry, catalogue.ELECTIONS_WON),
        sessions=counter(registry, catalogue.SESSIONS_OPENED),
        watch_lag_seconds=histogram(registry, catalogue.WATCH_LAG_SECONDS),
        loop_lag_seconds=histogram(registry, catalogue.LOOP_LAG_SECONDS),
        tasks=gauge(registry, catalogue.TASKS),
        archived_events=counter(registry, catalogue.ARCHIVED_EVENTS),
        archive_failures=counter(registry, catalogue.ARCHIVE_FAILURES),
        archive_failing=gauge(registry, catalogue.ARCHIVE_FAILING),
        archive_holes=counter(registry, catalogue.ARCHIVE_HOLES),
        archive_bytes=gauge(registry, catalogue.ARCHIVE_BYTES),
        clock_ahead_seconds=gauge(registry, catalogue.CLOCK_AHEAD_SECONDS),
        access_refusals=counter(registry, catalogue.ACCESS_REFUSALS),
        audit=make_audit_metrics(registry),
        tenants=make_tenant_metrics(registry),
    )


@dataclass(frozen=True, slots=True)
class AuditMetrics:
    """The metrics of a replica's records of calls."""

    records: Counter
    lost: Counter
    failing: Gauge


def make_audit_metrics(registry: MetricRegistry) -> AuditMetrics:
    """Creates the metrics of records of calls in a registry."""
    return AuditMetrics(
        records=counter(registry, catalogue.AUDIT_RECORDS),
        lost=counter(registry, catalogue.AUDIT_LOST),
        failing=gauge(registry, catalogue.AUDIT_FAILING),
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


def make_tenant_metrics(registry: MetricRegistry) -> TenantMetrics:
    """Creates the metrics of tenants in a registry."""
    return TenantMetrics(
        refusals=counter(registry, catalogue.TENANT_REFUSALS),
        open_calls=gauge(registry, catalogue.TENANT_OPEN_CALLS),
    )


@dataclass(frozen=True, slots=True)
class TlsMetrics:
    """The metrics of a replica's certificate, beside those of the runtime."""

    expiry_seconds: Gauge
    authority_expiry_seconds: Gauge
    unusable_files: Counter


def make_tls_metrics(metrics: Metrics) -> TlsMetrics:
    """Creates the instruments of mutual TLS; a replica without a certificate has none, so that none seems to expire."""
    registry = metrics.registry
    return TlsMetrics(
        expiry_seconds=gauge(registry, catalogue.TLS_CERTIFICATE_EXPIRY_SECONDS),
        authority_expiry_seconds=gauge(registry, catalogue.TLS_AUTHORITY_EXPIRY_SECONDS),
        unusable_files=counter(registry, catalogue.TLS_FILES_UNUSABLE),
    )


def make_store_tls_expiry(metrics: Metrics) -> Gauge:
    """The instrument of a replica that shows etcd another certificate than everybody else."""
    return gauge(metrics.registry, catalogue.STORE_TLS_CERTIFICATE_EXPIRY_SECONDS)


@dataclass(frozen=True, slots=True)
class DlqMetrics:
    """The dlq service's own instruments, beside those of the runtime."""

    dead_letters: Gauge
    replay_sent: Counter


def make_dlq_metrics(metrics: Metrics) -> DlqMetrics:
    """Creates the dlq service's instruments."""
    registry = metrics.registry
    return DlqMetrics(
        dead_letters=gauge(registry, catalogue.DEAD_LETTERS),
        replay_sent=counter(registry, catalogue.REPLAY_SENT),
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
        bump_seconds=histogram(registry, catalogue.BUMP_SECONDS),
        fencing_waived=counter(registry, catalogue.FENCING_WAIVED),
        shadow_moves=gauge(registry, catalogue.SHADOW_MOVES),
        shadow_imbalance=gauge(registry, catalogue.SHADOW_IMBALANCE),
        idle_alerted=gauge(registry, catalogue.GROUPS_IDLE_ALERTED),
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
