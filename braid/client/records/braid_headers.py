"""Reads Braid's own headers of many records in columns at once. Pure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.decimals import decimals
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.ports import KafkaRecord
from braid.kernel.record_columns import Cells, RecordColumns

INGESTED_HEADER: Final = "braid-ts"
ID_HEADER: Final = "braid-id"
REPLAY_GROUP_HEADER: Final = "braid-replay-group"  # a replay to the origin is for this group only
MARKS: Final = (INGESTED_HEADER, REPLAY_GROUP_HEADER)  # the headers that a consumer asks columns for
_TIME_DIGITS_MAX: Final = 15  # digits of a plausible ingestion time
_FEW: Final = 32  # up to so many records, reading one by one is faster


def ingestion_time(raw: KafkaRecord) -> int:
    """Returns when a record was sent, ms since the epoch: its `braid-ts` header, else its own timestamp."""
    time = raw.timestamp
    for name, text in raw.headers:
        if name == INGESTED_HEADER:
            time = _milliseconds(text, raw.timestamp)
    return time


def _milliseconds(text: bytes | None, otherwise: int) -> int:
    """Reads a header's number; None if another tool wrote something else there."""
    return int(text) if text is not None and text.isdigit() and len(text) < 16 else otherwise


def ingestion_times(part: RecordColumns, cells: Cells) -> NDArray[np.int64]:
    """Reads times in decimal digits, ms since the epoch; the record's own time if a cell has none."""
    sizes = cells.sizes
    if len(sizes) <= _FEW:
        return _one_by_one(part, cells)
    if 0 < sizes[0] <= _TIME_DIGITS_MAX and (sizes == sizes[0]).all():
        said, sound = decimals(part.data, cells.starts, int(sizes[0]))
        return said if sound.all() else np.where(sound, said, part.timestamps)
    times = part.timestamps.copy()
    for size in np.unique(sizes).tolist():
        if 0 < size <= _TIME_DIGITS_MAX:
            rows = np.flatnonzero(sizes == size)
            said, sound = decimals(part.data, cells.starts[rows], size)
            times[rows] = np.where(sound, said, times[rows])
    return times


def _one_by_one(part: RecordColumns, cells: Cells) -> NDArray[np.int64]:
    times: list[int] = part.timestamps.tolist()
    for row, (start, size) in enumerate(zip(cells.starts.tolist(), cells.sizes.tolist(), strict=True)):
        if 0 < size <= _TIME_DIGITS_MAX and (said := bytes(part.data[start : start + size])).isdigit():
            times[row] = int(said)
    return np.array(times, np.int64)


def of_other_groups(part: RecordColumns, cells: Cells, group: str) -> NDArray[np.bool_] | None:
    """Returns which records are a replay for another group; None when none is."""
    named = cells.sizes > 0
    if not named.any():
        return None
    own = group.encode()
    for row in named.nonzero()[0].tolist():
        named[row] = part.cell(cells, row) != own
    return named


def without_canaries(part: RecordColumns) -> RecordColumns:
    """Drops the canary records, which no application sent: see `SEAL_CANARY`."""
    alike = part.header_counts == 0
    if not alike.any():
        return part
    alike &= (part.keys.sizes < 0) & (part.values.sizes == len(SEAL_CANARY))
    for row in alike.nonzero()[0].tolist():
        alike[row] = part.cell(part.values, row) == SEAL_CANARY
    return part.of(~alike) if alike.any() else part
