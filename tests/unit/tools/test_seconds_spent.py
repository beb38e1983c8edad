"""A test's seconds: by the processor, or by the wall where it slept; not those in which no core was free."""

import subprocess
import sys
from pathlib import Path

from tools import seconds_spent, slow_tests
from tools.seconds_spent import Reading


def test_a_test_that_works_counts_by_the_processor() -> None:
    assert Reading(7.0, 12.0).since(Reading(2.0, 10.0)) == 5.0


def test_a_test_that_sleeps_counts_by_the_wall() -> None:
    assert Reading(2.5, 13.0).since(Reading(2.0, 10.0)) == 3.0


def test_seconds_without_a_free_core_are_read(tmp_path: Path) -> None:
    schedstat = tmp_path / "schedstat"
    schedstat.write_text("81000000 2500000000 17\n")
    assert seconds_spent.waited_for_a_core(schedstat) == 2.5


def test_a_system_that_does_not_tell_them_has_none(tmp_path: Path) -> None:
    assert seconds_spent.waited_for_a_core(tmp_path / "none") == 0.0


def test_what_is_printed_is_what_the_list_is_made_of(tmp_path: Path) -> None:
    tests = tmp_path / "test_two.py"
    tests.write_text(
        "import time\n"
        "time.sleep(0.3)  # is collected\n"
        "def test_does_nothing_first(): pass\n"
        "def test_sleeps(): time.sleep(0.2)\n"
        "def test_does_nothing(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tools.seconds_spent", f"--rootdir={tmp_path}", str(tests)]
    done = subprocess.run(command, cwd=slow_tests.ROOT, capture_output=True, text=True, check=True)
    seconds = slow_tests.seconds_by_test(done.stdout)
    assert len(seconds) == 3
    assert [test.partition("::")[2] for test in slow_tests.slow(seconds)] == ["test_sleeps"]
