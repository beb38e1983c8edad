"""Rules of plain English for docstrings and pages: sentences that are read once.

`tidy.py` applies them to all Python and all Markdown that git tracks.
"""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

FIRST_WORDS_MIN: Final = 5  # of a module's or class's first sentence: fewer say nothing in a list of search results
SENTENCE_WORDS_MAX: Final = 40  # the aim is 25; a longer sentence than this is a list, or two sentences
TEST_NAME_MAX: Final = 60  # characters: what is done, then what must hold
# Riddles to a newcomer: persons that the sentence does not have, and beliefs that programs do not hold.
RIDDLES: Final = re.compile(
    r"\b(who(?:m)?ever|of whom|to whom|(?:is|are|was|were|be) believed|told is)\b", re.IGNORECASE
)

# Words at the beginning of a sentence that has no subject, or one that only the code below it names.
FRAGMENTS: Final = re.compile(
    r"(of|as|so|those|these|them|it|they|and|but|else|again|not|also|what(ever)?|who|whom|up to)\b", re.IGNORECASE
)
# "What a role may do." below a heading is read with the heading, so pages may begin with it.
FRAGMENTS_OF_PAGES: Final = re.compile(
    r"(of|as|so|those|these|them|it|they|and|but|else|again|not|also|who|whom|up to)\b", re.IGNORECASE
)

_ROOT: Final = Path(__file__).resolve().parents[2]
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*(\[])")
_BLOCK: Final = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ .*$", re.MULTILINE)
_MARKUP: Final = re.compile(r"(?:[-*] |\d+\. |[*_(])*")
_FILE: Final = re.compile(r"`([\w/]+\.py)`")
_TEST: Final = re.compile(r"\s*(?:async )?def (test_\w+)")
_NO_PROSE: Final = re.compile(r"\s{4}|\||(Args|Attributes|Options|Raises|Returns|Yields):")
_LIST_ITEM: Final = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")


def first_sentences_say_what_things_are(path: str, text: str) -> Iterator[str]:
    """A docstring's first sentence stands alone: it has a subject, and is no fragment and no riddle."""
    for node, docstring in _docstrings(text):
        first = _sentences(docstring.partition("\n\n")[0])[0]
        words, place = len(first.split()), f"{path}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.Module | ast.ClassDef) and words < FIRST_WORDS_MIN:
            yield f"{place} begins with {words} words: {first!r}"
        if riddle := RIDDLES.search(first):
            yield f"{place} begins with a riddle ({riddle[0]!r}): name the subject"
        if fragment := FRAGMENTS.match(first):
            yield f"{place} begins with a fragment ({fragment[0]!r} …): name the subject"


def docstrings_have_short_sentences(path: str, text: str) -> Iterator[str]:
    """A sentence of a docstring ends before its beginning is forgotten. Sections, tables and blocks are not judged."""
    for node, docstring in _docstrings(text):
        for paragraph in _BLOCK.sub("", docstring).split("\n\n"):
            if not _NO_PROSE.match(paragraph):
                for sentence in long_sentences(paragraph):
                    yield f"{path}:{getattr(node, 'lineno', 1)} has a sentence of {sentence}"


def docstrings_name_files_that_exist(path: str, text: str) -> Iterator[str]:
    """A file that a docstring names is there, under this name or at the end of a longer path: files move."""
    for node, docstring in _docstrings(text):
        for name in _FILE.findall(docstring):
            if not _is_file(name):
                yield f"{path}:{getattr(node, 'lineno', 1)} names {name}, which does not exist"


def names_of_tests_are_short(path: str, text: str) -> Iterator[str]:
    """A test's name fits on a line of a report; what else has to be said stands in its docstring."""
    for line in text.splitlines() if path.startswith("tests/") else ():
        if (found := _TEST.match(line)) and len(found[1]) > TEST_NAME_MAX:
            yield f"{path} has a test's name of {len(found[1])} characters: {found[1]}"


def pages_have_short_sentences(path: str, text: str) -> Iterator[str]:
    """A sentence of a page ends before its beginning is forgotten. Tables and blocks are not judged."""
    for sentence in long_sentences(_prose_of_page(path, text)):
        yield f"{path} has a sentence of {sentence}"


def pages_hold_no_riddles(path: str, text: str) -> Iterator[str]:
    """A page names persons and things instead of pointing at them. Tables and blocks are not judged."""
    for riddle in RIDDLES.finditer(_prose_of_page(path, text)):
        yield f"{path} has a riddle ({riddle[0]!r}): name the subject"


def sections_begin_with_a_subject(path: str, text: str) -> Iterator[str]:
    """The first sentence below a heading stands alone, and so does each entry of the changelog."""
    prose = _prose_of_page(path, text)
    parts = _LIST_ITEM.split(prose) if path == "CHANGELOG.md" else _HEADING.split(prose)
    for part in parts:
        first = _MARKUP.sub("", part.strip(), count=1)
        if fragment := FRAGMENTS_OF_PAGES.match(first):
            yield f"{path} begins a part with a fragment ({fragment[0]!r} …): {first[:60]!r}"


@functools.lru_cache(maxsize=2)
def _prose_of_page(path: str, text: str) -> str:
    """The sentences of a Markdown page, without tables and blocks; nothing of other files."""
    lines = _BLOCK.sub("", text).splitlines() if path.endswith(".md") else ()
    return "\n".join("" if line.lstrip().startswith("|") else line for line in lines)


@functools.cache
def _is_file(name: str) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in _tracked())


@functools.cache
def _tracked() -> Sequence[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=_ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@functools.lru_cache(maxsize=2)
def parsed(text: str) -> ast.Module:
    """The syntax tree; all rules read one file before the next comes."""
    return ast.parse(text)


@functools.lru_cache(maxsize=2)
def nodes(text: str) -> Sequence[ast.AST]:
    """Every node of the syntax tree, outer ones first; walked once for all rules, which is most of what they cost."""
    found: list[ast.AST] = [parsed(text)]
    for node in found:  # as `ast.walk`, in half of its time: a node has its fields in order, then numbers
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found.extend(each for each in value if isinstance(each, ast.AST))
    return found


@functools.lru_cache(maxsize=2)
def _docstrings(text: str) -> Sequence[tuple[ast.AST, str]]:
    """Every docstring with its owner."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in nodes(text) if isinstance(node, owners)]
    return [(node, docstring) for node in found if (docstring := ast.get_docstring(node))]


def long_sentences(prose: str) -> Iterator[str]:
    """Sentences of more than `SENTENCE_WORDS_MAX` words: their number of words, and how they begin."""
    for part in _LIST_ITEM.split(prose):
        for sentence in _sentences(part):
            if (words := len(sentence.split())) > SENTENCE_WORDS_MAX:
                yield f"{words} words: {sentence[:60]}…"


def _sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(" ".join(text.split()))
