"""The measured costs of leases in columns, one channel after another. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.assigner.placement import LOAD_FLOOR
from services.assigner.model.leases.lease import split
from services.assigner.policy.lease_names import names_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Costs(Mapping[str, float]):
    """Busy seconds per second by lease; idle leases are not in it.

    Attributes:
        blocks: Where each channel's partitions begin in `busy`, and how many there are.
        busy: Costs, idle ones at the floor or below.
    """

    blocks: Mapping[str, tuple[int, int]]
    busy: Floats

    def of(self, blocks: Sequence[tuple[str, int]]) -> Floats:
        """Returns the costs of the first partitions of channels, one channel after another; 0 if not measured."""
        parts = [np.zeros(0)]
        for name, size in blocks:
            start, known = self.blocks.get(name, (0, 0))
            parts.append(self.busy[start : start + min(known, size)])
            if known < size:
                parts.append(np.zeros(size - known))
        result: Floats = np.concatenate(parts)
        return result

    def without(self, channels: Collection[str]) -> "Costs":
        """Returns the costs as if some channels were idle."""
        return Costs({name: block for name, block in self.blocks.items() if name not in channels}, self.busy)

    def __getitem__(self, name: str) -> float:
        channel, partition = split(name)
        start, known = self.blocks.get(channel, (0, 0))
        if not 0 <= partition < known or self.busy[start + partition] <= LOAD_FLOOR:
            raise KeyError(name)
        return float(self.busy[start + partition])

    def __iter__(self) -> Iterator[str]:
        for name, (start, known) in sorted(self.blocks.items()):
            for partition in np.flatnonzero(self.busy[start : start + known] > LOAD_FLOOR).tolist():
                yield f"{name}/{partition}"

    def __len__(self) -> int:
        return sum(
            int(np.count_nonzero(self.busy[start : start + known] > LOAD_FLOOR))
            for start, known in self.blocks.values()
        )


def costs_of(costs: Mapping[str, float], blocks: Sequence[tuple[str, int]]) -> Floats:
    """Returns the costs of all partitions of channels, 0 if missing; accepts any mapping, `Costs` is fast."""
    if isinstance(costs, Costs):
        return costs.of(blocks)
    names = names_of(tuple(blocks))
    values = np.zeros(len(names))
    for name, cost in costs.items():
        at = names.find(name)
        if at >= 0:
            values[at] = cost
    return values
