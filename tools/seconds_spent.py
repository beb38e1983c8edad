"""A plugin for pytest that measures what each test takes, whatever else the machine does meanwhile.

A test counts by the processor time of its process and of ended children, or by the wall, whichever is more: a test that
sleeps is slow, too. The wall does not count while its thread could run and no core was free. Linux tells that in
`/proc/thread-self/schedstat`; elsewhere all of it counts. Under pytest-xdist each worker measures its own tests.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from time import monotonic, process_time  # tests patch `time.monotonic`
from typing import Final, NamedTuple

import pytest

PROPERTY: Final = "seconds spent"
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")
_NANOSECONDS: Final = 1e9


class Reading(NamedTuple):
    """Seconds so far, by the processor and by the wall."""

    processor: float
    wall: float

    def since(self, earlier: "Reading") -> float:
        """The seconds that passed since an earlier reading."""
        return max(self.processor - earlier.processor, self.wall - earlier.wall)


class Stopwatch:
    """Measures from one report of a test to the next."""

    def __init__(self) -> None:
        """Begins now."""
        self._last = read_seconds()

    def lap(self) -> float:
        """The seconds since the last call."""
        now, before = read_seconds(), self._last
        self._last = now
        return now.since(before)


def read_seconds() -> Reading:
    """The present reading, of this process and the calling thread."""
    times = os.times()
    return Reading(
        process_time() + times.children_user + times.children_system,
        monotonic() - waited_for_a_core(),
    )


def waited_for_a_core(schedstat: Path = _SCHEDSTAT) -> float:
    """Seconds in which this thread could run and did not; 0 where the system does not tell."""
    try:
        return int(schedstat.read_text().split()[1]) / _NANOSECONDS
    except (OSError, IndexError):
        return 0.0


class Summing:
    """Adds to each report what it took, and prints the sums of all tests at the end."""

    def __init__(self) -> None:
        """Begins with the first test."""
        self._watch = Stopwatch()
        self._spent: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self) -> None:
        """Begins anew: what collecting took is no test's."""
        self._watch.lap()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Adds what was spent since the report before."""
        report = yield
        report.user_properties = [*report.user_properties, (PROPERTY, self._watch.lap())]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sums a test's setup, call and teardown, those of workers too."""
        self._spent[report.nodeid] += sum(
            float(str(value)) for name, value in report.user_properties if name == PROPERTY
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints a line for each test."""
        for test, seconds in sorted(self._spent.items()):
            terminalreporter.write_line(f"{seconds:.3f}s spent in {test}")


def pytest_configure(config: pytest.Config) -> None:
    """Measures from here on."""
    config.pluginmanager.register(Summing())
