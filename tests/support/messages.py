"""Rules of plain English for texts that people read while Braid runs: help, errors, findings, logs, what make prints.

Which string reaches a person cannot be told from the code around it: remedies are constants, findings are rows of
tables, an error's message is put together. So every string of what ships is judged that is long enough to be prose.
`tidy.py` applies these rules beside those for docstrings and pages.
"""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.support.prose import RIDDLES, SENTENCE_WORDS_MAX, long_sentences, nodes

MESSAGE_WORDS_MIN: Final = 3  # a shorter string is a label, a key, or a part of something
# Besides the riddles of all prose: persons without a name, and `told` of what is said, written or known.
RIDDLES_OF_MESSAGES: Final = re.compile(
    rf"{RIDDLES.pattern}|\bsome(?:body|one) else\b|\b(?:some|no|any|every)(?:body|one) (?:who(?:m)?|known?s?)\b"
    r"|\bwhat (?:some|no|any|every)body\b|\bthose (?:who|whom)\b|\btold\b(?! apart)",
    re.IGNORECASE,
)

_SHIPPED: Final = ("braid/", "services/", "devmesh/", "pipelines/", "demo/", "examples/")
# People who only use Braid read the comments of these.
_COMMENTED: Final = ("Makefile", "compose.yaml", "compose.insecure.yaml")
_EXAMPLES: Final = re.compile(r"^(?:\x08| {2,}).*$", re.MULTILINE)  # blocks of commands in help texts


def messages_hold_no_riddles(path: str, text: str) -> Iterator[str]:
    """A message names persons and things instead of pointing at them."""
    for line, message in _messages(text) if path.startswith(_SHIPPED) else ():
        if riddle := RIDDLES_OF_MESSAGES.search(message):
            yield f"{path}:{line} has a riddle ({riddle[0]!r}): name the subject"


def messages_have_short_sentences(path: str, text: str) -> Iterator[str]:
    """A sentence of the command line ends before its beginning is forgotten. Commands in help texts are not judged."""
    for line, message in _messages(text) if path.startswith("braid/cli/") else ():
        for sentence in long_sentences(_EXAMPLES.sub("", message)):
            yield f"{path}:{line} has a sentence of {sentence}, more than {SENTENCE_WORDS_MAX}"


def commented_files_hold_no_riddles(path: str, text: str) -> Iterator[str]:
    """The Makefile and the composed mesh are held to the words of messages, comments included."""
    for number, line in enumerate(text.splitlines() if path in _COMMENTED else (), 1):
        if riddle := RIDDLES_OF_MESSAGES.search(line):
            yield f"{path}:{number} has a riddle ({riddle[0]!r}): name the subject"


@functools.lru_cache(maxsize=2)
def _messages(text: str) -> Sequence[tuple[int, str]]:
    """Every string that is prose and no docstring, with its line; `…` stands for what is put into it."""
    found: list[tuple[int, str]] = []
    apart: set[int] = set()  # docstrings, and parts of strings that are judged as a whole
    for node in nodes(text):
        if id(node) in apart:
            continue
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            apart.update(id(part) for part in node.values if isinstance(part, ast.Constant))
            found.append((node.lineno, "".join(_part(part) for part in node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, node.value))
    return [(line, message) for line, message in found if len(message.split()) >= MESSAGE_WORDS_MIN]


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "…"
