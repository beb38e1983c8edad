"""The rules of tidiness no linter knows: sizes, names, skipped tests, clocks in pure code, traces of one machine.

Each rule takes a file's path and text and yields what is wrong, one line each; `test_tidy.py` runs them over what git
tracks and shows each of them a mutant.
"""

import ast
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tests.support.messages import (
    commented_files_hold_no_riddles,
    messages_have_short_sentences,
    messages_hold_no_riddles,
)
from tests.support.prose import (
    docstrings_have_short_sentences,
    docstrings_name_files_that_exist,
    first_sentences_say_what_things_are,
    names_of_tests_are_short,
    nodes,
    pages_have_short_sentences,
    pages_hold_no_riddles,
    parsed,
    sections_begin_with_a_subject,
)

FILE_LINES_MAX: Final = 400
CASES_LINES_MAX: Final = 500  # of a file of tests: a long list of cases is easier to read than two short ones
FUNCTION_LINES_MAX: Final = 50
COMMAND_LINES_MAX: Final = 70  # of a command whose signature is the list of its options
FORBIDDEN_WORDS: Final = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers"})

Rule = Callable[[str, str], Iterator[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_ROOT: Final = Path(__file__).resolve().parents[2]
_COMMANDS: Final = frozenset({("braid/cli/dev.py", "_dev")})
_SKIPS: Final = frozenset({"skip", "skipif", "xfail", "importorskip", "skipTest", "SkipTest"})
_NOW: Final = frozenset({"now", "utcnow", "today"})
# Code that runs under simulation, or is pure: time comes in through a port or an argument.
_WITHOUT_CLOCK: Final = ("braid/client/", "braid/kernel/", "services/")
_MACHINE: Final = re.compile(r"/(?:root|work|home)/[\w.]")
_MERGE_MARKS: Final = ("<" * 7 + " ", ">" * 7 + " ", "|" * 7 + " ")  # put together: this file is read too
_REGISTRIES: Final = re.compile(
    r"\brepo1?[.]maven[.]|\bmaven[.]org|\bpypi[.]org|pythonhoste[d][.]|registry[.]npmjs|registry[.]yarnpkg"
    r"|proxy[.]golang|deb[.]debian|archive[.]ubuntu|\bcrates[.]io|\bregistry-1[.]docker|buf[.]build/"
)
_BLANKET: Final = re.compile(r"#\s*(?:noqa(?!:\s*[A-Z])|type:\s*ignore(?!\[)|ruff:\s*noqa|mypy:\s*ignore-errors)")


def tracked_files(root: Path) -> Sequence[str]:
    """Paths of the files git tracks and the work tree has, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def findings(path: str, text: str) -> list[str]:
    """The findings about one file, from every rule that applies to it."""
    rules = (*TEXT_RULES, *PYTHON_RULES) if is_written_python(path) else TEXT_RULES
    return [finding for rule in rules for finding in rule(path, text)]


def is_written_python(path: str) -> bool:
    """Whether a file is Python that somebody wrote, as opposed to generated."""
    return path.endswith(".py") and not path.endswith("_pb2.py") and not path.startswith("braid/api/")


def no_machine_path(path: str, text: str) -> Iterator[str]:
    """Nothing names a directory of one machine."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _MACHINE.search(line):
            yield f"{path}:{number} names a path of one machine ({found[0]}…)"


def no_registry_host(path: str, text: str) -> Iterator[str]:
    """Nothing names the host of a package registry: each installation has its own."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _REGISTRIES.search(line):
            yield f"{path}:{number} names a package registry ({found[0]}…)"


def no_mark_of_a_merge(path: str, text: str) -> Iterator[str]:
    """No conflict of a merge was left in a file."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_MERGE_MARKS):
            yield f"{path}:{number} holds a mark that a merge left ({line[:7]})"


def file_length(path: str, text: str) -> Iterator[str]:
    """A file can be read in one sitting."""
    lines = len(text.splitlines())
    most = CASES_LINES_MAX if PurePosixPath(path).name.startswith("test_") else FILE_LINES_MAX
    if lines > most:
        yield f"{path} has {lines} lines, more than {most}"


def function_length(path: str, text: str) -> Iterator[str]:
    """A function fits a screen."""
    for node in _functions(text):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        most = COMMAND_LINES_MAX if (path, node.name) in _COMMANDS else FUNCTION_LINES_MAX
        if lines > most:
            yield f"{path}:{node.lineno} {node.name} has {lines} lines, more than {most}"


def names_say_something(path: str, text: str) -> Iterator[str]:
    """No part of a module's, class's or function's name is a word that fits anything. Tests are named by sentences."""
    for part in PurePosixPath(path).with_suffix("").parts:
        if _words(part) & FORBIDDEN_WORDS:
            yield f"{path} is named {part!r}, which says nothing"
    for node in nodes(text):
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("test_"):
            continue
        if _words(node.name) & FORBIDDEN_WORDS:
            yield f"{path}:{node.lineno} {node.name!r} says nothing"


def no_skipped_test(path: str, text: str) -> Iterator[str]:
    """No test is skipped or expected to fail: a tool that is missing is obtained, a bug is mended."""
    if not path.startswith("tests/"):
        return
    for node in nodes(text):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in _SKIPS
            and _root_name(node) in {"pytest", "unittest", "self"}
        ):
            yield f"{path}:{node.lineno} skips a test ({ast.unparse(node)})"
        if isinstance(node, ast.ImportFrom) and node.module in {"pytest", "unittest"}:
            for name in {alias.name for alias in node.names} & _SKIPS:
                yield f"{path}:{node.lineno} imports {name}"


def no_relative_import(path: str, text: str) -> Iterator[str]:
    """Every import names what it imports in full."""
    for node in nodes(text):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"{path}:{node.lineno} imports relatively"


def no_clock_where_a_port_is(path: str, text: str) -> Iterator[str]:
    """Pure and simulated code does not ask `datetime` for the time."""
    if not path.startswith(_WITHOUT_CLOCK):
        return
    for node in nodes(text):
        if isinstance(node, ast.Attribute) and node.attr in _NOW and _root_name(node) in {"datetime", "date"}:
            yield f"{path}:{node.lineno} reads the clock ({ast.unparse(node)})"


def no_any_in_public_signature(path: str, text: str) -> Iterator[str]:
    """A public function of what ships says its types."""
    if path.startswith(("tests/", "bench/", "tools/")):
        return
    for node in _functions(text):
        if node.name.startswith("_"):
            continue
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        annotations = [node.returns, *(argument.annotation for argument in arguments if argument)]
        if any("Any" in _names(annotation) for annotation in annotations if annotation):
            yield f"{path}:{node.lineno} {node.name} has Any in its signature"


def no_blanket_exemption(path: str, text: str) -> Iterator[str]:
    """An exemption from a linter names the rule it is from."""
    for number, line in enumerate(text.splitlines(), 1):
        if _BLANKET.search(line):
            yield f"{path}:{number} is exempt from every rule at once"


def has_docstring(path: str, text: str) -> Iterator[str]:
    """A module with code says what lives in it."""
    module = parsed(text)
    if module.body and ast.get_docstring(module) is None:
        yield f"{path} does not say what lives there"


def starts_modules_that_exist(path: str, text: str) -> Iterator[str]:
    """Checks that modules started by `-m` exist, and that no movable name is assembled: a search must find it."""
    for node in nodes(text):
        command = node.elts if isinstance(node, ast.List | ast.Tuple) else getattr(node, "args", ())
        for flag, module in itertools.pairwise(command if isinstance(command, list) else ()):
            if not (isinstance(flag, ast.Constant) and flag.value == "-m"):
                continue
            if isinstance(module, ast.JoinedStr) and ast.unparse(module)[2:].startswith("test"):
                yield f"{path}:{module.lineno} puts a module's name together"
            elif isinstance(module, ast.Constant) and not _is_module(str(module.value)):
                yield f"{path}:{module.lineno} starts {ast.unparse(module)}, which does not exist"


def _is_module(name: str) -> bool:
    """Whether it is ours and lies where it says; those of others lie elsewhere."""
    place = _ROOT.joinpath(*name.split("."))
    return not (_ROOT / name.split(".")[0]).is_dir() or place.with_suffix(".py").is_file() or place.is_dir()


def _functions(text: str) -> Iterator[Function]:
    return (node for node in nodes(text) if isinstance(node, Function))


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(annotation: ast.expr) -> set[str]:
    parts = list(ast.walk(annotation))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }


TEXT_RULES: Final[Sequence[Rule]] = (
    *(no_machine_path, no_registry_host, no_mark_of_a_merge),
    *(pages_have_short_sentences, pages_hold_no_riddles, sections_begin_with_a_subject),
    commented_files_hold_no_riddles,
)
PYTHON_RULES: Final[Sequence[Rule]] = (
    *(file_length, function_length, names_say_something, no_skipped_test, no_relative_import),
    *(
        no_clock_where_a_port_is,
        no_any_in_public_signature,
        no_blanket_exemption,
        has_docstring,
        starts_modules_that_exist,
        docstrings_have_short_sentences,
        docstrings_name_files_that_exist,
        first_sentences_say_what_things_are,
        names_of_tests_are_short,
        messages_hold_no_riddles,
        messages_have_short_sentences,
    ),
)
