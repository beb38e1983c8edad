"""Costs of tests: processor seconds of all processes below one, those that were adopted and those that have ended."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import test_costs
from tools.test_costs import Cost


def a_process(proc: Path, pid: int, parent: int, ticks: Sequence[int]) -> None:
    """Writes what the kernel tells of a process; its name holds what could be taken for columns."""
    (proc / f"{pid}").mkdir(parents=True)
    columns = ["S", f"{parent}", *["0"] * 9, *(f"{each}" for each in ticks), "20", "0"]
    (proc / f"{pid}" / "stat").write_text(f"{pid} (a (b) c 1 2) {' '.join(columns)}\n")


def test_all_below_a_process_count_with_their_ended_children(tmp_path: Path) -> None:
    hundredth = os.sysconf("SC_CLK_TCK") // 100
    a_process(tmp_path, 7, 1, [100 * hundredth, 0, 0, 0])
    a_process(tmp_path, 8, 7, [0, 20 * hundredth, 0, 0])
    a_process(tmp_path, 9, 8, [0, 0, 3 * hundredth, 1 * hundredth])
    a_process(tmp_path, 10, 1, [9_000, 0, 0, 0])
    (tmp_path / "self").mkdir()
    (tmp_path / "11").mkdir()  # it ended while the others were read
    assert test_costs.processor_seconds(7, tmp_path) == 1.24
    assert test_costs.processor_seconds(12, tmp_path) == 0.0


def test_costs_are_read_as_printed_and_summed_by_file() -> None:
    printed = (
        "cost 1.500 2.000 tests/a.py::test_x[1]\ncost 0.500 9.000 tests/a.py::test_y\ncost 3.000 3.000 tests/b.py::z\n"
    )
    found = test_costs.by_file(test_costs.costs_of(printed))
    assert found == {"tests/a.py": Cost(2.0, 11.0), "tests/b.py": Cost(3.0, 3.0)}
    lines = [*test_costs.table(found)]
    assert [line.split()[-1] for line in lines[1:3]] == ["tests/b.py", "tests/a.py"], "by processor"
    assert [line.split()[-1] for line in lines[4:6]] == ["tests/a.py", "tests/b.py"], "by wall"


@pytest.mark.parametrize("options", [[], ["--numprocesses=1"]], ids=["alone", "in a worker"])
def test_a_test_counts_what_an_orphan_of_it_takes(tmp_path: Path, options: list[str]) -> None:
    """Pytest cannot wait for the orphan, because it is no child of pytest."""
    busy = "import time\nwhile time.process_time() < 0.4: pass\nopen('done', 'w')"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
    works = (
        f"    subprocess.run([sys.executable, '-c', {parent!r}])",
        "    while not os.path.exists('done'): time.sleep(0.01)",
    )
    tests = ("import os, subprocess, sys, time", "def test_works():", *works, "def test_idles(): time.sleep(0.2)")
    (tmp_path / "test_two.py").write_text("\n".join(tests))
    root, given = "pathlib.Path(sys.argv[1])", ["-q", *options]
    run = f"import pathlib, sys\nfrom tools.test_costs import main\nsys.exit(main({given}, {root}))"
    environment = {**os.environ, "PYTHONPATH": str(test_costs.ROOT)}
    command = [sys.executable, "-c", run, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    costs = {}
    for line in (tmp_path / test_costs.KEPT).read_text().splitlines():
        processor, wall, test = line.split()
        costs[test.partition("::")[2]] = Cost(float(processor), float(wall))
    assert costs["test_works"].processor >= 0.4
    assert costs["test_idles"].processor < 0.4
    assert costs["test_idles"].wall >= 0.2
