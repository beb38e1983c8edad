"""Sets up OpenTelemetry's SDK from its standard environment variables, for processes that are Braid's own.

Nothing is set up, and the SDK is not imported, unless a variable names where telemetry goes. An application sets up its
own SDK; one that stands already, as under `opentelemetry-instrument`, is left as it is. Exporters send in threads of
their own from bounded queues (`OTEL_BSP_…`, `OTEL_BLRP_…`), which drop what does not fit.
"""

import importlib
import importlib.metadata
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from opentelemetry import trace

from braid.kernel.errors import Invalid
from braid.kernel.limits.telemetry import EXPORT_SHUTDOWN_SECONDS

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
OTLP: Final = "otlp"
CONSOLE: Final = "console"
_NOWHERE: Final = ("", "none")
_PACKAGE: Final = "braid-streams"


def exporter_named(signal: Signal, environ: Mapping[str, str] = os.environ) -> str:
    """Returns where a signal goes: `otlp`, `console`, or '' for nowhere.

    `OTEL_<SIGNAL>_EXPORTER` names it. Without it, traces and metrics go to the endpoint that is set, if one is; logs
    go nowhere.

    Raises:
        Invalid: another exporter is named.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    named = environ.get(variable, "").strip().lower()
    if named in (OTLP, CONSOLE):
        return named
    if named not in _NOWHERE:
        raise Invalid(f"{variable} is {named!r}", field=variable, remedy="set otlp, console or none")
    if named or signal == "logs":
        return ""
    return OTLP if any(environ.get(each) for each in _endpoints(signal)) else ""


def _endpoints(signal: Signal) -> tuple[str, str]:
    return "OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"


def speaks_http(signal: Signal, environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether OTLP is to go over HTTP: then its exporter must be installed, which Braid does not bring."""
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    return (protocol or "grpc").strip().lower() == "http/protobuf"


def resource_of(service: str, instance: str) -> "Resource":
    """Describes this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win over what is said here."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    said = {
        "service.name": service,
        "service.namespace": "braid",
        "service.version": importlib.metadata.version(_PACKAGE),
        **({"service.instance.id": instance} if instance else {}),
    }
    return Resource.create(said).merge(OTELResourceDetector().detect())


class Telemetry:
    """The exporters of one process, and how they end."""

    def __init__(self, service: str, instance: str = "", environ: Mapping[str, str] = os.environ) -> None:
        """Names the process: `registry`, `east-0`. Nothing is exported before a `start_…`."""
        self._service = service
        self._instance = instance
        self._environ = environ
        self._endings: list[Callable[[], object]] = []

    def start_traces(self) -> bool:
        """Begins to export traces where the environment asks for it; returns whether it does.

        Raises:
            Invalid: the environment names what is not known or not installed.
        """
        named = exporter_named("traces", self._environ)
        if not named or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return False
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=resource_of(self._service, self._instance), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(_span_exporter(named, speaks_http("traces", self._environ))))
        trace.set_tracer_provider(provider)
        self.add_ending(provider.shutdown)
        return True

    def start_logs(self) -> bool:
        """Begins to export logs where `OTEL_LOGS_EXPORTER` asks for it; returns whether it does.

        Raises:
            Invalid: the environment names what is not known or not installed.
        """
        named = exporter_named("logs", self._environ)
        if not named:
            return False
        from opentelemetry._logs import set_logger_provider
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        from braid.telemetry.logs import LogsHandler

        provider = LoggerProvider(resource_of(self._service, self._instance), shutdown_on_exit=False)
        provider.add_log_record_processor(
            BatchLogRecordProcessor(_log_exporter(named, speaks_http("logs", self._environ)))
        )
        set_logger_provider(provider)
        handler = LogsHandler(provider)
        logging.getLogger().addHandler(handler)
        self.add_ending(lambda: logging.getLogger().removeHandler(handler))
        self.add_ending(provider.shutdown)
        return True

    def add_ending(self, end: Callable[[], object]) -> None:
        """Registers what ends an exporter: it sends what waits, and may block."""
        self._endings.append(end)

    def close(self, seconds: float = EXPORT_SHUTDOWN_SECONDS) -> None:
        """Sends what waits, for so long at most; the rest is dropped. A collector that hangs holds nobody up longer."""
        endings, self._endings = self._endings, []
        if not endings:
            return
        ending = threading.Thread(target=lambda: [end() for end in endings], name="telemetry's end", daemon=True)
        ending.start()
        ending.join(seconds)


def _span_exporter(named: str, http: bool) -> "SpanExporter":
    if named == CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if http:
        return cast("SpanExporter", http_exporter("trace_exporter.OTLPSpanExporter"))
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _log_exporter(named: str, http: bool) -> "LogRecordExporter":
    if named == CONSOLE:
        from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter

        return ConsoleLogRecordExporter()
    if http:
        return cast("LogRecordExporter", http_exporter("_log_exporter.OTLPLogExporter"))
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter

    return OTLPLogExporter()


def http_exporter(name: str) -> object:
    """Makes an exporter of OTLP over HTTP, whose package Braid does not bring: `trace_exporter.OTLPSpanExporter`.

    Raises:
        Invalid: the package is not installed.
    """
    module, _, kind = name.rpartition(".")
    try:
        found = importlib.import_module(f"opentelemetry.exporter.otlp.proto.http.{module}")
    except ImportError as error:
        raise Invalid(
            "the exporter of OTLP over HTTP is not installed",
            field="OTEL_EXPORTER_OTLP_PROTOCOL",
            remedy="set grpc, or install opentelemetry-exporter-otlp-proto-http",
        ) from error
    exporter: object = getattr(found, kind)()
    return exporter
