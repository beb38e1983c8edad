"""Tests that share a mesh run in one worker."""

from pathlib import Path
from typing import Final

import pytest

from tests.support.grounds import GROUNDS
from tests.support.parallel import APART, LONGEST, first_of, grounds_of, scope_of
from tools.suite import UNTIMED_AT_ONCE

FIXTURE: Final = "import pytest\n@pytest.fixture(scope='module')\n"


@pytest.mark.parametrize(
    ("beside", "own", "scope"),
    [
        ("", "def test_a(tmp_path: Path, two_clusters: DevMesh) -> None: ...", "two_clusters"),
        ("", f"{FIXTURE}async def local(one_cluster: DevMesh) -> str: ...", "one_cluster"),
        (f"{FIXTURE}def local(broker: KafkaBroker) -> str: ...", "def test_a(local: str) -> None: ...", "broker"),
        (f"{FIXTURE}def broker(path: Path) -> str: ...", "def test_a(local: str) -> None: ...", "test_it.py"),
        ("", f"{FIXTURE}def broker() -> str: ...\ndef test_a(broker: str) -> None: ...", "test_it.py"),
        (f"{FIXTURE}def local(broker: KafkaBroker) -> str: ...", "def test_a(path: Path) -> None: ...", "test_it.py"),
        ("", "def prepare(broker: KafkaBroker) -> None: ...", "test_it.py"),
    ],
    ids=[
        "of a test",
        "of a fixture",
        "of the conftest beside it",
        "made by the conftest",
        "made by the file",
        "the conftest has more",
        "a helper's argument",
    ],
)
def test_the_scope_of_a_file_is_its_ground(tmp_path: Path, beside: str, own: str, scope: str) -> None:
    (tmp_path / "conftest.py").write_text(beside)
    (tmp_path / "test_it.py").write_text(own)
    assert scope_of(tmp_path, "test_it.py") == scope


def test_files_of_one_real_ground_have_one_scope() -> None:
    root = Path(__file__).parents[3]
    files = ("spark/test_spark.py", "test_ordered.py", "test_sdk_mesh.py")
    assert {scope_of(root, f"tests/integration/{file}") for file in files} == {"two_clusters"}


def test_files_that_run_side_by_side_stand_on_one_ground() -> None:
    root = Path(__file__).parents[3]
    files = [path for tier in ("integration", "e2e") for path in (root / "tests" / tier).rglob("test_*.py")]
    untimed = [str(path.relative_to(root)) for path in files if "mark.untimed" in path.read_text()]
    assert len(untimed) > 20
    assert {file: grounds_of(root, file) for file in untimed if len(grounds_of(root, file)) > 1} == {}


@pytest.mark.parametrize("file", APART)
def test_a_file_apart_shares_no_worker_with_its_ground(file: str) -> None:
    root = Path(__file__).parents[3]
    assert (root / file).is_file()
    assert scope_of(root, file) == file


@pytest.mark.parametrize("scope", LONGEST)
def test_each_of_the_longest_is_a_ground_or_a_file_of_its_own(scope: str) -> None:
    root = Path(__file__).parents[3]
    assert scope in GROUNDS or ((root / scope).is_file() and scope_of(root, scope) == scope)


def test_the_longest_begins_and_then_what_was_first() -> None:
    assert first_of(["tests/unit/test_a.py", LONGEST[1], LONGEST[0], "tests/unit/test_b.py"]) == LONGEST[0]
    assert first_of(["tests/unit/test_a.py", "tests/unit/test_b.py"]) == "tests/unit/test_a.py"


@pytest.mark.parametrize("file", APART)
def test_a_file_apart_and_its_ground_begin_in_two_workers(file: str) -> None:
    """A worker that has played the one has ended the ground, and would refuse the tests of the other."""
    (ground,) = grounds_of(Path(__file__).parents[3], file)
    assert {file, ground} <= set(LONGEST[:UNTIMED_AT_ONCE])
