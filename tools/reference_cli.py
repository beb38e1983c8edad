"""Generates the page of the command line from the commands: every verb with its examples, arguments and options."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, cast

import typer

from braid.cli import app
from tools.reference_text import code, page, prose, table

_INTRODUCTION: Final = """Every verb of `braid`, from the commands themselves. Exit codes: 0 done, 1 `diff` found
differences, 2 wrong usage, 3 not reachable, 4 refused by the mesh, 130 interrupted. Ctrl-C ends
`-w`, and `consume` without `--max` and `--timeout`, with 0. Results go to stdout, everything else to stderr. `NO_COLOR`
turns colours off. Types may be singular or plural. `--endpoint` and `--context` may also stand before the verb."""


class Parameter(Protocol):
    """The parts of an argument or option that this page uses."""

    param_type_name: str
    opts: Sequence[str]
    secondary_opts: Sequence[str]
    metavar: str | None
    default: object
    show_default: object
    required: bool
    is_flag: bool
    multiple: bool
    help: str | None


class Command(Protocol):
    """The parts of a command or command group that this page uses."""

    help: str | None
    hidden: bool
    params: Sequence[Parameter]


def cli_page(root: Path) -> str:
    """The page of the command line, from this process's own `braid` whatever `root` is."""
    group = cast("Command", typer.main.get_command(app.application(list(app.VERBS))))
    commands = _commands(group)
    return page("Command line", _INTRODUCTION, [part for verb in app.VERBS for part in _parts(verb, commands[verb])])


def _parts(name: str, command: Command, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} braid {name}\n"
    yield from _help(command.help or "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if arguments:
        words = " ".join(_metavar(each) if each.required else f"[{_metavar(each)}]" for each in arguments)
        yield f"Usage: `braid {name} {words} [OPTIONS]`\n"
    options = [each for each in command.params if each.param_type_name == "option" and "--help" not in each.opts]
    yield table(("Option", "Default", "Meaning"), [(_flags(each), _default(each), each.help or "") for each in options])
    for verb, inner in _commands(command).items():
        if not inner.hidden:
            yield from _parts(f"{name} {verb}", inner, min(level + 1, 4))


def _help(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() == "\b":
            yield "\n".join(["```", *(line.removeprefix("  ") for line in lines[1:]), "```\n"])
        elif paragraph.strip():
            yield f"{prose(paragraph)}\n"


def _flags(option: Parameter) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {_metavar(option)}"
    return code(f"{names}{value}") + (" (repeatable)" if option.multiple else "")


def _default(option: Parameter) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return code(option.show_default)
    if option.is_flag or not option.show_default or option.default in (None, "", False):
        return ""
    return code(str(option.default))


def _metavar(parameter: Parameter) -> str:
    return parameter.metavar or parameter.opts[0].lstrip("-").upper()


def _commands(command: Command) -> dict[str, Command]:
    return dict(getattr(command, "commands", {}))
