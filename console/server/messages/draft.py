"""A record that somebody wants to send, as a request describes it, and the command that sends the same. Pure."""

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.kernel.ids import DLQ_LANE, check_name
from braid.rpc.documents import Document, Value
from console.server.doing.action import options
from console.server.limits import PRODUCE_HEADER_CHARS_MAX, PRODUCE_HEADERS_MAX
from console.server.messages.twins import line

_FIELDS: Final = ("lane", "key", "key_form", "value", "value_form", "headers")
_FORMS: Final = ("text", "hex")
_RESERVED: Final = "braid-"
_DELIMITERS: Final = (":", "|", ",", "::", "@@")


class Draft(NamedTuple):
    """A record to be sent.

    Attributes:
        lane: Where to; empty for `live`, or the only one.
        key: None for none.
        value: None for a tombstone.
        headers: By name.
    """

    lane: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def read_draft(body: Document) -> Draft:
    """The record of a request's body. Raises `Invalid` naming the field at fault."""
    for name in body:
        if name not in _FIELDS:
            remedy = f"known here: {', '.join(_FIELDS)}"
            raise Invalid("there is no such field", field=name[:100], remedy=remedy)
    lane = body.get("lane") or ""
    if not isinstance(lane, str):
        raise Invalid("is no text", field="lane")
    if lane == DLQ_LANE:
        raise Invalid("holds dead letters, which groups alone give up", field="lane", remedy="name another lane")
    return Draft(check_name(lane, "lane") if lane else "", _bytes(body, "key"), _bytes(body, "value"), _headers(body))


def produce_command(stream: str, draft: Draft) -> str:
    """The command that sends the same record; empty where no command does, as none sends headers."""
    value, key = _typed(draft.value), _typed(draft.key)
    if draft.headers or value is None or (draft.key is not None and key is None):
        return ""
    delimiter = ""
    if key is not None:
        delimiter = next((each for each in _DELIMITERS if each not in key), "")
        if not delimiter:
            return ""
    words = ["produce", stream, *options([("--lane", draft.lane), ("--key-delimiter", delimiter)])]
    typed = f"{key or ''}{delimiter}{value}"
    return f"printf '%s\\n' {shlex.quote(typed)} | {line(words)}"


def _typed(data: bytes | None) -> str | None:
    """Bytes as a line that can be typed; None where they are none."""
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
    return text if text is not None and text.isprintable() else None


def _bytes(body: Document, name: str) -> bytes | None:
    text, form = body.get(name), body.get(f"{name}_form", "text")
    if form not in _FORMS:
        raise Invalid("is neither text nor hex", field=f"{name}_form", remedy=f"one of {', '.join(_FORMS)}")
    if text is None:
        return None
    if not isinstance(text, str):
        raise Invalid("is no text", field=name)
    try:
        return bytes.fromhex(text) if form == "hex" else text.encode()
    except ValueError:
        remedy = "two digits a byte, for example 00ff" if form == "hex" else "half of a pair of surrogates stands in it"
        raise Invalid(f"is no {form}", field=name, remedy=remedy) from None


def _headers(body: Document) -> dict[str, bytes]:
    value = body.get("headers") or []
    if not isinstance(value, list) or len(value) > PRODUCE_HEADERS_MAX:
        raise Invalid(f"is no list of up to {PRODUCE_HEADERS_MAX} pairs", field="headers")
    found: dict[str, bytes] = {}
    for pair in value:
        name, text = _pair(pair)
        if name in found:
            raise Invalid(f"names {name!r} twice", field="headers", remedy="give each once")
        found[name] = text.encode("utf-8", "replace")
    return found


def _pair(pair: Value) -> Sequence[str]:
    texts = [each for each in pair if isinstance(each, str)] if isinstance(pair, list) else []
    if len(texts) != 2 or not texts[0] or any(len(each) > PRODUCE_HEADER_CHARS_MAX for each in texts):
        message = f"has no pair of a name and a text of up to {PRODUCE_HEADER_CHARS_MAX} characters"
        raise Invalid(message, field="headers", remedy='for example ["tenant", "acme"]')
    if not (texts[0].isascii() and texts[0].isprintable()):
        raise Invalid(f"{texts[0][:100]!r} is not printable ASCII", field="headers", remedy="choose another name")
    if texts[0].lower().startswith(_RESERVED):
        raise Invalid(f"{texts[0][:100]!r} is Braid's own", field="headers", remedy="choose another name")
    return texts
