"""The exact set of the sequences a table holds, a chunk of 65,536 of one producer at a time. Pure.

A chunk at rest is whichever is shorter: its runs (first and last sequence within the chunk, two little-endian 16-bit
numbers each) or a bitmap of 8,192 bytes. Both forms and the choice are those of Roaring bitmaps (Chambi et al. 2016,
run containers in Lemire et al. 2016). A chunk thus costs 8 KiB at most, whatever was seen in whatever order, 4 bytes
when it is complete, and nothing is ever forgotten.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.errors import Refused
from pipelines.table.identity import CHUNK_SEQUENCES

CHUNK_BYTES_MAX: Final = CHUNK_SEQUENCES // 8
_RUN_BYTES: Final = 4

Bits = NDArray[np.bool_]
Lows = NDArray[np.int64]


def nothing_seen() -> Bits:
    """Returns an empty chunk: one bool a sequence, shape (65536,)."""
    return np.zeros(CHUNK_SEQUENCES, dtype=np.bool_)


def admit(seen: Bits, lows: Lows) -> Bits:
    """Returns which of some rows are new, and remembers them.

    Args:
        seen: The chunk, changed in place.
        lows: Sequences within the chunk, shape (n,), in increasing order, repeats side by side.

    Returns:
        A mask, shape (n,): true for the first row of each sequence not seen before.
    """
    fresh = ~seen[lows]
    fresh[1:] &= lows[1:] != lows[:-1]
    seen[lows] = True
    return fresh


def encode(seen: Bits) -> bytes:
    """Encodes a chunk for storage."""
    edges = np.flatnonzero(np.diff(seen.view(np.int8), prepend=0, append=0))
    if len(edges) // 2 * _RUN_BYTES >= CHUNK_BYTES_MAX:
        return np.packbits(seen).tobytes()
    runs = edges.reshape(-1, 2) - (0, 1)
    return runs.astype("<u2").tobytes()


def decode(stored: bytes) -> Bits:
    """Decodes a stored chunk.

    Raises:
        Refused: the bytes are no chunk.
    """
    if len(stored) == CHUNK_BYTES_MAX:
        return np.unpackbits(np.frombuffer(stored, dtype=np.uint8)).view(np.bool_)
    if len(stored) > CHUNK_BYTES_MAX or len(stored) % _RUN_BYTES:
        raise _damaged(f"it has {len(stored)} bytes")
    runs = np.frombuffer(stored, dtype="<u2").astype(np.int64).reshape(-1, 2)
    if np.any(runs[:, 0] > runs[:, 1]) or np.any(runs[1:, 0] <= runs[:-1, 1]):
        raise _damaged("its runs overlap")
    steps = np.zeros(CHUNK_SEQUENCES + 1, dtype=np.int64)
    steps[runs[:, 0]] += 1
    np.subtract.at(steps, runs[:, 1] + 1, 1)
    return np.cumsum(steps[:-1]).astype(np.bool_)


def _damaged(why: str) -> Refused:
    return Refused(
        f"a chunk of the table's seen set is damaged: {why}",
        field="table",
        remedy="restore the table's directory, or build it anew: pipelines.reprocess into another one",
    )
