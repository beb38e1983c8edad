"""Measures what tests cost: processor seconds, those of all their processes too, and seconds by the wall.

`python -m tools.test_costs tests/integration/test_dlq.py …` runs pytest with these arguments and prints the files that
cost most, by either. It keeps what each test took in `build/costs.txt`: both figures, then the test. What a fixture
takes counts for the test that starts or ends it. A shared process counts for the test that runs at the time.

The processes of a test are all descendants of this one: it adopts those whose parents have ended
(`PR_SET_CHILD_SUBREAPER`, prctl(2)). With `--numprocesses` each worker adopts those of its own tests. It does not
collect them, so that a test that looks for a process which has ended may fail there. Needs Linux.
"""

import ctypes
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic  # tests patch `time.monotonic`
from typing import Final, NamedTuple

import pytest

from tools.seconds_spent import read_seconds

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = "build/costs.txt"  # below the checkout
SHOWN: Final = 60
_PROPERTY: Final = "cost"
_ABOVE: Final = "BRAID_TESTS_BELOW"  # the process whose descendants count
_WORKER: Final = "PYTEST_XDIST_WORKER"
_ADOPT: Final = 36  # PR_SET_CHILD_SUBREAPER
_TICK: Final = os.sysconf("SC_CLK_TCK")
_PRINTED: Final = re.compile(r"^cost +([\d.]+) +([\d.]+) +(\S+)$", re.MULTILINE)


class Cost(NamedTuple):
    """Seconds of processors, and by the wall."""

    processor: float
    wall: float

    def plus(self, other: "Cost") -> "Cost":
        """The sum of both."""
        return Cost(self.processor + other.processor, self.wall + other.wall)

    def since(self, earlier: "Cost") -> "Cost":
        """The cost after an earlier reading; a process that ends unseen takes its seconds with it."""
        return Cost(max(0.0, self.processor - earlier.processor), self.wall - earlier.wall)


def processor_seconds(above: int, proc: Path = Path("/proc")) -> float:
    """The seconds of a process and all below it, with ended children that each waited for (proc_pid_stat(5))."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for each in proc.iterdir():
        if not each.name.isdecimal():
            continue
        with suppress(OSError):
            state = (each / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children[int(state[1])].append(int(each.name))
            ticks[int(each.name)] = sum(int(state[column]) for column in range(11, 15))
    below = [above]
    for process in below:
        below += children[process]
    return sum(ticks.get(process, 0) for process in below) / _TICK


def adopt_orphans() -> None:
    """Makes this process the parent of all below it whose own parents end."""
    ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)


def read_cost(above: int | None) -> Cost:
    """The present reading: of all processes below one, or of this one and its ended children."""
    if above is not None:
        return Cost(processor_seconds(above), monotonic())
    return Cost(read_seconds().processor, monotonic())


class Summing:
    """Adds to each report what it cost, and prints the sums of all tests at the end."""

    def __init__(self) -> None:
        """Begins with the first test."""
        above = os.environ.get(_ABOVE)  # read once: tests patch the environment
        if above and _WORKER in os.environ:
            adopt_orphans()
            above = f"{os.getpid()}"
        self._above = int(above) if above else None
        self._last = read_cost(self._above)
        self._costs: defaultdict[str, Cost] = defaultdict(lambda: Cost(0.0, 0.0))

    def pytest_collection_finish(self) -> None:
        """Begins anew: what collecting took is no test's."""
        self._last = read_cost(self._above)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds the cost since the report before."""
        report = yield
        now, before = read_cost(self._above), self._last
        self._last = now
        report.user_properties = [*report.user_properties, (_PROPERTY, [*now.since(before)])]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sums a test's setup, call and teardown, those of workers too."""
        for name, value in report.user_properties:
            if name == _PROPERTY and isinstance(value, list):
                self._costs[report.nodeid] = self._costs[report.nodeid].plus(Cost(*value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints a line for each test."""
        for test, cost in sorted(self._costs.items()):
            terminalreporter.write_line(f"cost {cost.processor:.3f} {cost.wall:.3f} {test.replace(' ', '_')}")


def pytest_configure(config: pytest.Config) -> None:
    """Measures from here on."""
    config.pluginmanager.register(Summing())


def costs_of(printed: str) -> Mapping[str, Cost]:
    """The costs that a run printed, by test."""
    return {test: Cost(float(processor), float(wall)) for processor, wall, test in _PRINTED.findall(printed)}


def by_file(costs: Mapping[str, Cost]) -> Mapping[str, Cost]:
    """The sums over the tests of each file."""
    sums: defaultdict[str, Cost] = defaultdict(lambda: Cost(0.0, 0.0))
    for test, cost in costs.items():
        file = test.partition("::")[0]
        sums[file] = sums[file].plus(cost)
    return sums


def table(costs: Mapping[str, Cost]) -> Iterable[str]:
    """Lines that show which cost most processor time, which take longest, and the sum."""
    for what, column in (("processor", 0), ("wall", 1)):
        yield f"most seconds, by {what}:"
        for name, cost in sorted(costs.items(), key=lambda each: -each[1][column])[:SHOWN]:
            yield f"{cost.processor:8.1f} {cost.wall:8.1f}  {name}"
    whole = Cost(sum(each.processor for each in costs.values()), sum(each.wall for each in costs.values()))
    yield f"{whole.processor:8.1f} {whole.wall:8.1f}  all"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Runs pytest below this process, prints a table, and returns pytest's exit code."""
    adopt_orphans()
    environment = {**os.environ, _ABOVE: str(os.getpid())}
    environment.pop(_WORKER, None)  # of another run, in whose test this runs
    command = [sys.executable, "-m", "pytest", "-p", "tools.test_costs", *arguments]
    kept = root / KEPT
    printed = kept.with_suffix(".log")
    kept.parent.mkdir(exist_ok=True)
    with printed.open("w", encoding="utf-8") as file:
        tests = subprocess.Popen(command, cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT)
        code = _reap_until(tests.pid)
    costs = costs_of(printed.read_text(encoding="utf-8"))
    kept.write_text("".join(f"{cost.processor:.3f} {cost.wall:.3f} {test}\n" for test, cost in costs.items()))
    print(*table(by_file(costs)), f"pytest ended with {code}, and printed into {printed.relative_to(root)}", sep="\n")
    return code


def _reap_until(tests: int) -> int:
    """Waits for the tests, and for adopted processes: a test that looks for one must not find its remains."""
    while True:
        ended, status = os.wait()
        if ended == tests:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
