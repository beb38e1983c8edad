"""The README is true: every command and snippet in it runs, in order, as a new user would run them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.snippets import reader, run_snippet, snippets

pytestmark = pytest.mark.untimed

ROOT = Path(__file__).resolve().parents[2]
SNIPPET_SECONDS = 300.0  # by the wall: it ends what hangs, and judges nothing


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the new user stands."""
    with reader(tmp_path):
        yield tmp_path


@pytest.mark.timeout(1_200)
def test_first_stream_in_five_minutes(directory: Path) -> None:
    first, snippet, last = snippets(ROOT / "README.md")
    assert [first.language, snippet.language, last.language] == ["bash", "python", "bash"]

    said = run_snippet(first, directory, SNIPPET_SECONDS)
    printed = run_snippet(snippet, directory, SNIPPET_SECONDS)
    run_snippet(last, directory, SNIPPET_SECONDS)

    assert "hello" in said
    assert "DOWN" in said or "SUSPECT" in said or "HEALTHY" in said
    assert re.search(r"^live west 0 b'hello'$", printed, re.MULTILINE), printed


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    promised = re.findall(r"^make (\w+) +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert promised == ["demo", "test"]
    assert set(promised) <= set(targets)


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
