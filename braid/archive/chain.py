"""The chain of hashes over a history's events: one link for each event, made of the link before it. Pure.

    link(n) = SHA-256(link(n - 1) ‖ n as 8 bytes ‖ the event's bytes at rest)

A link identifies all events up to its own. The event store's snapshot carries the link at its sequence (`Mark`). A
reader of the store can therefore check that archived events are the ones that were removed from the store.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

from braid.kernel.ports import HistoryId

LINK_BYTES: Final = 32
_SEQUENCE: Final = struct.Struct(">Q")
_MARK: Final = "archive-chain"  # no request key has this form: those have a slash


def root(history: HistoryId, sequence: int = 0) -> bytes:
    """The link before the first event of a chain: a history's first event, or the first known one."""
    return hashlib.sha256(f"braid {history} {sequence}".encode()).digest()


def next_link(link: bytes, sequence: int, data: bytes) -> bytes:
    """The link of event `sequence`, given the previous link."""
    return hashlib.sha256(b"".join((link, _SEQUENCE.pack(sequence), data))).digest()


def links(before: bytes, first: int, events: Iterable[bytes]) -> Iterator[bytes]:
    """The links of successive events."""
    for sequence, data in enumerate(events, first):
        before = next_link(before, sequence, data)
        yield before


class Mark(NamedTuple):
    """The anchor that a snapshot carries: sequence, time and link of the last event folded into it."""

    sequence: int
    time_ms: int
    link: bytes

    def text(self) -> str:
        """The mark as one of the snapshot's request keys. Releases without an archive ignore it there."""
        return f"{_MARK}:{self.sequence}:{self.time_ms}:{self.link.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Reads `text`'s form; None for anything else."""
        parts = text.split(":")
        if len(parts) != 4 or parts[0] != _MARK or not all(part.isascii() and part.isdecimal() for part in parts[1:3]):
            return None
        try:
            link = bytes.fromhex(parts[3])
        except ValueError:
            return None
        return cls(int(parts[1]), int(parts[2]), link) if len(link) == LINK_BYTES else None


def is_mark(text: str) -> bool:
    """Whether a request key of a snapshot is a mark, of whatever sequence."""
    return text.startswith(f"{_MARK}:")
