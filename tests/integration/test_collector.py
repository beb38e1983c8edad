"""A real OpenTelemetry Collector with the configuration of deploy/, and what comes out of it."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from prometheus_client import generate_latest

from braid.api.registry.v1 import grant_pb2 as grants
from braid.kernel.errors import AccessDenied
from braid.runtime.metrics.instruments import MetricRegistry, histogram
from braid.runtime.metrics.otlp import metrics_data
from braid.runtime.metrics.sampled import SampledMetric
from braid.telemetry.exporting import resource_of
from testbed.authority import ALICE, Authority
from testbed.collector.server import CONFIG, CollectorProcess, running_collector
from testbed.mesh import running_mesh
from testbed.patience import until, wait
from tests.integration.test_access import Processes, client
from tests.support.otlp_collector import Collector, SeenLog
from tests.support.otlp_collector import running_collector as running_sink
from tests.support.sdk_exposition import exposition, used_once
from tests.support.traced_move import SETTINGS, judge, move
from tools import metric_catalogue

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.extended, pytest.mark.timeout(900)]

EVERY_MS: Final = "500"  # between two states of a service's metrics
FAMILY: Final = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
ROW: Final = re.compile(r"^(\w+)(?:{(.*)})? \S+$", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="')
OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")
CREATED: Final = "_created"  # times of a page of prometheus_client, which OpenTelemetry has in each point
ADDED: Final = frozenset({"job", "instance", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url"})
SCRAPE_SECONDS: Final = 10.0


@pytest.fixture
def sink() -> Iterator[Collector]:
    """Takes what the collector hands on."""
    with running_sink() as found:
        yield found


@pytest.fixture
def collector(tmp_path: Path, sink: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorProcess]:
    """A collector to which every process of the test exports."""
    pipelines = yaml.safe_load(CONFIG.read_text())["service"]["pipelines"]
    exporters = {name: pipelines[name]["exporters"] for name in ("traces", "logs")}
    with running_collector(tmp_path / "collector", sink.endpoint, exporters) as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", EVERY_MS)
        for name, value in SETTINGS.items():
            monkeypatch.setenv(name, value)
        yield found


def families(page: str) -> set[tuple[str, str]]:
    """Names and types of the metrics of a page that have rows."""
    rows = {name for name, _ in ROW.findall(page)}
    with_rows = {family for name in rows for family in (name, *(name.removesuffix(each) for each in OF_HISTOGRAMS))}
    return {(name, kind) for name, kind in FAMILY.findall(page) if name in with_rows and not name.endswith(CREATED)}


def labelled(page: str) -> set[tuple[str, frozenset[str]]]:
    """Names of the samples of a page, each with the names of its labels; those that a collector adds are left out."""
    rows = ((name, frozenset(LABEL.findall(labels))) for name, labels in ROW.findall(page))
    return {(name, labels - ADDED) for name, labels in rows if not name.endswith(CREATED)}


def scrape(url: str) -> str:
    """The page that Prometheus would get of a service."""
    with urlopen(url, timeout=SCRAPE_SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def test_a_move_and_all_metrics_pass_a_real_collector(
    tmp_path: Path, collector: CollectorProcess, sink: Collector
) -> None:
    with ExitStack() as stack:
        mesh = stack.enter_context(running_mesh(tmp_path / "mesh", registries=1, assigners=1))
        root = move(stack, mesh.ready.endpoint, sink)
        for name in ("registry-0", "assigner-0"):
            own = scrape(mesh.ready.services[name].metrics)
            arrive(families(own), collector)
            assert not labelled(own) - labelled(collector.metrics())
    judge(sink, root)
    for signal in ("traces", "logs"):
        assert f'"otelcol.signal": "{signal}"' in collector.said(), "the exporter of deploy/ counts both"


def arrive(expected: set[tuple[str, str]], collector: CollectorProcess) -> None:
    """Waits until the collector serves these metrics; fails with those that have another name there, or none."""
    assert expected, "there are metrics"
    with contextlib.suppress(AssertionError):
        wait(lambda: expected <= families(collector.metrics()), "all metrics")
    missing = expected - families(collector.metrics())
    assert not missing


def test_refusals_pass_a_real_collector_as_logs(tmp_path: Path, collector: CollectorProcess, sink: Collector) -> None:
    asyncio.run(refused(tmp_path, sink))
    (log,) = refusals(sink)
    assert log.service == "braid-registry"
    assert log.attributes["user.id"] == ALICE
    assert (log.attributes["braid.audit.outcome"], log.attributes["error.type"]) == ("refused", "denied")


async def refused(directory: Path, sink: Collector) -> None:
    """Has a registry refuse a call of a caller without rights; returns when that has passed the collector."""
    processes = Processes(directory, Authority.make())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(processes.close)
        await processes.start("registry-0")
        alice = await client(stack, processes, "registry", ALICE)
        spec = grants.GrantSpec(principal=ALICE, role=grants.ACCESS_ROLE_ADMIN, reason="planted-reason")
        with pytest.raises(AccessDenied):
            await alice.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)
        await until(lambda: refusals(sink), lambda: f"a refusal among {sink.logs()}")


def refusals(sink: Collector) -> Sequence[SeenLog]:
    """Records of refused grants."""
    calls = [each for each in sink.logs() if each.event == "braid.audit.call"]
    return [each for each in calls if str(each.attributes.get("rpc.method", "")).endswith("/GrantAccess")]


def test_all_metrics_of_services_keep_names_and_labels(collector: CollectorProcess) -> None:
    registry = MetricRegistry()
    for declared in (each for _, some in metric_catalogue.services() for each in some):
        labels = tuple("x" for _ in declared.labels)
        if declared.kind == "histogram":
            made = histogram(registry, declared)
            (made.labels(*labels) if labels else made).observe(0.1)
        else:
            SampledMetric(registry, declared).replace({labels: 1.0})
    (data,) = metrics_data(registry, resource_of("braid-registry", "x"), 1, time.time_ns())
    exporter = OTLPMetricExporter(endpoint=collector.endpoint, insecure=True)
    assert exporter.export(data) is MetricExportResult.SUCCESS
    exporter.shutdown()
    page = generate_latest(registry).decode()
    arrive(families(page), collector)
    assert not labelled(page) - labelled(collector.metrics())


def test_the_sdks_metrics_have_the_names_that_boards_ask_for(collector: CollectorProcess) -> None:
    expected = families(exposition())
    exporter = OTLPMetricExporter(endpoint=collector.endpoint, insecure=True)
    provider = used_once(PeriodicExportingMetricReader(exporter))
    provider.force_flush()
    provider.shutdown()
    arrive(expected, collector)
