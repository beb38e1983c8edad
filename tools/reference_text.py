"""Builds Markdown from values: tables, cells, paragraphs of docstrings. Pure."""

import textwrap
from collections.abc import Sequence
from typing import Final

_WIDTH: Final = 120


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; '' without rows."""
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *([cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(text: str) -> str:
    """A text on one line, escaped for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A text as inline code; '' stays ''."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """A text wrapped to the usual width."""
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


def sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((docstring or "").strip().split("\n\n", 1)[0].split())


def page(title: str, introduction: str, parts: Sequence[str]) -> str:
    """Joins the parts of a page; empty parts are left out."""
    return "\n".join([f"# {title}\n", f"{prose(introduction)}\n", *(part for part in parts if part)])
