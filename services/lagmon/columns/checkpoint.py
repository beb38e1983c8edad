"""A checkpoint of one cluster's commits: all rows, and up to where the offset log was read for them. Pure.

A file is a magic line, a head in JSON with its length before it, the columns one behind the other, and a checksum of
all of it. What is cut, changed or of another version is refused as a whole.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.sampling import LAG_CHECKPOINT_ROWS
from services.lagmon.columns.progress import PairName

_Ints = NDArray[np.int64]
_MAGIC: Final = b"braid offsets 1\n"
_LENGTH: Final = struct.Struct("<I")
_COLUMNS: Final = ("<u4", "<u4", "<u4", "<i8", "<i8", "<u4")  # pair, partition, origin, offset, time, metadata's length


class DamagedCheckpoint(ValueError):
    """Bytes that are no checkpoint of this version, or not all of one."""


class SavedCommits(NamedTuple):
    """Commits of one partition of the offset log, as a model takes them."""

    pairs: Sequence[PairName]
    pair: _Ints
    partitions: _Ints
    gone: NDArray[np.bool_]
    offsets: _Ints
    times_ms: _Ints
    metadata: Sequence[bytes]


class Checkpoint(NamedTuple):
    """The commits of one cluster at one instant.

    Attributes:
        topic_id: Of the offset log.
        time_ms: The wall clock then.
        positions: By partition of the offset log, the first offset that was not read.
        epochs: By partition, the newest leader epoch of what was read; -1 where it is unknown.
        pairs: Groups and topics.
        pair: The place of each row's group and topic in `pairs`; rows of one stand together.
        partitions: Of each row.
        origins: The partition of the offset log from which each row came.
        offsets, times_ms, metadata: The commit of each row.
    """

    topic_id: bytes
    time_ms: int
    positions: Sequence[int]
    epochs: Sequence[int]
    pairs: Sequence[PairName]
    pair: _Ints
    partitions: _Ints
    origins: _Ints
    offsets: _Ints
    times_ms: _Ints
    metadata: Sequence[bytes]

    def usable(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Returns the partitions of an offset log from which reading can go on, as far as its ends tell."""
        if len(starts) != len(self.positions):
            return []
        places = zip(starts, self.positions, ends, strict=True)
        return [number for number, (start, position, end) in enumerate(places) if start <= position <= end]

    def commits(self, origin: int, size: int = LAG_CHECKPOINT_ROWS) -> Iterator[SavedCommits]:
        """Yields the commits that came from one partition of the offset log, some of them at a time; none if none."""
        every = np.flatnonzero(self.origins == origin)
        for at in range(0, len(every), size):
            rows = every[at : at + size]
            numbers, pair = np.unique(self.pair[rows], return_inverse=True)
            yield SavedCommits(
                [self.pairs[number] for number in numbers.tolist()],
                pair,
                self.partitions[rows],
                np.zeros(len(rows), np.bool_),
                self.offsets[rows],
                self.times_ms[rows],
                [self.metadata[row] for row in rows.tolist()],
            )


def write_checkpoint(found: Checkpoint) -> bytes:
    """Returns the bytes of a checkpoint."""
    head = {
        "topic_id": found.topic_id.hex(),
        "time_ms": found.time_ms,
        "positions": list(found.positions),
        "epochs": list(found.epochs),
        "pairs": found.pairs,
        "rows": len(found.pair),
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    lengths = np.fromiter(map(len, found.metadata), np.int64, len(found.metadata))
    columns = (found.pair, found.partitions, found.origins, found.offsets, found.times_ms, lengths)
    parts = [column.astype(kind).tobytes() for column, kind in zip(columns, _COLUMNS, strict=True)]
    body = b"".join([_MAGIC, _LENGTH.pack(len(text)), text, *parts, *found.metadata])
    return body + _LENGTH.pack(zlib.crc32(body))


def read_checkpoint(data: bytes) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        DamagedCheckpoint: it is none, is cut or changed, or is of another version.
    """
    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + 2 * _LENGTH.size:
        raise DamagedCheckpoint("no checkpoint of this version")
    body = memoryview(data)[: -_LENGTH.size]
    if (zlib.crc32(body),) != _LENGTH.unpack_from(data, len(body)):
        raise DamagedCheckpoint("its checksum does not match")
    try:
        return _read(body)
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise DamagedCheckpoint(f"it does not hold what it says: {error}") from error


def _read(body: memoryview) -> Checkpoint:
    at = len(_MAGIC) + _LENGTH.size
    (size,) = _LENGTH.unpack_from(body, len(_MAGIC))
    head = json.loads(bytes(body[at : at + size]))
    at += size
    columns: list[_Ints] = []
    for kind in map(np.dtype, _COLUMNS):
        columns.append(np.frombuffer(body, kind, head["rows"], at).astype(np.int64))
        at += kind.itemsize * head["rows"]
    pair, partitions, origins, offsets, times_ms, lengths = columns
    pairs = [PairName(*map(str, each)) for each in head["pairs"]]
    if int(lengths.sum()) != len(body) - at or int(pair.max(initial=-1)) >= len(pairs):
        raise ValueError("its columns do not fit together")
    ends = np.cumsum(lengths) + at
    text = bytes(body)
    metadata = [text[end - size : end] for end, size in zip(ends.tolist(), lengths.tolist(), strict=True)]
    return Checkpoint(
        bytes.fromhex(head["topic_id"]),
        int(head["time_ms"]),
        [int(each) for each in head["positions"]],
        [int(each) for each in head["epochs"]],
        pairs,
        pair,
        partitions,
        origins,
        offsets,
        times_ms,
        metadata,
    )
