"""Seeds stay green, and one seed gives one run. Runs are subprocesses: only there is `PYTHONHASHSEED` ours."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.__main__ import FAULTS
from tests.simulation.plan import FAULTS_ALL, plan_of

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 32  # enough for every kind of fault and every setting
SEEDS_EXTENDED: Final = 200
FAULT_SECONDS: Final = 20.0
FAULT_SECONDS_EXTENDED: Final = 60.0  # in `make test-all`, and in `make sim`
FAULTS_USUAL: Final = (*FAULTS_ALL, "split-lease", "sink-away")
OF_EACH_KIND: Final = 3
SETTINGS: Final = (
    *("exclusive", "lease_seconds", "handling_seconds", "fault_interval_seconds"),
    *("mates", "metadata_units", "clusters", "remembers"),
)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the simulation from its command line."""
    command, environment = [sys.executable, "-m", "tests.simulation", *arguments], {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def made(told: str) -> dict[str, int]:
    """How many faults of each kind a command made, as it says."""
    [line] = [line.removeprefix(FAULTS) for line in told.splitlines() if line.startswith(FAULTS)]
    return {kind: int(count) for kind, count in (each.split() for each in line.split(", "))}


@pytest.mark.timeout(2400)  # by the wall, on a machine that gives a tenth of its time
def test_every_seed_is_green(pytestconfig: pytest.Config) -> None:
    extended, asked = pytestconfig.getoption("--extended"), pytestconfig.getoption("--sim-seeds")
    seeds = asked or (SEEDS_EXTENDED if extended else SEEDS)
    seconds = FAULT_SECONDS_EXTENDED if extended else FAULT_SECONDS
    ended = simulate("--seeds", str(seeds), "--seconds", f"{seconds:g}")
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-2_000:]
    few = {kind: count for kind in FAULTS_USUAL if (count := made(ended.stdout).get(kind, 0)) < OF_EACH_KIND}
    assert asked or not few, f"it proves less than it says: {few}"


def test_the_usual_seeds_draw_every_setting_of_a_plan() -> None:
    plans = [plan_of(seed, FAULT_SECONDS) for seed in range(SEEDS)]
    for setting in SETTINGS:
        drawn = {getattr(plan_of(seed), setting) for seed in range(SEEDS_EXTENDED)}
        seen = Counter(getattr(plan, setting) for plan in plans)
        assert set(seen) == drawn and min(seen.values()) >= OF_EACH_KIND, f"{setting}: {seen}"


@pytest.mark.slow
def test_a_seed_gives_the_same_run_byte_for_byte() -> None:
    first, second = simulate("--seed", "5", "--seconds", "10"), simulate("--seed", "5", "--seconds", "10")
    assert first.returncode == 0, first.stdout[-2_000:] + first.stderr[-2_000:]
    assert len(first.stdout.splitlines()) > 200
    assert first.stdout == second.stdout
    assert simulate("--seed", "6", "--seconds", "10").stdout != first.stdout
