"""Bytes of records as people read them. Pure: what a sender wrote stays data, and is never parsed beyond bounds."""

import codecs
from typing import Final, NamedTuple

from braid.client.reading.record_filter import NO_JSON, json_of
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import FILTER_PARSED_BYTES
from braid.rpc.documents import Document
from console.server.limits import MESSAGES_PREVIEW_BYTES, MESSAGES_PREVIEW_CHARS

AUTO: Final = "auto"
FORMS: Final = (AUTO, "json", "text", "hex")
_NO_TEXT: Final = frozenset(range(32)) - {9, 10, 13}  # control characters that texts do not have


class Shown(NamedTuple):
    """Bytes in a form for people.

    Attributes:
        form: `json`, `text`, `hex`, `avro`, `protobuf`, or `none` where there are no bytes.
        text: What is shown; of `hex` two digits a byte.
        cut: Whether there is more.
        reason: Why it is not in the form that was asked for, or cannot be decoded.
        schema: The id of the schema that it names; empty where it names none, or no registry is asked.
    """

    form: str
    text: str
    cut: bool = False
    reason: str = ""
    schema: str = ""

    def document(self) -> Document:
        """The value as JSON has it."""
        return {"form": self.form, "text": self.text, "cut": self.cut, "reason": self.reason, "schema": self.schema}


NOTHING: Final = Shown("none", "")


def check_form(form: str, field: str) -> str:
    """A form that values are shown in. Raises `Invalid`."""
    if form not in FORMS:
        raise Invalid(f"{form[:100]!r} is no form of values", field=field, remedy=f"one of {', '.join(FORMS)}")
    return form


def preview(data: bytes | None, form: str = AUTO) -> Shown:
    """The beginning of a key or value, on one line, for a row of a table."""
    return shortened(shown_as(data, form, MESSAGES_PREVIEW_BYTES))


def shortened(shown: Shown) -> Shown:
    """The beginning of what is shown, as much as a row has room for."""
    cut = shown.cut or len(shown.text) > MESSAGES_PREVIEW_CHARS
    return shown._replace(text=shown.text[:MESSAGES_PREVIEW_CHARS], cut=cut)


def shown_as(data: bytes | None, form: str, most: int) -> Shown:
    """A key, value or header in a form; in hexadecimal where it does not have that form.

    Args:
        data: The bytes; None for none.
        form: One of `FORMS`.
        most: Bytes that are looked at; the rest is cut.
    """
    if data is None:
        return NOTHING
    cut = len(data) > most
    if form == "hex":
        return Shown("hex", data[:most].hex(), cut)
    text = text_of(data[:most], cut)
    if text is None:
        return Shown("hex", data[:most].hex(), cut, "" if form == AUTO else "it is no text in UTF-8")
    if form == "text" or (data[:1] not in (b"{", b"[") and form == AUTO):
        return Shown("text", text, cut)
    if json_of(data) is NO_JSON:
        reason = "" if form == AUTO else f"it is no JSON, or has more than {FILTER_PARSED_BYTES} bytes"
        return Shown("text", text, cut, reason)
    return Shown("json", text, cut)


def text_of(data: bytes, cut: bool) -> str | None:
    """Bytes as text; None where they are none. Of bytes that were cut, half a character at the end is left out."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return None
    return None if not _NO_TEXT.isdisjoint(data) else text
