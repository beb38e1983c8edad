"""The newest commits of a part of the offset log, as columns: one entry for each group and partition."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class OffsetPair(NamedTuple):
    """A group and a topic in which it commits."""

    group: str
    topic: str


class CommitColumns(NamedTuple):
    """The newest commit of each key. All arrays have one entry for each key; keys of one pair stand together.

    Attributes:
        pairs: The distinct groups and topics.
        pair: int64, the place of each key's pair in `pairs`.
        partitions: int64.
        gone: bool, whether the key's last record is a tombstone; its other columns mean nothing then.
        offsets: int64, the committed offsets.
        times_ms: int64, the coordinator's wall clock at each commit.
        metadata: The committed metadata as it was written; empty for none.
    """

    pairs: Sequence[OffsetPair]
    pair: NDArray[np.int64]
    partitions: NDArray[np.int64]
    gone: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    metadata: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.pair)
