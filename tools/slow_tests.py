"""Lists slow unit and contract tests, so that `make quick` leaves them to `make test`.

`python -m tools.slow_tests` runs them, prints the slowest twenty, and writes `tests/slow_tests.txt`: a test per line,
without its parameters. `tests/conftest.py` marks those `slow`. `tools.seconds_spent` measures: what else the machine
does changes little of what it finds.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIST: Final = ROOT / "tests" / "slow_tests.txt"
SLOW_SECONDS: Final = 0.1  # of all cases of one test together
SLOWEST_SHOWN: Final = 20
_PYTEST: Final = (
    *("--quiet", "--numprocesses=2", "--dist=worksteal", "-p", "tools.seconds_spent"),
    *("-m", "not real", "--hypothesis-profile", "quick"),
)
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


def main() -> int:
    """Measures and writes the list; returns pytest's exit code, and writes nothing if tests failed."""
    command = [sys.executable, "-m", "pytest", *_PYTEST, "tests/unit", "tests/contract"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-4_000:], done.stderr, sep="\n")
        return done.returncode
    seconds = seconds_by_test(done.stdout)
    for test, taken in sorted(seconds.items(), key=lambda each: -each[1])[:SLOWEST_SHOWN]:
        print(f"{taken:6.1f} s  {test}")
    found = slow(seconds)
    head = "# Tests that `make quick` leaves to `make test`; written by `make slow-tests`."
    LIST.write_text("\n".join([head, *found]) + "\n", encoding="utf-8")
    print(f"{len(found)} tests take {SLOW_SECONDS:g} s or more and are in {LIST.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
