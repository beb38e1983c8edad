"""Questions for a stream's records, and the form that they have in requests. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.client.reading.record_filter import parse_predicate
from braid.kernel.errors import Invalid
from braid.kernel.filters.grammar import EVERYTHING, Filter
from braid.kernel.ids import check_name
from braid.rpc.documents import Document
from console.server.doing.arguments import time_ms
from console.server.limits import MESSAGES_LOGS_MAX, MESSAGES_ROWS_DEFAULT, MESSAGES_ROWS_MAX, PARAMETER_CHARS_MAX
from console.server.messages.decoding import AUTO, check_form

NEWEST: Final = "newest"
EARLIEST: Final = "earliest"
_OFFSET: Final = "offset:"
_OFFSET_MAX: Final = (1 << 63) - 1
_FIELDS: Final = ("from", "lane", "cluster", "partition", "filter", "limit", "form", "positions")


class Asked(NamedTuple):
    """A question for records of one stream.

    Attributes:
        start: `newest`, `earliest`, a time in milliseconds, or an offset.
        lane: Only this one; every one when empty.
        cluster: Only what lies there; everything when empty.
        partition: Only this one of each channel; None for all.
        filter: What records must be like.
        filter_text: The same as it was typed.
        limit: Rows of one answer.
        form: Which form values are shown in.
        positions: Where an earlier answer stopped, by log; empty for a first one.
    """

    start: "Start"
    lane: str = ""
    cluster: str = ""
    partition: int | None = None
    filter: Filter = EVERYTHING
    filter_text: str = ""
    limit: int = MESSAGES_ROWS_DEFAULT
    form: str = AUTO
    positions: Mapping[str, int] = {}

    @property
    def backward(self) -> bool:
        """Whether newer records come first."""
        return self.start.kind == NEWEST


class Start(NamedTuple):
    """The place where reading begins: `newest`, `earliest`, `time` or `offset`; `value` belongs to the last two."""

    kind: str
    value: int = 0


def read_asked(body: Document) -> Asked:
    """The question of a request's body. Raises `Invalid` naming the field at fault."""
    for name in body:
        if name not in _FIELDS:
            remedy = f"known here: {', '.join(_FIELDS)}"
            raise Invalid("there is no such field", field=name[:100], remedy=remedy)
    filter_text = _text(body, "filter")
    asked = Asked(
        read_start(_text(body, "from") or NEWEST, "from"),
        _name(body, "lane"),
        _name(body, "cluster"),
        read_partition(body.get("partition"), "partition"),
        parse_predicate(filter_text, "filter"),
        filter_text,
        _number(body, "limit", MESSAGES_ROWS_MAX) or MESSAGES_ROWS_DEFAULT,
        check_form(_text(body, "form") or AUTO, "form"),
        _positions(body),
    )
    if asked.start.kind == "offset" and asked.partition is None:
        raise Invalid("an offset is one of a partition", field="partition", remedy="name the partition")
    return asked


def read_start(text: str, field: str) -> Start:
    """Where reading begins, as typed: `newest`, `earliest`, `offset:123` or a moment. Raises `Invalid`."""
    if text in (NEWEST, EARLIEST):
        return Start(text)
    if text.startswith(_OFFSET):
        digits = text.removeprefix(_OFFSET)
        if not (digits.isascii() and digits.isdecimal()) or int(digits[:20]) > _OFFSET_MAX:
            raise Invalid(f"{text[:100]!r} is no offset", field=field, remedy="for example offset:1200")
        return Start("offset", int(digits))
    return Start("time", max(0, time_ms(text, field)))


def read_partition(value: object, field: str) -> int | None:
    """A partition's number, as a number or as text; None where none is given. Raises `Invalid`."""
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdecimal()) or int(text[:12]) >= 1 << 31:
        raise Invalid(f"{text[:100]!r} is no partition", field=field, remedy="write its number, from 0")
    return int(text)


def _text(body: Document, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Invalid("is no text", field=name)
    if len(value) > PARAMETER_CHARS_MAX:
        raise Invalid(f"has more than {PARAMETER_CHARS_MAX} characters", field=name)
    return value


def _name(body: Document, name: str) -> str:
    text = _text(body, name)
    return check_name(text, name) if text else ""


def _number(body: Document, name: str, most: int) -> int:
    value = body.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Invalid(f"is no whole number up to {most}", field=name)
    return value


def _positions(body: Document) -> dict[str, int]:
    value = body.get("positions") or {}
    if not isinstance(value, dict) or len(value) > MESSAGES_LOGS_MAX:
        raise Invalid(f"is no object of up to {MESSAGES_LOGS_MAX} offsets", field="positions")
    found: dict[str, int] = {}
    for key, offset in value.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _OFFSET_MAX:
            raise Invalid(
                f"{str(key)[:100]!r} has no offset", field="positions", remedy="send back what an answer says"
            )
        found[key] = offset
    return found
