"""Lists slow unit and contract tests, so that `make quick` leaves them to `make test`.

`python -m tools.slow_tests` runs them, prints the slowest twenty, and writes `tests/slow_tests.txt`: a test per line,
without its parameters. `tests/conftest.py` marks those `slow`. `tools.seconds_spent` measures: what else the machine
does changes little of what it finds. It says how far it is, and ends after an hour at most.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIST: Final = ROOT / "tests" / "slow_tests.txt"
SLOW_SECONDS: Final = 0.08  # of all cases of one test together
SLOWEST_SHOWN: Final = 20
SECONDS_MAX: Final = 3_600.0  # ten minutes on two cores that do nothing else
PERCENT_SHOWN: Final = 5  # between two words of how far it is
_PYTEST: Final = (
    *("--quiet", "--numprocesses=2", "--dist=worksteal", "-p", "tools.seconds_spent"),
    *("-m", "not real", "--hypothesis-profile", "quick"),
)
_ALL_RAN: Final = (0, 1)  # exit codes of pytest: all passed, or some failed
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?::[\w:]+)", re.MULTILINE)
_PERCENT: Final = re.compile(r" \[ *(\d+)%\]$")
_SPENT: Final = re.compile(r"([\d.]+)s spent in +(\S+?::[\w:]+)")


def seconds_by_test(printed: str) -> Mapping[str, float]:
    """Sums printed seconds by test: all its cases, with their setup and teardown."""
    found: defaultdict[str, float] = defaultdict(float)
    for seconds, test in _SPENT.findall(printed):
        found[test] += float(seconds)
    return found


def slow(seconds: Mapping[str, float]) -> list[str]:
    """The tests that are too slow for `make quick`, sorted."""
    return sorted(test for test, taken in seconds.items() if taken >= SLOW_SECONDS)


def read(lines: Iterable[str]) -> frozenset[str]:
    """The tests in a list; lines that begin with # are comments."""
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def listed_anew(printed: str, before: Collection[str]) -> list[str]:
    """The next list, sorted: what a run found slow; tests that failed in it keep their place, in the list or not."""
    failed = set(_FAILED.findall(printed))
    found = set(slow(seconds_by_test(printed)))
    return sorted((found - failed) | (failed & set(before)))


def run_within(command: Sequence[str], seconds: float, say: Callable[[str], None] = print) -> tuple[int, str]:
    """Runs tests and says how far they are; returns their exit code and what they printed.

    Raises:
        TimeoutError: They took longer, and were ended.
    """
    lines = list[str]()
    shown = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tests:
        assert tests.stdout is not None, "asked for above"
        watch = Timer(seconds, tests.terminate)
        watch.start()
        for line in tests.stdout:
            lines.append(line)
            if (percent := _PERCENT.search(line)) and int(percent[1]) >= shown + PERCENT_SHOWN:
                shown = int(percent[1])
                say(f"{shown} % of the tests have run")
        watch.cancel()
        code = tests.wait()
    if code < 0:
        raise TimeoutError(f"the tests took longer than {seconds:g} s, and were ended at {shown} %")
    return code, "".join(lines)


def main() -> int:
    """Measures and writes the list; returns pytest's exit code, and writes nothing where it did not run all tests."""
    command = [sys.executable, "-m", "pytest", *_PYTEST, "tests/unit", "tests/contract"]
    try:
        code, printed = run_within(command, SECONDS_MAX)
    except TimeoutError as error:
        print(error, file=sys.stderr)
        return 1
    seconds = seconds_by_test(printed)
    if code not in _ALL_RAN or not seconds:
        print(printed[-4_000:])
        return code or 1
    for test, taken in sorted(seconds.items(), key=lambda each: -each[1])[:SLOWEST_SHOWN]:
        print(f"{taken:6.1f} s  {test}")
    found = listed_anew(printed, read(LIST.read_text(encoding="utf-8").splitlines()))
    head = "# Tests that `make quick` leaves to `make test`; written by `make slow-tests`."
    LIST.write_text("\n".join([head, *found]) + "\n", encoding="utf-8")
    print(f"{len(found)} tests take {SLOW_SECONDS:g} s or more and are in {LIST.relative_to(ROOT)}")
    for test in sorted(set(_FAILED.findall(printed))):
        print(f"failed, and stays where it was: {test}")
    return code


if __name__ == "__main__":
    sys.exit(main())
