"""Seeds stay green, and one seed gives one run. Runs are subprocesses: only there is `PYTHONHASHSEED` ours."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FAULT_SECONDS: Final = 20.0  # 200 seeds see some 1,500 faults
FAULT_SECONDS_EXTENDED: Final = 60.0  # in `make test-all`, and in `make sim`


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the simulation from its command line."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(2400)  # by the wall, on a machine that gives a tenth of its time
def test_every_seed_is_green(pytestconfig: pytest.Config) -> None:
    seeds = pytestconfig.getoption("--sim-seeds")
    seconds = FAULT_SECONDS_EXTENDED if pytestconfig.getoption("--extended") else FAULT_SECONDS
    ended = simulate("--seeds", str(seeds), "--seconds", f"{seconds:g}")
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-2_000:]


@pytest.mark.slow
def test_a_seed_gives_the_same_run_byte_for_byte() -> None:
    first, second = simulate("--seed", "5", "--seconds", "20"), simulate("--seed", "5", "--seconds", "20")
    assert first.returncode == 0, first.stdout[-2_000:] + first.stderr[-2_000:]
    assert len(first.stdout.splitlines()) > 400
    assert first.stdout == second.stdout
    assert simulate("--seed", "6", "--seconds", "20").stdout != first.stdout
