"""The filter of a consumer, applied to columns before a record becomes an object. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from braid.client.records.braid_headers import MARKS
from braid.kernel.errors import Invalid
from braid.kernel.ids import LeaseId, check_name
from braid.kernel.limits.client import WHERE_HEADERS_MAX
from braid.kernel.record_columns import Cells, RecordColumns, pieces_at

_Mask = NDArray[np.bool_]
_WORD: Final = 1 << 64
# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): its increment and its mixing.
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIXING: Final = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT: Final = np.uint64(31)


@dataclass(frozen=True, slots=True)
class Where:
    """The conditions for handing out a record; what is skipped counts as done, unseen, for the whole group.

    All members of a group should state the same. A batch nobody can decode is no record: it is dead-lettered anyway.

    Attributes:
        headers: Headers by name and the value each must have; of several of one name the last counts.
        key_prefix: What the key begins with; a record without a key has no prefix but the empty one.
        lanes: The lanes it may come by; none for any. Unlike `lanes` of a consumer, others are read and passed.
        since: Ingestion times from here on.
        until: Ingestion times before this one.
        sampled: Which part of the records; the choice is the same whenever, and by whomever, a record is read.
    """

    headers: Mapping[str, bytes] = field(default_factory=dict)
    key_prefix: bytes = b""
    lanes: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    sampled: float = 1.0

    def __post_init__(self) -> None:
        if len(self.headers) > WHERE_HEADERS_MAX:
            raise Invalid(f"names more than {WHERE_HEADERS_MAX} headers", field="where.headers")
        for name, value in self.headers.items():
            if not name.isascii() or not isinstance(value, bytes):
                raise Invalid(f"{name!r}: a name is ASCII, a value bytes", field="where.headers")
        if isinstance(self.lanes, str):
            raise Invalid("is one string", field="where.lanes", remedy=f'give a list: ["{self.lanes}"]')
        for lane in self.lanes:
            check_name(lane, "where.lanes")
        for side, moment in (("since", self.since), ("until", self.until)):
            if moment is not None and moment.tzinfo is None:
                raise Invalid("a datetime needs a time zone", field=f"where.{side}")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise Invalid("must be before until", field="where.since")
        if not 0 < self.sampled <= 1:
            remedy = "give a part: 0.1 is one record of ten"
            raise Invalid("must be above 0 and at most 1", field="where.sampled", remedy=remedy)


def headers_asked(where: Where | None) -> tuple[str, ...]:
    """The headers that columns are asked for: those every consumer needs, and the predicate's."""
    return tuple(dict.fromkeys((*MARKS, *(where.headers if where is not None else ()))))


def salt_of(lease: LeaseId) -> int:
    """Returns a number of the partition, the same for all its readers."""
    return crc32(str(lease).encode())


def chosen_by(where: Where, part: RecordColumns, times: NDArray[np.int64], lane: str, salt: int) -> _Mask:
    """Returns which records are handed out.

    Args:
        where: The predicate.
        part: Records as columns with the headers that `headers_asked` names.
        times: Their ingestion times, ms since the epoch.
        lane: The lane they came by.
        salt: Their partition's `salt_of`, so that not the same offsets are sampled of all.
    """
    if where.lanes and lane not in where.lanes:
        return np.zeros(len(part), np.bool_)
    chosen = np.ones(len(part), np.bool_)
    if where.since is not None:
        chosen &= times >= _ms(where.since)
    if where.until is not None:
        chosen &= times < _ms(where.until)
    if where.key_prefix:
        chosen &= _stands(part.data, part.keys, where.key_prefix, part.keys.sizes >= len(where.key_prefix))
    asked = headers_asked(where)
    for name, value in where.headers.items():
        cells = part.headers[asked.index(name)]
        chosen &= _stands(part.data, cells, value, cells.sizes == len(value))
    if where.sampled < 1:
        chosen &= _mixed(part.offsets, salt) < np.uint64(int(where.sampled * _WORD))
    return chosen


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def _stands(data: memoryview, cells: Cells, text: bytes, rows: _Mask) -> _Mask:
    """Returns which of these rows begin with a text; their cells must be long enough."""
    if text and rows.any():
        found = pieces_at(data, cells.starts[rows], np.dtype(f"V{len(text)}")).view(np.uint8).reshape(-1, len(text))
        rows[rows] = (found == np.frombuffer(text, np.uint8)).all(axis=1)
    return rows


def _mixed(offsets: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """Mixes each offset into a number of 64 bits that looks random."""
    mixed = (offsets.astype(np.uint64) + np.uint64(salt)) * _GOLDEN
    for shift, times in _MIXING:
        mixed = (mixed ^ (mixed >> shift)) * times
    return mixed ^ (mixed >> _LAST_SHIFT)
