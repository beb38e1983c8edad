"""Bytes as text that cannot harm a terminal: readable text as it is, anything else as a hex dump. Pure."""

from collections.abc import Iterable
from typing import Final

from braid.api.registry.v1.stream_pb2 import OffsetRange
from braid.kernel import offset_ranges

_DUMP_COLUMNS: Final = 16
_TEXT_SHARE_MIN: Final = 0.9  # of characters that can be printed; less reads better in hex


def printable(text: str, keep: str = "") -> str:
    """A text whose control characters are escaped, except those in `keep`."""
    return "".join(each if each.isprintable() or each in keep else _escaped(each) for each in text)


def byte_lines(data: bytes, most: int) -> list[str]:
    """Formats bytes as lines: text, or a dump of offsets, hex and ASCII.

    Args:
        data: Any bytes.
        most: How many of them to show at most.
    """
    text = _as_text(data[:most], cut=len(data) > most)
    return text.splitlines() if text is not None else _dump(data[:most])


def _as_text(data: bytes, *, cut: bool) -> str | None:
    """The bytes as text with escapes; None if they are no text."""
    for end in range(len(data), max(len(data) - (4 if cut else 1), -1), -1):  # a cut may fall into a character
        try:
            text = data[:end].decode()
        except UnicodeDecodeError:
            continue
        shown = sum(each.isprintable() or each in "\n\t" for each in text)
        return printable(text, "\n\t") if shown >= _TEXT_SHARE_MIN * len(text) else None
    return None


def _dump(data: bytes) -> list[str]:
    lines = []
    for start in range(0, len(data), _DUMP_COLUMNS):
        row = data[start : start + _DUMP_COLUMNS]
        ascii_text = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in row)
        lines.append(f"{start:08x}  {row.hex(' '):{_DUMP_COLUMNS * 3 - 1}}  {ascii_text}")
    return lines


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def offsets_text(ranges: Iterable[OffsetRange]) -> str:
    """Ranges in the form that `braid close` takes: `0:17-23`."""
    found = (offset_ranges.OffsetRange(each.partition, each.first, each.last) for each in ranges)
    return offset_ranges.ranges_text(found)
