"""Counts where tests reach into private parts of what they test, so that a list can say which they may.

A private part is an attribute, an imported name or a patched name that begins with one underscore. A file's own are its
own affair, and so are the names that every named tuple has.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_PUBLIC: Final = frozenset({"_replace", "_asdict", "_fields", "_make", "_field_defaults"})
# What a file without any private use lacks: most need not be parsed.
_MAY_USE: Final = re.compile(
    r"(?<!\bself)(?<!\bcls)\._(?!_|replace\b|asdict\b|make\b|fields\b)|[\"']_[a-zA-Z]|\bimport\b.*\b_[a-zA-Z]|^\s+_\w+,$",
    re.MULTILINE,
)
_BY_NAME: Final = frozenset({"setattr", "getattr", "delattr", "hasattr"})


class Allowance(NamedTuple):
    """How many private uses a file may have, and why it needs them."""

    uses: int
    reason: str


def private_uses(text: str) -> Sequence[str]:
    """Returns each use of a private part in a file's text, as `<line>: <name>`."""
    if not _MAY_USE.search(text):
        return []
    tree = ast.parse(text)
    own = set(_own_names(tree))
    found = [(line, name) for line, name in _used(tree) if name not in own]
    return [f"{line}: {name}" for line, name in sorted(found)]


def read_allowances(text: str) -> Mapping[str, Allowance]:
    """Reads a list with a line for each file: the number of uses, the path, and the reason."""
    rows = (line.split(maxsplit=2) for line in text.splitlines() if line and not line.startswith("#"))
    return {path: Allowance(int(uses), reason) for uses, path, reason in rows}


def excesses(texts: Mapping[str, str], allowed: Mapping[str, Allowance]) -> Sequence[str]:
    """Returns what is wrong: a file with more uses than it may have, or a line of the list for no such file."""
    nothing = Allowance(0, "")
    wrong = [f"{path} is in the list and nowhere else" for path in allowed if path not in texts]
    for path, text in texts.items():
        found = private_uses(text)
        if len(found) > (most := allowed.get(path, nothing).uses):
            wrong.append(f"{path} reaches into private parts {len(found)} times, {most} allowed: {', '.join(found)}")
    return wrong


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in _PUBLIC


def _own_names(tree: ast.AST) -> Iterator[str]:
    """Returns the names that the file defines itself: functions, classes, attributes of its objects."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def _used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if _is_private(name):
                yield node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, each.name) for each in names if _is_private(each.name))
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[_, ast.Constant(value=str(name)), *_]
            ):
                if called in _BY_NAME and _is_private(name):
                    yield node.lineno, name
