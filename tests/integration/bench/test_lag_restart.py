"""The restart of a lag monitor is measured, at a hundredth of its size. How long it took is not asked."""

import math
from pathlib import Path

import pytest

from bench.harness.tables import Table
from tests.integration.bench.test_quick import run

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


def test_a_restart_is_measured_until_the_whole_view(tmp_path: Path) -> None:
    run("bench.lag_restart", tmp_path, "--quick")
    table = Table.read(tmp_path / "lag_restart.json")
    assert table.verdict, "a quick run may never be quoted"
    assert table.facts["work"].startswith("500 groups of 22 partitions on 10 clusters, ")
    lanes = int(table.facts["work"].split(" on 10 clusters, ")[1].split()[0].replace(",", ""))
    assert lanes >= 500, "each group has a lane"
    found = {row.name: row for row in table.rows}
    assert found.keys() == {"serves", "has the whole view", "fills its clusters, left out"}
    assert all(math.isfinite(row.wall_micros) and row.rounds == 1 for row in table.rows)
    assert found["has the whole view"].wall_micros > found["serves"].wall_micros > 0
    assert all(
        f"CPU of full garbage collections, {when}" in table.facts for when in ("until the whole view", "afterwards")
    )
