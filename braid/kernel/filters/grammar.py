"""The grammar of filters that people type: `error=ValueError and (group=a or group=b)`.

    filter     = [ either ]
    either     = both { "or" both }
    both       = single { "and" single }
    single     = "not" single | "(" either ")" | comparison
    comparison = field ( "=" | "!=" | "~" | "<" | "<=" | ">" | ">=" ) value
    value      = word | 'quoted' | "quoted"          (a backslash keeps the quote or backslash that follows)

Which fields there are, a `Vocabulary` says. What a filter is compared with, and what each operator means of it, its
user decides. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn

from braid.kernel.errors import Invalid
from braid.kernel.limits.filters import FILTER_CHARACTERS_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX

TIME: Final = "time"  # the field whose values are moments
ORDER: Final = ("=", "!=", "<", "<=", ">", ">=")
_TEXT_OPERATORS: Final = ("=", "!=", "~")
_TOKEN: Final = re.compile(r"""\s+|(?P<operator>!=|<=|>=|[=~<>])|(?P<parenthesis>[()])|(?P<word>[^\s()=!~<>"']+)""")
_WORD: Final = re.compile(r"""[^\s()=!~<>"'\\]+""")
_KEYWORDS: Final = ("and", "or", "not")
_SHOWN: Final = 60  # characters of a long filter on either side of a mistake
_NUMBER_MAX: Final = (1 << 63) - 1


class Vocabulary(NamedTuple):
    """The fields that filters of one place know.

    Attributes:
        texts: Compared as whole texts, or searched.
        numbers: Whole numbers; `time` among them is a moment.
        headers: Prefixes of fields with a name of their own, which are texts: `header.`.
        paths: Prefixes of fields whose values may be of any type; every operator is allowed, and the value stays text.
        example: A filter that is right, for errors.
    """

    texts: Sequence[str]
    numbers: Sequence[str]
    headers: Sequence[str] = ()
    paths: Sequence[str] = ()
    example: str = ""

    def __str__(self) -> str:
        named = " or ".join(f"{each}NAME" for each in (*self.headers, *self.paths))
        return f"{', '.join((*self.texts, *self.numbers))}{f' or {named}' if named else ''}"

    def prefix_of(self, field: str) -> str:
        """The prefix that a field begins with; '' for none."""
        return next((each for each in (*self.headers, *self.paths) if field.startswith(each)), "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test of one field. `value` is a number for fields that are numbers, milliseconds for `time`."""

    field: str
    operator: str
    value: str | int

    def name_after(self, prefix: str) -> str:
        """The name that follows a prefix; '' for any other field."""
        return self.field.removeprefix(prefix) if self.field.startswith(prefix) else ""


@dataclass(frozen=True, slots=True)
class Not:
    """Matches what the inner filter does not match."""

    part: "Filter"


@dataclass(frozen=True, slots=True)
class All:
    """Matches what every part matches; without parts, everything."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Some:
    """Matches what at least one part matches."""

    parts: "tuple[Filter, ...]"


Filter = Comparison | Not | All | Some
EVERYTHING: Final = All(())


class _Token(NamedTuple):
    kind: str
    text: str
    column: int  # counted from 0
    quoted: bool = False


def parse(text: str, vocabulary: Vocabulary, field: str) -> Filter:
    """Parses a filter; an empty text matches everything.

    Args:
        text: The filter.
        vocabulary: The fields that it may name.
        field: What the request calls it, for errors.

    Raises:
        Invalid: the text does not parse; the message points at the place.
    """
    if len(text) > FILTER_CHARACTERS_MAX:
        raise Invalid(
            f"a filter has at most {FILTER_CHARACTERS_MAX} characters", field=field, remedy="use a shorter one"
        )
    return _Parser(text, vocabulary, field).parse()


def unparse(filter: Filter, vocabulary: Vocabulary) -> str:
    """Writes a filter as text that `parse` parses to the same filter."""
    match filter:
        case Comparison():
            return f"{_field_text(filter, vocabulary)}{filter.operator}{_value_text(filter)}"
        case Not(part):
            return f"not {_nested(part, vocabulary)}"
        case All(parts):
            return " and ".join(_nested(part, vocabulary) for part in parts)
        case Some(parts):
            return " or ".join(_nested(part, vocabulary) for part in parts)


# --- writing


def _nested(part: Filter, vocabulary: Vocabulary) -> str:
    text = unparse(part, vocabulary)
    return f"({text})" if isinstance(part, All | Some) else text


def _field_text(test: Comparison, vocabulary: Vocabulary) -> str:
    prefix = vocabulary.prefix_of(test.field)
    name = test.field.removeprefix(prefix)
    return test.field if not prefix or _WORD.fullmatch(name) else f"{prefix}{_quoted(name)}"


def _value_text(test: Comparison) -> str:
    if test.field == TIME:
        seconds, ms = divmod(int(test.value), 1000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
    text = str(test.value)
    return text if _WORD.fullmatch(text) and text.lower() not in _KEYWORDS else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- reading


def _listed(operators: Sequence[str]) -> str:
    return f"{', '.join(operators[:-1])} or {operators[-1]}"


class _Parser:
    """A recursive-descent parser, bounded in depth and number of terms."""

    def __init__(self, text: str, vocabulary: Vocabulary, field: str) -> None:
        self._text = text
        self._vocabulary = vocabulary
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
        field = self._field_name(self._take())
        sign = self._take()
        allowed, kind = self._operators(field)
        if sign.kind != "operator":
            self._wrong(sign, f"{_listed(allowed)} after `{field}`")
        if sign.text not in allowed:
            self._wrong(sign, f"{_listed(allowed)}: `{field}` is {kind}")
        value = self._take()
        if value.kind != "word":
            self._wrong(value, f"a value for `{field}`")
        return Comparison(field, sign.text, self._value(field, value))

    def _operators(self, field: str) -> tuple[Sequence[str], str]:
        """The operators that a field takes, and what it is."""
        if field in self._vocabulary.numbers:
            return ORDER, "a number or time"
        if any(field.startswith(each) for each in self._vocabulary.paths):
            return (*ORDER, "~"), "of any type"
        return _TEXT_OPERATORS, "text"

    def _field_name(self, token: _Token) -> str:
        known = self._vocabulary
        if token.kind != "word" or token.quoted:
            self._wrong(token, f"a field ({known})")
        prefix = known.prefix_of(token.text)
        if prefix == token.text and self._next.quoted and self._next.column == token.column + len(prefix):
            name = self._take().text
            if name:
                return prefix + name
        if prefix and len(token.text) > len(prefix):
            return token.text
        if token.text not in (*known.texts, *known.numbers):
            self._wrong(token, f"a field ({known})")
        return token.text

    def _value(self, field: str, token: _Token) -> str | int:
        if field not in self._vocabulary.numbers:
            return token.text
        if field == TIME:
            return self._time_ms(token)
        if not (token.text.isascii() and token.text.isdigit()) or int(token.text[:20]) > _NUMBER_MAX:
            self._wrong(token, f"a whole number for `{field}`")
        return int(token.text)

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
            remedy=f"for example: {self._vocabulary.example}",
            metadata={"column": str(token.column + 1)},
        )
