"""The benchmark of all groups' lag runs, with few groups, and all answers agree. It asserts no speed."""

from pathlib import Path

import pytest

from bench.all_lag import SHOWN
from tests.integration.bench.test_quick import check_sound, run

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


def test_every_answer_has_the_lag_of_all_groups(tmp_path: Path) -> None:
    run("bench.all_lag", tmp_path, "--quick")  # it fails where an answer lacks a row, or has another lag
    table = check_sound(tmp_path / "all_lag.json")
    assert tuple(row.name for row in table.rows) == SHOWN
    assert table.facts["work"].startswith("40 groups with 160 committed offsets")
