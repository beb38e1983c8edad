"""Files and folders that pages name exist, so that a page goes red when a file moves to another room.

A page may shorten a path at its front: `client/producing/key_handover.py`, or `judge.py` in the page of its service.
Decisions and the changelog tell of their own time; the reference is generated.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.tidy import tracked_files

ROOT: Final = Path(__file__).parents[2]
NOT_OF_TODAY: Final = ("CHANGELOG.md", "docs/adr/", "docs/reference/")
_BLOCK: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_PATH: Final = re.compile(r"`((?:[\w-][\w.-]*/)+[\w.-]*|[\w-]+\.py)(?:::?[\w.:\[\]-]+)?`")


@cache
def tracked() -> frozenset[str]:
    """Paths of all files that git tracks here."""
    return frozenset(tracked_files(ROOT))


def pages() -> list[str]:
    """Pages that tell how things are today."""
    return sorted(path for path in tracked() if path.endswith(".md") and not path.startswith(NOT_OF_TODAY))


@cache
def ends(files: frozenset[str]) -> frozenset[str]:
    """Every end of a file's path or of its folders' paths, from a `/` on."""
    folders = {str(folder) for file in files for folder in Path(file).parents}
    parts = [path.split("/") for path in files | folders]
    return frozenset("/".join(path[start:]) for path in parts for start in range(len(path)))


def gone(text: str, files: frozenset[str]) -> list[str]:
    """The files and folders that a page names in code and the checkout does not have.

    A word with a slash is a path if it ends in `.py`, or if it begins with a folder at the top of the checkout.
    """
    tops = {path.partition("/")[0] for path in files if "/" in path}
    named: Iterable[str] = {found.rstrip("/") for found in _PATH.findall(_BLOCK.sub("", text))}
    paths = {path for path in named if path.endswith(".py") or path.partition("/")[0] in tops}
    return sorted(paths - ends(files))


@pytest.mark.parametrize("page", pages())
def test_what_a_page_names_is_there(page: str) -> None:
    assert gone((ROOT / page).read_text(encoding="utf-8"), tracked()) == []


@pytest.mark.parametrize("named", ["services/a/gone.py", "services/b", "gone.py", "a/gone.py", "docs/0001"])
def test_a_path_that_went_stale_is_noticed(named: str) -> None:
    files = frozenset(["services/a/there.py", "docs/0001-why.md"])
    assert (
        gone("`services/a/there.py:Class.method`, `a/there.py`, `services/a/`, `there.py`, `live/charts`", files) == []
    )
    assert gone(f"as `{named}` says", files) == [named]
