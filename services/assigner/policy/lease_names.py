"""Names of the leases of many channels, made only when one is asked for. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from services.assigner.model.leases.columns import Indices
from services.assigner.model.leases.lease import split

_REMEMBERED: Final = 8  # groups: the largest are asked about again and again, the others cost nothing


@dataclass(frozen=True, slots=True, eq=False)
class LeaseNames:
    """Leases by position: channel after channel, partitions ascending.

    Attributes:
        channels: Names of channels.
        of_channel: Per lease, the index of its channel; shape (P,).
        partitions: Per lease, its partition; shape (P,).
    """

    channels: Sequence[str]
    of_channel: Indices
    partitions: Indices

    def at(self, positions: Indices) -> "LeaseNames":
        """Returns the names at ascending positions."""
        return LeaseNames(self.channels, self.of_channel[positions], self.partitions[positions])

    def find(self, name: str) -> int:
        """Returns the position of a lease; -1 when it is none of these."""
        channel, partition = split(name)
        if partition < 0 or channel not in self.channels:
            return -1
        number = self.channels.index(channel)
        start, end = np.searchsorted(self.of_channel, [number, number + 1]).tolist()
        at = start + int(np.searchsorted(self.partitions[start:end], partition))
        return at if at < end and self.partitions[at] == partition else -1

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, at: int) -> str:
        return f"{self.channels[int(self.of_channel[at])]}/{int(self.partitions[at])}"

    def __iter__(self) -> Iterator[str]:
        return (self[at] for at in range(len(self)))


@lru_cache(maxsize=_REMEMBERED)
def names_of(blocks: tuple[tuple[str, int], ...]) -> LeaseNames:
    """Makes the names of all partitions of channels, given as (name, partitions)."""
    sizes = np.array([size for _, size in blocks], np.int64)
    starts = np.cumsum(sizes) - sizes
    of_channel = np.repeat(np.arange(len(blocks)), sizes)
    partitions = np.arange(len(of_channel)) - np.repeat(starts, sizes)
    of_channel.setflags(write=False)
    partitions.setflags(write=False)
    return LeaseNames([name for name, _ in blocks], of_channel, partitions)
