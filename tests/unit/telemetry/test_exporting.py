"""Where telemetry goes, by OpenTelemetry's own variables; without them nothing is loaded. Hanging exporters end."""

import subprocess
import sys
import threading
import time
from collections.abc import Mapping

import pytest

from braid.kernel.errors import Invalid
from braid.telemetry.exporting import Signal, Telemetry, exporter_named, http_exporter, resource_of, speaks_http

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("signal", "environ", "named"),
    [
        ("traces", {}, ""),
        ("traces", {ENDPOINT: "http://c:4317"}, "otlp"),
        ("traces", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, "otlp"),
        ("metrics", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, ""),
        ("traces", {ENDPOINT: "http://c:4317", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ("traces", {"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ("traces", {ENDPOINT: "http://c:4317", "OTEL_SDK_DISABLED": "TRUE"}, ""),
        ("logs", {ENDPOINT: "http://c:4317"}, ""),
        ("logs", {"OTEL_LOGS_EXPORTER": "otlp"}, "otlp"),
    ],
)
def test_the_environment_says_where_a_signal_goes(signal: Signal, environ: Mapping[str, str], named: str) -> None:
    assert exporter_named(signal, environ) == named


def test_an_unknown_exporter_is_named_with_its_variable() -> None:
    with pytest.raises(Invalid) as refused:
        exporter_named("traces", {"OTEL_TRACES_EXPORTER": "zipkin"})
    assert refused.value.field == "OTEL_TRACES_EXPORTER"
    assert "none" in refused.value.remedy


def test_otlp_over_http_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert speaks_http("traces", {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})
    assert not speaks_http("traces", {})
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(Invalid, match="not installed") as refused:
        http_exporter("trace_exporter.OTLPSpanExporter")
    assert "opentelemetry-exporter-otlp-proto-http" in refused.value.remedy


def test_an_operators_own_name_of_a_service_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    said = resource_of("braid-registry", "registry-0").attributes
    assert (said["service.name"], said["service.instance.id"]) == ("braid-registry", "registry-0")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "control")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod")
    said = resource_of("braid-registry", "registry-0").attributes
    assert (said["service.name"], said["deployment.environment.name"]) == ("control", "prod")


def test_a_collector_that_hangs_holds_nobody_up() -> None:
    never, others = threading.Event(), list[str]()
    telemetry = Telemetry("braid-registry", environ={})
    telemetry.add_ending(lambda: others.append("first"))
    telemetry.add_ending(never.wait)
    begun = time.monotonic()
    telemetry.close(0.05)
    assert time.monotonic() - begun < 2.0
    assert others == ["first"]
    telemetry.close()  # nothing is left to end
    never.set()


def test_without_variables_the_sdk_is_not_loaded() -> None:
    script = (
        "import sys\n"
        "from braid.telemetry.exporting import Telemetry\n"
        "from braid.telemetry.tracing import tracer\n"
        "telemetry = Telemetry('braid-registry')\n"
        "assert not telemetry.start_traces() and not telemetry.start_logs() and tracer() is None\n"
        "import braid.cli.core.session, braid.rpc.mesh_client\n"
        "print([each for each in sys.modules if each.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={})
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_command_that_traces_nothing_loads_no_opentelemetry() -> None:
    script = "import sys, braid.cli.core.session\nprint('opentelemetry.trace' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={})
    assert done.stdout.strip() == "False", done.stderr
