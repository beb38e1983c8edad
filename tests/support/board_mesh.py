"""Runs every query of every board against a real Prometheus that scrapes a real mesh."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid
from testbed.patience import until
from testbed.prometheus.server import Prometheus, prometheus
from tests.support.board_queries import BoardQuery, queries
from tests.support.sdk_exposition import served

RULES: Final = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "recording.yml"
RECORDED: Final = "method:braid_rpc_seconds:p99_rate5m"
# Rates need two scrapes; the mesh is busy from the pages that ran before, or at least with its own calls.
BUSY: Final = "sum(rate(braid_rpc_seconds_count[1m])) > 0"
# Of samples whose family has another name: of histograms, and of counters as OpenMetrics writes them.
SUFFIXES: Final = {"_bucket": "histogram", "_sum": "histogram", "_count": "histogram", "_total": "counter"}


def failures(directory: Path, urls: Sequence[str]) -> list[str]:
    """Returns what is wrong with the boards of a mesh that serves its metrics at `urls`; nothing, if all is well."""
    return asyncio.run(_failures(directory, urls))


async def _failures(directory: Path, urls: Sequence[str]) -> list[str]:
    with served() as applications:
        async with prometheus(directory, [*urls, applications], [RULES]) as server:
            await until(lambda: server.query(BUSY), "rates of a mesh")
            await until(lambda: server.query(RECORDED), f"rows of {RECORDED}; {server.rules()}")
            rules = [f"{name}: {health}" for name, health in server.rules().items() if health != "ok"]
            return wrong_queries(server, list(queries())) + rules


def wrong_queries(server: Prometheus, asked: Sequence[BoardQuery]) -> list[str]:
    """Returns queries that Prometheus refuses, and names of metrics that no scraped process has."""
    has = server.metadata()
    found: list[str] = []
    for query in asked:
        where = f"{query.board}, {query.panel}"
        try:
            server.query(query.runnable())
        except Invalid as error:
            found.append(f"{where}: {error.message}")
        for name in sorted(query.names()):
            if not serves(has, name):
                found.append(f"{where}: nobody serves {name}")
    return found


def serves(has: Mapping[str, str], name: str) -> bool:
    """Whether a sample is one of the families that were scraped (types by name)."""
    families = ((name.removesuffix(suffix), kind) for suffix, kind in SUFFIXES.items() if name.endswith(suffix))
    return name in has or any(has.get(family) == kind for family, kind in families)
