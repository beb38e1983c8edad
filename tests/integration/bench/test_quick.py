"""Each benchmark runs, quickly, and writes tables that are sound in form. What it measured is not asked."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tables import Table

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

TABLES = {
    "consume": ["consume"],
    "produce": ["produce"],
    "commit": ["commit-1", "commit-100"],
    "lag_decode": ["lag_decode"],
    "placement": ["placement"],
    "spark": ["spark-batch"],
    "spark_micro": ["spark-micro"],
}


@pytest.mark.parametrize("name", TABLES)
def test_it_runs_and_its_tables_are_sound(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"bench.{name}", "--quick", "--into", str(tmp_path)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800, check=False)
    assert ran.returncode == 0, ran.stdout
    assert sorted(path.stem for path in tmp_path.iterdir()) == TABLES[name]
    for path in tmp_path.iterdir():
        table = Table.read(path)
        assert {"command", "commit", "machine", "versions"} <= table.made_with.keys()
        assert "peer" in table.facts
        for row in table.rows:
            assert row.rounds == 1
            assert all(math.isfinite(each) and each > 0 for each in (row.cpu_micros, row.wall_micros, row.low))
        assert next(row.ratio for row in table.rows) == 1.0
        assert json.loads(path.read_text())["verdict"], "a quick run may never be quoted"
