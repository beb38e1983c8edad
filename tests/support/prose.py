"""Rules of plain English for docstrings and pages: sentences that are read once.

`tidy.py` applies them to what git tracks, in the packages and pages that are listed here; add one once it is rewritten.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

FIRST_WORDS_MIN: Final = 5  # of a module's or class's first sentence: fewer say nothing in a list of search results
SENTENCE_WORDS_MAX: Final = 40  # the aim is 25; a longer sentence than this is a list, or two sentences
PACKAGES: Final = (
    *("braid/client/", "braid/kernel/", "braid/kafka/", "braid/stores/", "braid/spark/"),
    *("services/assigner/", "services/lagmon/", "pipelines/"),
)
PAGES: Final = ("docs/explanation/", "docs/guides/", "docs/tutorial.md", "README.md", "CONTRIBUTING.md")
# Riddles to a newcomer: persons that the sentence does not have, and beliefs that programs do not hold.
RIDDLES: Final = re.compile(
    r"\b(who(?:m)?ever|of whom|to whom|(?:is|are|was|were|be) believed|told is)\b", re.IGNORECASE
)

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*(\[])")
_BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LIST_ITEM: Final = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")


def first_sentences_say_what_things_are(path: str, text: str) -> Iterator[str]:
    """A docstring's first sentence stands alone: it is no fragment, no riddle, and not too long."""
    if not path.startswith(PACKAGES):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = _sentences((ast.get_docstring(node) or "").partition("\n\n")[0])[0]
        words, place = len(first.split()), f"{path}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.Module | ast.ClassDef) and 0 < words < FIRST_WORDS_MIN:
            yield f"{place} begins with {words} words: {first!r}"
        if words > SENTENCE_WORDS_MAX:
            yield f"{place} begins with a sentence of {words} words"
        if riddle := RIDDLES.search(first):
            yield f"{place} begins with a riddle ({riddle[0]!r}): name the subject"


def pages_have_short_sentences(path: str, text: str) -> Iterator[str]:
    """A sentence of a page for readers ends before its beginning is forgotten. Tables and blocks are not judged."""
    if not (path.startswith(PAGES) and path.endswith(".md")):
        return
    prose = "\n".join("" if line.startswith("|") else line for line in _BLOCK.sub("", text).splitlines())
    for part in _LIST_ITEM.split(prose):
        for sentence in _sentences(part):
            if (words := len(sentence.split())) > SENTENCE_WORDS_MAX:
                yield f"{path} has a sentence of {words} words: {sentence[:60]}…"


def _sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(" ".join(text.split()))
