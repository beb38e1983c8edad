"""Audit records as OpenTelemetry's logs: every field under its name, refusals as warnings, losses too."""

import pytest
from opentelemetry._logs import SeverityNumber, get_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from braid.kernel.audit.calls import Call, CallRecorded, CallsLost, Outcome
from braid.runtime.audit import exported
from braid.runtime.audit.exported import ExportedAudit

CALL = Call(
    1_700_000_000_000,
    "spiffe://braid.local/user/ann",
    True,
    "default",
    "10.0.0.7",
    "registry",
    "MoveStream",
    "stream/logs",
    "request-1",
    Outcome.REFUSED,
    "NO_GRANT",
    "braid move stream/logs --to west",
)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> InMemoryLogRecordExporter:
    """The exporter of a provider that is set up."""
    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider(shutdown_on_exit=False)  # type: ignore[no-untyped-call]
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    monkeypatch.setattr(exported, "get_logger_provider", lambda: provider)
    return exporter


def test_a_refused_call_is_a_warning_with_all_its_fields(kept: InMemoryLogRecordExporter) -> None:
    ExportedAudit("registry", "registry-0").add([CallRecorded(CALL, 3, CALL.time_ms)])
    (one,) = (each.log_record for each in kept.get_finished_logs())
    assert (one.event_name, one.severity_number) == ("braid.audit.call", SeverityNumber.WARN)
    assert one.timestamp == CALL.time_ms * 1_000_000
    assert dict(one.attributes or {}) == {
        "user.id": "spiffe://braid.local/user/ann",
        "braid.authenticated": True,
        "braid.tenant": "default",
        "client.address": "10.0.0.7",
        "rpc.system.name": "grpc",
        "rpc.method": "braid.api.registry.v1.RegistryService/MoveStream",
        "braid.resource": "stream/logs",
        "braid.request.id": "request-1",
        "braid.audit.outcome": "refused",
        "braid.command": "braid move stream/logs --to west",
        "braid.count": 3,
        "error.type": "NO_GRANT",
        "braid.service": "registry",
        "braid.instance": "registry-0",
    }


def test_lost_records_are_told_as_an_error(kept: InMemoryLogRecordExporter) -> None:
    ExportedAudit("registry", "registry-0").add([CallsLost(9, 1, 2)])
    (one,) = (each.log_record for each in kept.get_finished_logs())
    assert (one.event_name, one.severity_number) == ("braid.audit.lost", SeverityNumber.ERROR)


def test_without_a_provider_nothing_is_handed_over() -> None:
    assert type(get_logger_provider()).__name__ == "ProxyLoggerProvider"
    ExportedAudit("registry", "registry-0").add([CallsLost(9, 1, 2)])
