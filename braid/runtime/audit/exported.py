"""Audit records as OpenTelemetry's log records, for a collector of logs. The store keeps them all the same.

A queue of the SDK takes them within a bound (`OTEL_BLRP_MAX_QUEUE_SIZE`) and drops the oldest beyond it. So what must
not be missing is read from the audit itself.
"""

from collections.abc import Iterable
from typing import Final

from opentelemetry._logs import Logger, SeverityNumber, get_logger_provider
from opentelemetry.context import Context

from braid.kernel.audit.calls import AuditRecord, CallsLost, Outcome
from braid.rpc.methods import service_path
from braid.telemetry.tracing import NAME, SCHEMA_URL, Attribute

CALL_EVENT: Final = "braid.audit.call"
LOST_EVENT: Final = "braid.audit.lost"


class ExportedAudit:
    """Hands one replica's records to OpenTelemetry. Without a provider it does nothing."""

    def __init__(self, service: str, instance: str) -> None:
        self._service = service
        self._instance = instance
        self._logger = _logger()

    def add(self, records: Iterable[AuditRecord]) -> None:
        """Hands over records. Repeats of a call are one record with their number, which a later one replaces."""
        if self._logger is None:
            return
        for record in records:
            if isinstance(record, CallsLost):
                self._emit(
                    self._logger, LOST_EVENT, record.last_ms, SeverityNumber.ERROR, {"braid.count": record.count}
                )
                continue
            call = record.call
            severity = SeverityNumber.INFO if call.outcome in (Outcome.OK, Outcome.OPENED) else SeverityNumber.WARN
            path = f"{service_path(call.service)}/{call.rpc}" if call.service else ""
            attributes: dict[str, Attribute] = {
                "user.id": call.principal,
                "braid.authenticated": call.authenticated,
                "braid.tenant": call.tenant,
                "client.address": call.address,
                "rpc.system.name": "grpc",
                "rpc.method": path,
                "braid.resource": call.resource,
                "braid.request.id": call.request_id,
                "braid.audit.outcome": call.outcome.value,
                "braid.command": call.command,
                "braid.count": record.count,
                **({"error.type": call.reason} if call.reason else {}),
            }
            self._emit(self._logger, CALL_EVENT, call.time_ms, severity, attributes)

    def _emit(
        self, logger: Logger, event: str, time_ms: int, severity: SeverityNumber, attributes: dict[str, Attribute]
    ) -> None:
        own = {"braid.service": self._service, "braid.instance": self._instance}
        told = {key: value for key, value in {**attributes, **own}.items() if value != ""}
        logger.emit(
            timestamp=time_ms * 1_000_000,
            context=Context(),
            severity_number=severity,
            event_name=event,
            attributes=told,
        )


def _logger() -> Logger | None:
    provider = get_logger_provider()
    # Until somebody sets one up there is a proxy, which the API offers under no public name.
    if type(provider).__name__ in ("ProxyLoggerProvider", "NoOpLoggerProvider"):
        return None
    return provider.get_logger(f"{NAME}.audit", schema_url=SCHEMA_URL)
