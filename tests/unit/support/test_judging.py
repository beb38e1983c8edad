"""Tests whose figures were missed on a starved machine run again, three times at most, and then fail."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.judging import NotJudged, judge

ROOT: Final = Path(__file__).resolve().parents[3]
CONFTEST: Final = """
from tests.conftest import pytest_report_teststatus, pytest_runtest_makereport, pytest_runtest_protocol, try_name

def pytest_configure(config):
    config.addinivalue_line("markers", "real: as in the suite")
"""
MODULE: Final = """
import pytest
from tests.support.judging import judge

pytestmark = pytest.mark.real
shares, names = {shares}, []

@pytest.fixture(scope="module")
def ground():
    yield []
    print("the ground is closed")

def test_late(ground, try_name):
    names.append(try_name("logs"))
    ground.append(1)
    judge(False if shares[len(names) - 1] is not None else True, shares[len(names) - 1] or 1.0, 0.9, "2 s")

def test_next(ground):
    assert names == {names} and len(ground) == len(names)
"""


def _play(directory: Path, shares: list[float | None], names: list[str]) -> str:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_module.py").write_text(MODULE.format(shares=shares, names=names))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--rootdir", str(directory), "."]
    answer = subprocess.run(command, cwd=directory, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    return answer.stdout + answer.stderr


def test_a_figure_that_is_reached_or_missed_is_judged() -> None:
    judge(True, 0.1, 0.9, "1 s")
    with pytest.raises(AssertionError, match=r"^2 s$"):
        judge(False, 0.9, 0.9, "2 s")
    with pytest.raises(NotJudged, match="the machine gave 50% of its time: 2 s"):
        judge(False, 0.5, 0.9, "2 s")


def test_a_test_is_repeated_until_it_is_judged(tmp_path: Path) -> None:
    said = _play(tmp_path, [0.5, 0.5, None], ["logs", "logs-2", "logs-3"])
    assert "2 passed, 2 repeated" in said, said


def test_three_times_not_judged_is_failed(tmp_path: Path) -> None:
    said = _play(tmp_path, [0.5, 0.5, 0.5], ["logs", "logs-2", "logs-3"])
    assert "1 failed, 1 passed, 2 repeated" in said and "not judged, the machine gave 50% of its time" in said, said


def test_a_figure_that_is_missed_on_a_calm_machine_fails_at_once(tmp_path: Path) -> None:
    said = _play(tmp_path, [1.0], ["logs"])
    assert "1 failed, 1 passed" in said and "repeated" not in said, said
