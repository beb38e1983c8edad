"""Each benchmark runs, quickly, and writes tables that are sound in form. What it measured is not asked."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench.harness.tables import Table

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.timeout(1_200)]

HANGS_SECONDS: Final = 1_000.0  # by the wall
TABLES: Final = (
    "acks",
    "concurrency-100",
    "concurrency-1000",
    "consume",
    "envelope",
    "flood",
    "poison",
    "produce",
    "commit-1",
    "commit-100",
    "lag_decode",
    "placement",
    "spark-batch",
    "spark-micro",
)
USUAL: Final = {"placement": ["placement"], "commit": ["commit-1", "commit-100"]}  # one plays alone, one with a broker
LONG: Final = {name: [name] for name in ("repartition", "healthy")}  # minutes each
BY_THEMSELVES: Final = [
    *(pytest.param(*each, id=each[0]) for each in USUAL.items()),
    *(pytest.param(*each, id=each[0], marks=pytest.mark.extended) for each in LONG.items()),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tables of all benchmarks, by name: one run, for all of them share a broker, a mesh and a Spark."""
    directory = tmp_path_factory.mktemp("bench")
    run("bench.quick", directory)
    return {path.stem: path for path in directory.iterdir()}


def run(module: str, directory: Path, *options: str) -> None:
    """Runs benchmarks that write their tables into a directory."""
    command = [sys.executable, "-m", module, *options, "--into", str(directory)]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANGS_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stdout


def check_sound(path: Path) -> Table:
    """A table whose figures are figures, and which says that it may not be quoted."""
    table = Table.read(path)
    assert {"command", "commit", "machine", "versions"} <= table.made_with.keys()
    assert "peer" in table.facts
    for row in table.rows:
        assert row.rounds == 1
        assert all(math.isfinite(each) and each > 0 for each in (row.cpu_micros, row.wall_micros, row.low))
    assert next(row.ratio for row in table.rows) == 1.0
    assert json.loads(path.read_text())["verdict"], "a quick run may never be quoted"
    return table


@pytest.mark.extended
def test_every_benchmark_wrote_its_tables(written: dict[str, Path]) -> None:
    assert sorted(written) == sorted(TABLES)


@pytest.mark.extended
@pytest.mark.parametrize("name", TABLES)
def test_its_tables_are_sound(name: str, written: dict[str, Path]) -> None:
    check_sound(written[name])


@pytest.mark.parametrize(("name", "tables"), BY_THEMSELVES)
def test_a_benchmark_runs_by_itself(name: str, tables: list[str], tmp_path: Path) -> None:
    run(f"bench.{name}", tmp_path, "--quick")
    assert sorted(path.stem for path in tmp_path.iterdir()) == tables
    for table in tables:
        fate = Table.read(tmp_path / f"{table}.json").facts.get("fate", " 0 lost")
        assert " 0 lost" in fate, f"what was acknowledged is never lost: {fate}"
    if name in USUAL:
        for table in tables:
            check_sound(tmp_path / f"{table}.json")
