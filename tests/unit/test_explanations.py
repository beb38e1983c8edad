"""`docs/explanation/`: what its pages name as proof exists, files and tests alike."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((ROOT / "docs" / "explanation").glob("*.md"))
_PATH: Final = re.compile(r"`((?:tests|services|braid|testbed|pipelines)/[\w/.]+)`")
_TEST: Final = re.compile(r"`(test_\w+)`")


def stale(text: str, root: Path) -> list[str]:
    """The paths and tests that a page names and the checkout does not have."""
    paths = [path for path in _PATH.findall(text) if not (root / path).exists()]
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("test_*.py"))]
    tests = [name for name in _TEST.findall(text) if not any(f"def {name}(" in source for source in sources)]
    return paths + tests


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_an_explanation_names_as_proof_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert _PATH.findall(text)
    assert stale(text, ROOT) == []


def test_proof_that_is_gone_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_there() -> None: ...\n")
    assert stale("`tests/test_a.py` (`test_there`)", tmp_path) == []
    assert stale("`tests/test_b.py` (`test_the`)", tmp_path) == ["tests/test_b.py", "test_the"]
