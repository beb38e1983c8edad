"""A Prometheus server that scrapes given addresses, and answers about what it scraped."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from braid.kernel.errors import Invalid
from devmesh.processes.guard import end_guarded, spawn_guarded
from testbed.patience import until
from testbed.ports import free_port
from testbed.prometheus.binaries import prometheus_binaries

START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 10.0


class Prometheus:
    """Answers of a running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[Mapping[str, object]]:
        """Returns the series of a query, now.

        Raises:
            Invalid: it is not PromQL, or cannot be computed; with what the server says.
        """
        answer = self._get("query", {"query": expr})
        found = answer["result"] if isinstance(answer, dict) else []
        return found if isinstance(found, list) else []

    def metadata(self) -> dict[str, str]:
        """Returns the types of all metrics that the scraped processes declare, by name: those without rows, too."""
        answer = self._get("targets/metadata", {})
        return {each["metric"]: each["type"] for each in answer} if isinstance(answer, list) else {}

    def rules(self) -> dict[str, str]:
        """Returns what became of each rule at its last evaluation, by name: `ok`, `unknown` or an error."""
        answer = self._get("rules", {})
        groups = answer["groups"] if isinstance(answer, dict) else []
        return {rule["name"]: rule.get("lastError") or rule["health"] for group in groups for rule in group["rules"]}

    def scraped(self) -> bool:
        """Whether every target was scraped without an error."""
        answer = self._get("targets", {"state": "active"})
        targets = answer["activeTargets"] if isinstance(answer, dict) else []
        return bool(targets) and all(each["health"] == "up" for each in targets)

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urlopen(f"{self.url}/-/ready", timeout=CALL_SECONDS) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def _get(self, what: str, parameters: Mapping[str, str]) -> object:
        try:
            with urlopen(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=CALL_SECONDS) as answer:
                told: dict[str, object] = json.load(answer)
        except HTTPError as error:
            raise Invalid(json.load(error)["error"], field="query", remedy="see the query") from error
        return told["data"]


@asynccontextmanager
async def prometheus(directory: Path, urls: Sequence[str], rules: Sequence[Path] = ()) -> AsyncIterator[Prometheus]:
    """Runs a server that scrapes these addresses every second, until every one of them was scraped and beyond.

    Args:
        directory: Where its data and its log go.
        urls: Of `/metrics` pages, in plain text.
        rules: Files of rules that it evaluates every second.
    """
    port = free_port()
    config = directory / "prometheus.yml"
    targets = [urlsplit(url).netloc for url in urls]
    config.write_text(json.dumps({  # which is YAML, too
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "braid", "static_configs": [{"targets": targets}]}],
    }))  # fmt: skip
    command = [
        *(str(prometheus_binaries().prometheus), f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"),
        *(f"--storage.tsdb.path={directory / 'data'}", "--log.level=warn"),
    ]
    process = spawn_guarded(command, directory / "prometheus.log")
    server = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await until(server.ready, lambda: f"Prometheus; {(directory / 'prometheus.log').read_text()}", START_SECONDS)
        await until(server.scraped, "all targets scraped", START_SECONDS)
        yield server
    finally:
        end_guarded(process, CALL_SECONDS)
