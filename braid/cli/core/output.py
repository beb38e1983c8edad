"""Formats results: tables (of at most 80 columns on a terminal), JSON, YAML, names. Knows no resource and no mesh."""

import json
import textwrap
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.cli.core.times import age_text
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.cli.core.documents import Document

TABLE_COLUMNS_MAX: Final = 80
API_VERSION: Final = "braid/v1"
_GAP: Final = "  "
_CELL_MIN: Final = 8
_GREEN, _YELLOW, _RED = "\x1b[32m", "\x1b[33m", "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
_COLOURS: Final = {
    **dict.fromkeys(("HEALTHY", "ACTIVE", "HELD", "LIVE", "OK", "DONE"), _GREEN),
    **dict.fromkeys(
        (
            "SUSPECT",
            "HALF_DEAD",
            "FLAPPING",
            "DRAINING",
            "AWAITED",
            "REVOKING",
            "FREE",
            "PROVISIONING",
            "WARN",
            "STALE",
            "PAUSED",
            "BEHIND",
            "PARKED AGAIN",
            "NO STREAM",
        ),
        _YELLOW,
    ),
    **dict.fromkeys(
        ("DOWN", "SLOW", "STRANDED", "HALTED", "BLOCKED", "FAIL", "FAILED", "NO ROUTE", "STOPPED", "NO MEMBER"), _RED
    ),
}


class Format(Enum):
    """The output formats of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Column(NamedTuple):
    """A table column: `wide` ones appear only with `-o wide`, `shrinks` ones are truncated when a line is too long."""

    header: str
    wide: bool = False
    shrinks: bool = False


class Item(NamedTuple):
    """One item of a result. `cells` fill the columns between NAME and AGE; `since_ms` gives the age."""

    name: str
    reference: str
    cells: Sequence[str]
    since_ms: int
    document: "Document"


class Columns(NamedTuple):
    """The columns of a table between NAME and AGE."""

    middle: Sequence[Column]
    age: str = "AGE"


def parse_format(text: str, allowed: Sequence[Format] = tuple(Format)) -> Format:
    """Parses the value of `-o`. Raises `Invalid`."""
    for each in allowed:
        if each.value == text:
            return each
    remedy = f"use one of {', '.join(each.value for each in allowed)}"
    raise Invalid(f"{text!r} is no output format here", field="--output", remedy=remedy)


def render(
    format: Format,
    columns: Columns,
    items: Sequence[Item],
    now_ms: int,
    *,
    narrow: bool,
    listed: bool = True,
    header: bool = True,
    beside: Sequence[Item] = (),
) -> str:
    """Formats items in one of the output formats.

    Args:
        format: The output format.
        columns: The table's columns.
        items: The items.
        now_ms: The present, for ages.
        narrow: Whether a table is cut to 80 columns; a wide one never is.
        listed: Whether JSON and YAML wrap the items into a list; otherwise each is a separate document.
        header: Whether a table has a header.
        beside: Rows printed earlier, whose columns the table keeps wide enough for.
    """
    if format is Format.NAME:
        return "\n".join(item.reference for item in items)
    if format in (Format.JSON, Format.YAML):
        documents = [item.document for item in items]
        if listed:
            documents = [{"apiVersion": API_VERSION, "kind": "List", "items": [*documents]}]
        return "\n".join(render_document(format, document) for document in documents)
    wide = format is Format.WIDE
    return render_table(columns, items, now_ms, wide=wide, narrow=narrow and not wide, header=header, beside=beside)


def render_document(format: Format, document: "Document") -> str:
    """One document as JSON or YAML."""
    if format is Format.JSON:
        return json.dumps(document, indent=2, ensure_ascii=False)
    import yaml

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=TABLE_COLUMNS_MAX)
    return f"---\n{text.rstrip()}"


def render_line(document: "Document") -> str:
    """One document on one line, for streams of documents."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def render_table(
    columns: Columns,
    items: Sequence[Item],
    now_ms: int,
    *,
    wide: bool,
    narrow: bool,
    header: bool = True,
    beside: Sequence[Item] = (),
) -> str:
    """Formats rows under a header, NAME first, AGE last. A narrow table is cut to 80 columns unless its names are
    longer."""
    shown = [index for index, column in enumerate(columns.middle) if wide or not column.wide]
    rows = [("NAME", *(columns.middle[index].header for index in shown), columns.age)]
    for item in (*items, *beside):
        rows.append((item.name, *(item.cells[index] or "-" for index in shown), age_text(item.since_ms, now_ms)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    if narrow:
        shrinking = [place + 1 for place, index in enumerate(shown) if columns.middle[index].shrinks]
        widths = _shrunk(widths, shrinking)
    lines = [_line(row, widths) for row in rows[: len(items) + 1]]
    return "\n".join(lines if header else lines[1:])


def coloured(table: str) -> str:
    """A table with its states in colour; the layout stays."""
    lines = table.split("\n")
    for state, colour in _COLOURS.items():
        lines[1:] = [line.replace(f" {state} ", f" {colour}{state}{_PLAIN} ") for line in lines[1:]]
    return "\n".join(lines)


def shortened(text: str, width: int) -> str:
    """Truncates a text to a number of columns."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrapped(text: str, width: int, narrow: bool, indent: str = "") -> list[str]:
    """The lines of a sentence, at least one. Only a terminal breaks lines; no word, address or path is broken."""
    if not narrow:
        return [text]
    wrapper = textwrap.TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text) or [""]


def _shrunk(widths: Sequence[int], shrinking: Sequence[int]) -> list[int]:
    """Column widths after the widest columns that may shrink were reduced until a line fits."""
    result = list(widths)
    while sum(result) + len(_GAP) * (len(result) - 1) > TABLE_COLUMNS_MAX:
        widest = max(shrinking, key=lambda place: result[place], default=-1)
        if widest < 0 or result[widest] <= _CELL_MIN:
            break
        result[widest] -= 1
    return result


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f"{shortened(cell, width):{width}}" for cell, width in zip(row, widths, strict=True))
    return _GAP.join(cells).rstrip()
