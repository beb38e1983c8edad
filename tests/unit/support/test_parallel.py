"""Tests that share a mesh run in one worker."""

from pathlib import Path

import pytest

from tests.support.parallel import scope_of


@pytest.mark.parametrize(
    ("beside", "own", "scope"),
    [
        ("", "def test_a(tmp_path: Path, two_clusters: DevMesh) -> None: ...", "two_clusters"),
        ("def local(broker: KafkaBroker) -> str: ...", "def test_a(local: str) -> None: ...", "broker"),
        ("def broker(tmp_path: Path) -> str: ...", "def test_a(local: str) -> None: ...", "test_it.py"),
        ("", '"""Says two_clusters: and (no more)."""', "test_it.py"),
    ],
    ids=["its own", "of the conftest beside it", "where it is made", "only mentioned"],
)
def test_the_scope_of_a_file_is_its_ground(tmp_path: Path, beside: str, own: str, scope: str) -> None:
    (tmp_path / "conftest.py").write_text(beside)
    (tmp_path / "test_it.py").write_text(own)
    assert scope_of(tmp_path, "test_it.py") == scope


def test_files_of_one_real_ground_have_one_scope() -> None:
    root = Path(__file__).parents[3]
    files = ("spark/test_spark.py", "pipelines/test_event_store.py", "test_ordered.py", "test_sdk_mesh.py")
    assert {scope_of(root, f"tests/integration/{file}") for file in files} == {"two_clusters"}
