"""Which tests stand for a change."""

from pathlib import Path

import pytest

from tools import touched

ROOT = touched.ROOT


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("braid/kernel/progress/tracker.py", {"tests/unit/kernel/progress"}),
        ("services/registry/domain/streams.py", {"tests/unit/registry/domain"}),
        ("services/registry/domain", {"tests/unit/registry/domain"}),
        ("braid/archive/segment.py", {"tests/unit/archive", "tests/contract/archive"}),
        ("tools/touched.py", {"tests/unit/tools"}),
        ("tests/unit/tools/test_touched.py", {"tests/unit/tools/test_touched.py"}),
        ("tests/support/judging.py", set()),
        ("README.md", set()),
    ],
)
def test_a_file_is_held_by_the_tests_that_mirror_its_folder(path: str, tests: set[str]) -> None:
    assert touched.tests_of(path, ROOT) == tests


def test_a_folder_without_tests_is_held_by_those_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit" / "client").mkdir(parents=True)
    assert touched.tests_of("braid/client/new/room.py", tmp_path) == {"tests/unit/client"}


def test_what_lies_in_another_is_run_once() -> None:
    assert touched.outermost({"tests/unit/a/b", "tests/unit/a", "tests/unit/ab"}) == ["tests/unit/a", "tests/unit/ab"]


def test_a_path_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert touched.main(["braid/nowhere.py"]) == 2
    assert "braid/nowhere.py" in capsys.readouterr().err


def test_where_no_test_stands_for_a_change_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert touched.main(["README.md"]) == 0
    assert "no unit or contract test" in capsys.readouterr().out
