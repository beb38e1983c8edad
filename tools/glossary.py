"""The glossary of `docs/glossary.md` as values, and the rules that give each word one meaning."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path("docs", "glossary.md")
_CELL: Final = re.compile(r"(?<!\\)\|")
_CODE: Final = re.compile(r"`([\w/]+\.py)(?::(\w+))?`")
_HEADER: Final = ("Term", "Means", "Never", "In code", "After")
_ROOTS: Final = ("braid", "services")
_GENERATED: Final = "braid/api/"


class Term(NamedTuple):
    """A line of the glossary."""

    name: str
    means: str
    never: tuple[str, ...]
    code: tuple[tuple[str, str], ...]  # file, class; '' where the file as a whole is meant
    after: str

    @property
    def class_name(self) -> str:
        """The term as a class name: `DeadLetter` for dead letter."""
        return "".join(word.capitalize() for word in re.split(r"\W|_", self.name))


def read_terms(text: str) -> Sequence[Term]:
    """The terms of a glossary page, in its order."""
    return [
        _term(line) for line in text.splitlines() if line.startswith("| ") and "---" not in line and not _head(line)
    ]


def page_faults(terms: Sequence[Term]) -> Iterator[str]:
    """Terms that appear twice, say nothing, or use a word that the glossary forbids for its meaning."""
    for name, count in Counter(term.name for term in terms).items():
        if count > 1:
            yield f"{name} stands {count} times: one line a term"
    for meaning, count in Counter(term.means for term in terms).items():
        if count > 1:
            yield f"{meaning!r} stands for {count} terms: keep one of them"
    for term in terms:
        if not term.means.endswith("."):
            yield f"{term.name} needs a meaning, a sentence that ends with a full stop"
        if term.name in term.never:
            yield f"{term.name} is called what it is never called"


def code_faults(terms: Sequence[Term], classes: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Classes named after a term in a place that the glossary does not list, and listed places that no longer exist.

    Args:
        terms: Of the glossary.
        classes: The names of the classes of every source file.
    """
    for term in terms:
        said = {(path, name) for path, name in term.code if name}
        for path, name in term.code:
            if path not in classes or (name and name not in classes[path]):
                yield f"{term.name}: {path}{':' * bool(name)}{name} is not there any more"
        for path, names in classes.items():
            if term.class_name in names and (path, term.class_name) not in said:
                yield f"{path}:{term.class_name} gives {term.name} a second meaning; rename it, or list it in {PAGE}"


def read_classes(root: Path) -> Mapping[str, frozenset[str]]:
    """The names of the classes of every written source file of a checkout."""
    found = {}
    for path in sorted(each for name in _ROOTS for each in (root / name).rglob("*.py")):
        relative = path.relative_to(root).as_posix()
        if not relative.startswith(_GENERATED):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            found[relative] = frozenset(node.name for node in body if isinstance(node, ast.ClassDef))
    return found


def _term(line: str) -> Term:
    cells = [cell.strip() for cell in _CELL.split(line.strip().strip("|"))]
    if len(cells) != len(_HEADER):
        raise ValueError(f"{PAGE}: {line!r} has {len(cells)} cells, not {len(_HEADER)}")
    name, means, never, code, after = cells
    words = tuple(filter(None, (word.strip() for word in never.split(","))))
    return Term(name.strip("`"), means, words, tuple((path, symbol) for path, symbol in _CODE.findall(code)), after)


def _head(line: str) -> bool:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|")) == _HEADER
