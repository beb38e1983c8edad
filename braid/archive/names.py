"""Names of archived objects, which are the archive's index: they contain history, sequences, times and links. Pure.

    <service>/<kind>/<id>/<first>-<last>_<earliest>-<latest>_<link before>-<link of last>_i<incarnation>.seg
    <service>/<kind>/<id>/<sequence>_<time>_<link>_i<incarnation>.base

Sequences are padded to 20 digits, so that names sort as numbers do. Times are milliseconds since the epoch. Links are
cut to 16 hexadecimal digits. The incarnation is the store's when the object was written: a label, not a proof.
"""

import re
from dataclasses import dataclass
from typing import Final

from braid.kernel.ports import HistoryId

LINK_DIGITS: Final = 16
_SEGMENT: Final = re.compile(
    r"(\d{20})-(\d{20})_(-?\d{1,19})-(-?\d{1,19})_([0-9a-f]{16})-([0-9a-f]{16})_i(\d{1,9})\.seg"
)
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ENCODED: Final = re.compile(r"(?:%[0-9A-F]{2})+")
_BASE: Final = re.compile(r"(\d{20})_(-?\d{1,19})_([0-9a-f]{16})_i(\d{1,9})\.base")


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """The name of a segment: events `first` to `last` of a history.

    Attributes:
        earliest_ms: Smallest time of its events; clocks step, so it may not be the first event's.
        latest_ms: Largest time of its events.
        before: Link of the event before the first, cut short.
        after: Link of the last event, cut short.
    """

    history: HistoryId
    first: int
    last: int
    earliest_ms: int
    latest_ms: int
    before: str
    after: str
    incarnation: int

    def __str__(self) -> str:
        times = f"{self.earliest_ms}-{self.latest_ms}"
        place = f"{self.first:020d}-{self.last:020d}_{times}_{self.before}-{self.after}"
        return f"{prefix(self.history)}{place}_i{self.incarnation}.seg"


@dataclass(frozen=True, slots=True, order=True)
class BaseName:
    """The name of a base: the state after event `sequence`, as a snapshot's bytes."""

    history: HistoryId
    sequence: int
    time_ms: int
    link: str
    incarnation: int

    def __str__(self) -> str:
        place = f"{self.sequence:020d}_{self.time_ms}_{self.link}"
        return f"{prefix(self.history)}{place}_i{self.incarnation}.base"


def prefix(history: HistoryId) -> str:
    """The common prefix of the names of a history's objects."""
    return "/".join((*(_quoted(part) or "%" for part in history), ""))


def parse(name: str) -> SegmentName | BaseName | None:
    """Parses a name; None for an unknown form: other files, or a later release's, may lie beside the archive."""
    parts = name.split("/")
    if len(parts) != 4:
        return None
    history = HistoryId(*map(_unquoted, parts[:3]))
    if segment := _SEGMENT.fullmatch(parts[3]):
        first, last, earliest, latest, before, after, incarnation = segment.groups()
        found = SegmentName(history, int(first), int(last), int(earliest), int(latest), before, after, int(incarnation))
        return found if 0 < found.first <= found.last else None
    if base := _BASE.fullmatch(parts[3]):
        sequence, time, link, incarnation = base.groups()
        return BaseName(history, int(sequence), int(time), link, int(incarnation))
    return None


def short(link: bytes) -> str:
    """A link in the form that names have."""
    return link.hex()[:LINK_DIGITS]


def _quoted(part: str) -> str:
    """Percent-encodes everything except letters, digits, `_` and `-`: safe in file names and bucket keys."""
    return _SPECIAL.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass")), part
    )


def _unquoted(part: str) -> str:
    def decoded(found: re.Match[str]) -> str:
        return bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogatepass")

    try:
        return _ENCODED.sub(decoded, part)
    except UnicodeDecodeError:
        return part
