"""The filter language for dead letters: `error=ValueError and (group=a or group=b) and time>=2026-11-01T10:00`.

    filter     = [ either ]
    either     = both { "or" both }
    both       = single { "and" single }
    single     = "not" single | "(" either ")" | comparison
    comparison = field ( "=" | "!=" | "~" | "<" | "<=" | ">" | ">=" ) value
    field      = error | message | group | lane | key | id | attempts | time | partition | header.NAME
    value      = word | 'quoted' | "quoted"          (a backslash keeps the quote or backslash that follows)

`=` and `!=` compare whole texts; `error` also matches the last part of a dotted class name. `~` means "contains" and
ignores case. `<` and `>` apply to `attempts`, `partition` and `time` (ISO 8601; UTC if no zone is given). A header that
a letter lacks equals nothing. Pure.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

from braid.kernel.errors import Invalid
from braid.kernel.limits.dlq import FILTER_CHARACTERS_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX
from services.dlq.model.letters import Letter

TEXT_FIELDS: Final = ("error", "message", "group", "lane", "key", "id")
NUMBER_FIELDS: Final = ("attempts", "partition", "time")
_FIELDS: Final = f"{', '.join(TEXT_FIELDS + NUMBER_FIELDS)} or header.NAME"
_HEADER: Final = "header."
_ORDER: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN: Final = re.compile(r"""\s+|(?P<operator>!=|<=|>=|[=~<>])|(?P<parenthesis>[()])|(?P<word>[^\s()=!~<>"']+)""")
_WORD: Final = re.compile(r"""[^\s()=!~<>"'\\]+""")
_KEYWORDS: Final = ("and", "or", "not")
_SHOWN: Final = 60  # characters of a long filter on either side of a mistake
_NUMBER_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test of one field. `value` is a number for `attempts`, `partition` and `time` (milliseconds)."""

    field: str
    operator: str
    value: str | int

    @property
    def header(self) -> str:
        """The header's name; '' for any other field."""
        return self.field.removeprefix(_HEADER) if self.field.startswith(_HEADER) else ""


@dataclass(frozen=True, slots=True)
class Not:
    """Matches letters that the inner filter does not match."""

    part: "Filter"


@dataclass(frozen=True, slots=True)
class All:
    """Matches letters that every part matches; without parts, every letter."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Some:
    """Matches letters that at least one part matches."""

    parts: "tuple[Filter, ...]"


Filter = Comparison | Not | All | Some
EVERYTHING: Final = All(())


class _Token(NamedTuple):
    kind: str
    text: str
    column: int  # counted from 0
    quoted: bool = False


def parse_filter(text: str, field: str) -> Filter:
    """Parses a filter; an empty text matches every letter.

    Args:
        text: The filter.
        field: What the request calls it, for errors.

    Raises:
        Invalid: the text does not parse; the message points at the place.
    """
    if len(text) > FILTER_CHARACTERS_MAX:
        raise Invalid(
            f"a filter has at most {FILTER_CHARACTERS_MAX} characters", field=field, remedy="use a shorter one"
        )
    return _Parser(text, field).parse()


def unparse(filter: Filter) -> str:
    """Writes a filter as text that `parse_filter` parses to the same filter."""
    match filter:
        case Comparison():
            return f"{_field_text(filter)}{filter.operator}{_value_text(filter)}"
        case Not(part):
            return f"not {_nested(part)}"
        case All(parts):
            return " and ".join(map(_nested, parts))
        case Some(parts):
            return " or ".join(map(_nested, parts))


def matches(filter: Filter, letter: Letter) -> bool:
    """Whether a filter matches a letter."""
    match filter:
        case Comparison():
            return _compare(filter, letter)
        case Not(part):
            return not matches(part, letter)
        case All(parts):
            return all(matches(part, letter) for part in parts)
        case Some(parts):
            return any(matches(part, letter) for part in parts)


# --- matching


def _compare(test: Comparison, letter: Letter) -> bool:
    if isinstance(test.value, int):
        numbers = {"attempts": letter.attempts, "partition": letter.origin.partition, "time": letter.time_ms}
        return _ORDER[test.operator](numbers[test.field], test.value)
    found = _texts(test, letter)
    if test.operator == "~":
        return any(test.value.casefold() in text.casefold() for text in found)
    return (test.value in found) == (test.operator == "=")


def _texts(test: Comparison, letter: Letter) -> tuple[str, ...]:
    """The texts a field has in a letter; a comparison matches if any of them does."""
    if test.header:
        return tuple(value for name, value in letter.headers if name == test.header)
    match test.field:
        case "error":
            return (letter.error_class, letter.error_name)
        case "message":
            return (letter.error_message,)
        case "group":
            return (letter.group,)
        case "lane":
            return (letter.origin.lane,)
        case "key":
            return () if letter.key is None else (letter.key.decode("utf-8", "replace"),)
        case _:
            return (letter.record_id,)


# --- writing


def _nested(part: Filter) -> str:
    text = unparse(part)
    return f"({text})" if isinstance(part, All | Some) else text


def _field_text(test: Comparison) -> str:
    name = test.header
    return test.field if not name or _WORD.fullmatch(name) else f"{_HEADER}{_quoted(name)}"


def _value_text(test: Comparison) -> str:
    if test.field == "time":
        seconds, ms = divmod(int(test.value), 1000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
    text = str(test.value)
    return text if _WORD.fullmatch(text) and text.lower() not in _KEYWORDS else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- reading


class _Parser:
    """A recursive-descent parser, bounded in depth and number of terms."""

    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._tokens = self._read_tokens()
        self._at = 0
        self._depth = 0
        self._terms = 0

    def parse(self) -> Filter:
        if self._next.kind == "end":
            return EVERYTHING
        found = self._either()
        if self._next.kind != "end":
            self._wrong(self._next, "`and`, `or` or the end")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _either(self) -> Filter:
        parts = [self._both()]
        while self._is_word("or"):
            self._take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _both(self) -> Filter:
        parts = [self._single()]
        while self._is_word("and"):
            self._take()
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _single(self) -> Filter:
        self._depth += 1
        if self._depth > FILTER_DEPTH_MAX:
            self._fail(self._next, f"more than {FILTER_DEPTH_MAX} levels of parentheses and `not`")
        try:
            if self._is_word("not"):
                self._take()
                return Not(self._single())
            if self._next.text == "(" and self._next.kind == "parenthesis":
                opened = self._take()
                found = self._either()
                if self._next.text != ")" or self._next.kind != "parenthesis":
                    self._wrong(self._next, f"`)` for the `(` in column {opened.column + 1}")
                self._take()
                return found
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Filter:
        self._terms += 1
        if self._terms > FILTER_TERMS_MAX:
            self._fail(self._next, f"more than {FILTER_TERMS_MAX} comparisons")
        name = self._take()
        field = self._field_name(name)
        sign = self._take()
        ordered = field in NUMBER_FIELDS
        allowed = "=, !=, <, <=, > or >=" if ordered else "=, != or ~"
        if sign.kind != "operator":
            self._wrong(sign, f"{allowed} after `{field}`")
        if sign.text not in (_ORDER if ordered else ("=", "!=", "~")):
            self._wrong(sign, f"{allowed}: `{field}` is {'a number or time' if ordered else 'text'}")
        value = self._take()
        if value.kind != "word":
            self._wrong(value, f"a value for `{field}`")
        return Comparison(field, sign.text, self._value(field, value))

    def _field_name(self, token: _Token) -> str:
        if token.kind != "word" or token.quoted:
            self._wrong(token, f"a field ({_FIELDS})")
        if token.text == _HEADER and self._next.quoted and self._next.column == token.column + len(_HEADER):
            name = self._take().text
            if name:
                return _HEADER + name
        if token.text.startswith(_HEADER) and len(token.text) > len(_HEADER):
            return token.text
        if token.text not in TEXT_FIELDS + NUMBER_FIELDS:
            self._wrong(token, f"a field ({_FIELDS})")
        return token.text

    def _value(self, field: str, token: _Token) -> str | int:
        if field == "time":
            return self._time_ms(token)
        if field in NUMBER_FIELDS:
            if not (token.text.isascii() and token.text.isdigit()) or int(token.text[:20]) > _NUMBER_MAX:
                self._wrong(token, f"a whole number for `{field}`")
            return int(token.text)
        return token.text

    def _time_ms(self, token: _Token) -> int:
        try:
            moment = datetime.fromisoformat(token.text)
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            milliseconds = round((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
        except (ValueError, OverflowError):
            self._wrong(token, "a time like 2026-11-01 or 2026-11-01T10:00:00Z")
        if milliseconds < 0:
            self._fail(token, "a time before 1970")
        return milliseconds

    def _is_word(self, word: str) -> bool:
        token = self._next
        return token.kind == "word" and not token.quoted and token.text.lower() == word

    def _read_tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self._text):
            if self._text[at] in "\"'":
                token, at = self._read_quoted(at)
                tokens.append(token)
                continue
            found = _TOKEN.match(self._text, at)
            if found is None:
                self._fail(_Token("", "", at), f"{self._text[at]!r} has no meaning here")
            if found.lastgroup is not None:
                tokens.append(_Token(found.lastgroup, found[0], at))
            at = found.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    def _read_quoted(self, start: int) -> tuple[_Token, int]:
        quote, at = self._text[start], start + 1
        kept: list[str] = []
        while at < len(self._text) and self._text[at] != quote:
            if self._text[at] == "\\" and self._text[at + 1 : at + 2] in ("\\", "'", '"'):
                at += 1
            kept.append(self._text[at])
            at += 1
        if at >= len(self._text):
            self._fail(_Token("", "", start), f"the {quote} is never closed")
        return _Token("word", "".join(kept), start, quoted=True), at + 1

    def _wrong(self, token: _Token, expected: str) -> NoReturn:
        found = "the end" if token.kind == "end" else f"{token.text!r}"
        self._fail(token, f"expected {expected}, found {found}")

    def _fail(self, token: _Token, what: str) -> NoReturn:
        """Raises `Invalid` with a caret under the place, and an excerpt of a long filter."""
        start = max(0, token.column - _SHOWN)
        shown = "".join(" " if each.isspace() else each for each in self._text[start : token.column + _SHOWN])
        caret = " " * (token.column - start) + "^"
        raise Invalid(
            f"column {token.column + 1}: {what}\n  {shown}\n  {caret}",
            field=self._field,
            remedy="for example: error=ValueError and group=indexer and time>=2026-11-01T10:00",
            metadata={"column": str(token.column + 1)},
        )
