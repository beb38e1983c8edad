"""Generates reference pages from other pages: the list of decisions, and the terms from A to Z."""

import re
from pathlib import Path
from typing import Final

from tools.glossary import PAGE, Term, read_terms
from tools.reference_text import page, table

_TITLE: Final = re.compile(r"^# (?:\d+\. )?(.+)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"^(\d{4})-")


def decisions_page(root: Path) -> str:
    """The decision records of a checkout, by number."""
    rows = []
    for path in sorted((root / "docs" / "adr").glob("*.md")):
        number, title = _NUMBER.match(path.name), _TITLE.search(path.read_text(encoding="utf-8"))
        if number is None or title is None:
            raise ValueError(f"{path}: a decision is NNNN-title.md and begins with `# title`")
        rows.append((str(int(number[1])), f"[{title[1]}](../adr/{path.name})"))
    introduction = "What was decided about the design, with context and consequences. The later of two holds."
    return page("Decisions", introduction, [table(("Number", "Decision"), rows)])


def glossary_page(root: Path) -> str:
    """The terms of a checkout's glossary in alphabetical order."""
    terms = sorted(read_terms((root / PAGE).read_text(encoding="utf-8")), key=lambda term: term.name)
    rows = [
        (f"**{term.name}**", term.means.replace("](", "](../"), ", ".join(term.never), _after(term)) for term in terms
    ]
    introduction = (
        "Every term from A to Z; by subject, and with the places in the code, in the [glossary](../glossary.md)."
    )
    return page("Terms", introduction, [table(("Term", "Means", "Never called", "After"), rows)])


def _after(term: Term) -> str:
    """The source of a term, with links relative to the reference."""
    return re.sub(r"\]\((?=[^:)]+\))", "](../", term.after)
