"""`docs/where.md`: each answer names a file and something that is defined in it."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
ANSWER: Final = re.compile(r"^\| .+ \| `([\w/]+\.py):([\w.]+)` \|$", re.MULTILINE)
ANSWERS: Final = ANSWER.findall((ROOT / "docs" / "where.md").read_text(encoding="utf-8"))


def defined(root: Path, path: str, symbol: str) -> bool:
    """Whether a file defines a class, a function or, as `Class.method`, a method."""
    file = root / path
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body if file.exists() else []
    for name in symbol.split("."):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = next((node for node in body if isinstance(node, kinds) and node.name == name), None)
        if found is None:
            return False
        body = found.body
    return True


def test_twenty_questions_are_answered() -> None:
    rows = [line for line in (ROOT / "docs" / "where.md").read_text().splitlines() if line.startswith("| ")]
    questions = [row for row in rows if not row.startswith(("| Question", "| ---"))]
    assert len(ANSWERS) == len(questions) >= 20


@pytest.mark.parametrize(("path", "symbol"), ANSWERS)
def test_an_answer_is_where_it_says(path: str, symbol: str) -> None:
    assert defined(ROOT, path, symbol)


@pytest.mark.parametrize(
    ("path", "symbol"), [("gone.py", "A"), ("a.py", "B"), ("a.py", "A.missing"), ("a.py", "A.method.inner")]
)
def test_an_answer_that_went_stale_is_noticed(tmp_path: Path, path: str, symbol: str) -> None:
    (tmp_path / "a.py").write_text("class A:\n    def method(self): ...\n")
    assert defined(tmp_path, "a.py", "A.method")
    assert not defined(tmp_path, path, symbol)
