"""Which tests are slow: read from what pytest prints, kept in a list whose tests exist."""

import re

from tools import slow_tests

PRINTED = """
1.200s spent in tests/unit/a/test_b.py::test_slow[some case]
0.050s spent in tests/unit/a/test_b.py::test_in_cases[1]
0.060s spent in tests/unit/a/test_b.py::test_in_cases[2 of 3 :: x]
0.090s spent in tests/unit/a/test_b.py::test_quick
"""


def test_a_tests_cases_and_their_setup_count_together() -> None:
    seconds = slow_tests.seconds_by_test(PRINTED)
    assert slow_tests.slow(seconds) == ["tests/unit/a/test_b.py::test_in_cases", "tests/unit/a/test_b.py::test_slow"]


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
