"""Bytes as text of 6 bits per character, for brokers that count bytes where Kafka counts UTF-16 units.

Only the packing lives here.
It is base64 with the alphabet safe for addresses and file names, without padding (RFC 4648, section 5).
"""

import base64
import re
from typing import Final

from braid.kernel.errors import Invalid

_TEXT: Final = re.compile(r"[A-Za-z0-9_-]+")


def ascii_bytes_that_fit(characters: int) -> int:
    """The most bytes `pack_ascii` fits into so many characters; negative when none do."""
    return characters * 3 // 4


def pack_ascii(data: bytes) -> str:
    """Writes bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unpack_ascii(text: str) -> bytes:
    """Reads what `pack_ascii` wrote.

    Raises:
        Invalid: a character is outside the alphabet, or bits that hold nothing are not zero.
    """
    if _TEXT.fullmatch(text) is None or len(text) % 4 == 1:
        raise Invalid("metadata has characters outside the alphabet or does not hold whole bytes")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if pack_ascii(data) != text:
        raise Invalid("metadata has bits beyond its last byte")
    return data
