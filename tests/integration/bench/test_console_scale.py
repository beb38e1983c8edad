"""The load tool of the console runs, at a hundredth of its size. How fast the console was is not asked."""

import math
import re
from pathlib import Path

import pytest

from bench.harness.tables import Table
from tests.integration.bench.test_quick import run

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

PAGES = ("overview", "groups", "a group", "streams", "events")
CHANGES = (
    "lag changed, seen among all groups",
    "group changed, seen among all groups",
    "lag changed, seen on the group's page",
    "groups: the last row after a jump",
)


def test_each_page_is_measured_before_real_services(tmp_path: Path) -> None:
    run("bench.console_scale", tmp_path, "--quick")
    table = Table.read(tmp_path / "console_scale.json")
    assert table.verdict, "a quick run may never be quoted"
    assert table.facts["work"].startswith("500 groups with 11,000 leases")
    found = {row.name: row for row in table.rows}
    assert found.keys() >= {*CHANGES, *(f"{page}: {what}" for page in PAGES for what in ("first paint", "its content"))}
    assert all(math.isfinite(row.wall_micros) and row.wall_micros > 0 for row in table.rows)
    assert all(found[f"{page}: first paint"].wall_micros < 60e6 for page in PAGES)
    assert int(table.facts["timeline"].split()[0].replace(",", "")) >= 1_000
    for scroll in ("scroll of groups", "scroll of timeline"):
        tasks = re.search(r"of ([\d,]+) tasks", table.facts[scroll])
        assert tasks is not None
        assert int(tasks[1].replace(",", "")) > 60, "each turn of the wheel is a task of the page at least"
    assert 20 < int(table.facts["console"].split()[0]) < 2_000, "megabytes of a process"
