"""Arguments of actions, as browsers send them: checked by name, type and size. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.rpc.documents import Document, Value
from console.server.limits import LIST_ITEMS_MAX, PARAMETER_CHARS_MAX

TEXT: Final = "text"
NUMBER: Final = "number"
FLAG: Final = "flag"
LIST: Final = "list"
DURATION: Final = "duration"

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Argument(NamedTuple):
    """An argument of an action."""

    name: str
    type: str
    about: str
    required: bool = False

    def document(self) -> Document:
        """The argument as JSON has it."""
        return {"name": self.name, "type": self.type, "required": self.required, "about": self.about}


class Given(NamedTuple):
    """The arguments of one request, all known and of their types."""

    values: Mapping[str, Value]
    dry_run: bool = False

    def text(self, name: str) -> str:
        """A text; empty where it is not given."""
        value = self.values.get(name, "")
        assert isinstance(value, str), "its type was checked"
        return value

    def flag(self, name: str) -> bool:
        """Whether a flag is set."""
        return self.values.get(name) is True

    def number(self, name: str) -> float | None:
        """A number; None where it is not given."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else None

    def items(self, name: str) -> Sequence[str]:
        """The items of a list; none where it is not given."""
        value = self.values.get(name)
        return [str(each) for each in value] if isinstance(value, list) else []


def read_arguments(body: Mapping[str, Value], known: Sequence[Argument], dry_run: bool) -> Given:
    """The arguments of a request's body. Raises `Invalid` naming the one at fault."""
    by_name = {each.name: each for each in known}
    values: dict[str, Value] = {}
    for name, value in body.items():
        if name not in by_name:
            raise Invalid("there is no such argument", field=name[:100], remedy=f"known here: {', '.join(by_name)}")
        if value is not None and value not in ("", []):
            values[name] = _checked(by_name[name], value)
    for each in known:
        if each.required and each.name not in values:
            raise Invalid("is missing", field=each.name, remedy=each.about)
    return Given(values, dry_run)


def duration_ms(text: str, field: str) -> int:
    """Milliseconds of `30m`, `8h` or `7d`. Raises `Invalid`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Invalid(f"{text[:100]!r} is not a time that something lasts", field=field, remedy="for example 30m or 8h")
    return int(found[1]) * _UNIT_MS[found[2]]


def time_ms(text: str, field: str) -> int:
    """Milliseconds since the epoch of a moment with its zone, as ISO 8601 has it. Raises `Invalid`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        remedy = "for example 2026-11-21T14:03:00Z"
        raise Invalid(f"{text[:100]!r} is no moment with a time zone", field=field, remedy=remedy)
    return round(moment.timestamp() * 1_000)


def _checked(argument: Argument, value: Value) -> Value:
    match argument.type:
        case "flag":
            fits = isinstance(value, bool)
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 52
        case "list":
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        case _:
            fits = isinstance(value, str)
    if not fits:
        raise Invalid(f"is no {argument.type}", field=argument.name, remedy=argument.about)
    if isinstance(value, list) and len(value) > LIST_ITEMS_MAX:
        raise Invalid(f"has more than {LIST_ITEMS_MAX} items", field=argument.name)
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str):
            _check_text(text, argument.name)
    if argument.required and isinstance(value, str) and value.startswith("-"):
        remedy = f"the command line takes it after `--`, if there is such a {argument.name}"
        raise Invalid("begins with a hyphen", field=argument.name, remedy=remedy)
    return value


def _check_text(text: str, field: str) -> None:
    if len(text) > PARAMETER_CHARS_MAX:
        raise Invalid(f"has more than {PARAMETER_CHARS_MAX} characters", field=field)
    if not text.isprintable():
        raise Invalid("has characters that cannot be printed", field=field, remedy="leave them out")
