"""The load tool of the timeline runs, with few events. How smooth the page was is not asked."""

import re
from pathlib import Path

import pytest

from bench.harness.tables import Table
from tests.integration.bench.test_quick import run

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


def test_a_timeline_is_measured_while_it_grows(tmp_path: Path) -> None:
    run("bench.console_timeline", tmp_path, "--quick")
    table = Table.read(tmp_path / "console_timeline.json")
    assert table.verdict, "a quick run may never be quoted"
    assert int(table.facts["work"].split()[0].replace(",", "")) >= 1_500
    assert {row.name for row in table.rows} == {"500 older events loaded", "a decision, seen above all others"}
    tasks = re.search(r"of ([\d,]+) tasks", table.facts["scroll"])
    assert tasks is not None
    assert int(tasks[1].replace(",", "")) > 60, "each turn of the wheel is a task of the page at least"
    held, whole = (int(each) for each in re.findall(r"(\d+) MB", table.facts["tab"]))
    assert 1 <= held < whole < 2_000, "megabytes of scripts, and of the process that runs them"
