"""A collector that runs the configuration of deploy/, on free ports, and hands on all that it receives."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from braid.kernel.errors import Unavailable
from devmesh.processes.guard import end_guarded, spawn_guarded
from testbed.collector.binary import collector_binary
from testbed.patience import wait
from testbed.ports import free_port

CONFIG: Final = Path(__file__).resolve().parents[2] / "deploy" / "collector" / "braid.yml"
START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 10.0
_LOCAL: Final = "127.0.0.1"
_SERVES: Final = "Everything is ready"


class CollectorProcess:
    """A running collector, with its addresses.

    Attributes:
        endpoint: Where it takes OTLP over gRPC.
        http_endpoint: Where it takes OTLP over HTTP.
        log: What it and its exporter `debug` say.
    """

    def __init__(self, log: Path) -> None:
        ports = {name: free_port() for name in ("grpc", "http", "metrics")}
        self.endpoint = f"http://{_LOCAL}:{ports['grpc']}"
        self.http_endpoint = f"http://{_LOCAL}:{ports['http']}"
        self.log = log
        self._ports = ports

    @property
    def page(self) -> str:
        """The address of the page that Prometheus would scrape."""
        return f"http://{_LOCAL}:{self._ports['metrics']}/metrics"

    def metrics(self) -> str:
        """Returns the page of its exporter `prometheus`, as text."""
        with urlopen(self.page, timeout=CALL_SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    def said(self) -> str:
        """Returns what it logged so far."""
        return self.log.read_text() if self.log.exists() else ""

    def differences(self, handed_on: str, exporters: Mapping[str, Sequence[str]]) -> dict[str, object]:
        """Returns a second configuration, which changes ports in that of deploy/, and adds an exporter to pipelines.

        Args:
            handed_on: The address to which it hands on, by OTLP over gRPC.
            exporters: Of the pipelines that hand it on, by their names: a configuration replaces lists as a whole.
        """
        return {
            "receivers": {
                "otlp": {
                    "protocols": {name: {"endpoint": f"{_LOCAL}:{self._ports[name]}"} for name in ("grpc", "http")}
                }
            },
            "exporters": {
                "prometheus": {"endpoint": f"{_LOCAL}:{self._ports['metrics']}"},
                "otlp_grpc": {"endpoint": handed_on.removeprefix("http://"), "tls": {"insecure": True}},
            },
            "service": {
                "telemetry": {"metrics": {"level": "none"}},  # its own would be served on a fixed port
                "pipelines": {name: {"exporters": [*others, "otlp_grpc"]} for name, others in exporters.items()},
            },
        }


@contextmanager
def running_collector(
    directory: Path, handed_on: str, exporters: Mapping[str, Sequence[str]]
) -> Iterator[CollectorProcess]:
    """Runs a collector until the block ends.

    Args:
        directory: Where its second configuration and its log go.
        handed_on: The address to which it hands on, by OTLP over gRPC.
        exporters: Those that pipelines of deploy/ have, by the names of the pipelines that hand on what passed.

    Raises:
        Unavailable: it refused its configuration; says what it logged.
    """
    directory.mkdir(parents=True, exist_ok=True)
    collector, changed = CollectorProcess(directory / "collector.log"), directory / "changed.yml"
    changed.write_text(json.dumps(collector.differences(handed_on, exporters)))  # which is YAML, too
    command = [str(collector_binary()), *(f"--config={each}" for each in (CONFIG, changed))]
    process = spawn_guarded(command, collector.log)
    try:
        wait(lambda: _SERVES in collector.said() or process.poll() is not None, "a collector", START_SECONDS, poll=0.1)
        if process.poll() is not None:
            raise Unavailable(f"the collector ended while starting: {collector.said()}")
        yield collector
    finally:
        end_guarded(process, CALL_SECONDS)
