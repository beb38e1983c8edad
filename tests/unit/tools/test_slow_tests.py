"""Which tests are slow: read from what pytest prints, kept in a list whose tests exist."""

import re
import sys

import pytest

from tools import slow_tests

PRINTED = """
........................................................................ [ 12%]
FAILED tests/unit/a/test_b.py::test_fails[1] - AssertionError: no
FAILED tests/unit/a/test_b.py::test_fails_and_is_quick
1.200s spent in tests/unit/a/test_b.py::test_slow[some case]
0.050s spent in tests/unit/a/test_b.py::test_in_cases[1]
0.060s spent in tests/unit/a/test_b.py::test_in_cases[2 of 3 :: x]
0.040s spent in tests/unit/a/test_b.py::test_quick
0.010s spent in tests/unit/a/test_b.py::test_fails[1]
9.000s spent in tests/unit/a/test_b.py::test_fails_and_is_quick
"""


def test_a_tests_cases_and_their_setup_count_together() -> None:
    seconds = slow_tests.seconds_by_test(PRINTED)
    slow = [test.partition("::")[2] for test in slow_tests.slow(seconds)]
    assert slow == ["test_fails_and_is_quick", "test_in_cases", "test_slow"]


def test_a_test_that_failed_keeps_its_place() -> None:
    """Its seconds say nothing: it ended early, or waited in vain."""
    before = [f"tests/unit/a/test_b.py::{name}" for name in ("test_fails", "test_quick")]
    anew = [test.partition("::")[2] for test in slow_tests.listed_anew(PRINTED, before)]
    assert anew == ["test_fails", "test_in_cases", "test_slow"]


def test_it_is_said_how_far_a_run_is_and_what_it_ended_with() -> None:
    said = list[str]()
    program = f"print({PRINTED!r}); raise SystemExit(1)"
    assert slow_tests.run_within([sys.executable, "-c", program], 60.0, said.append) == (1, f"{PRINTED}\n")
    assert said == ["12 % of the tests have run"]


def test_a_run_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError, match="took longer"):
        slow_tests.run_within([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)


def test_what_the_list_names_exists() -> None:
    listed = slow_tests.read(slow_tests.LIST.read_text(encoding="utf-8").splitlines())
    assert len(listed) > 50
    gone = []
    for test in sorted(listed):
        file, name, *_ = test.split("::")  # the name of a function, or of the class of a state machine
        path = slow_tests.ROOT / file
        if not path.exists() or not re.search(rf"^(async def|def|class) {name}\b|^{name} = ", path.read_text(), re.M):
            gone.append(test)
    assert not gone, f"run `make slow-tests`: {gone}"
