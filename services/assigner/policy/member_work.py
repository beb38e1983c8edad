"""The processors and handlers that members may use, and how much of them they do use, by their heartbeats. Pure.

Two resources bind a member: its handlers wait, of which it runs so many at once, and they compute, on so many cores.
A lease costs what it takes of the scarcer one (Ghodsi and others, *Dominant Resource Fairness*, NSDI 2011). Both are
told in processors, so a member without anything told still counts as one: a handler is worth its part of the group's
processors. With that the placement evens out one number for each lease, and no load makes it jump between the two.

This holds once every member of a group tells both. Before that, a group is placed by busy time alone.

What members tell is bounded by what the others tell, and by what they do. Beyond the median a member counts for no more
than `CAPACITY_USED_FACTOR` times what it uses, and never for more than `CAPACITY_SAID_FACTOR` times the median. So a
large machine grows into its part, and one that only says that it is large gets none. An operator who knows better sets
a capacity.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.assigner.placement import (
    CAPACITY_MAX,
    CAPACITY_MIN,
    CAPACITY_SAID_FACTOR,
    CAPACITY_USED_FACTOR,
    LOAD_BUSY_PER_SECOND_MAX,
    LOAD_RISE_SECONDS,
)
from services.assigner.policy.arrays import Floats

_HANDLERS_MAX: Final = 1_000_000  # that a member may say it runs; beside an absurd number the others' would vanish


class ToldWork(NamedTuple):
    """A member's own word of its work, with a heartbeat.

    Attributes:
        cores: Processors that its handlers may use.
        handlers: Handlers that it runs at once.
        cpu_micros: CPU time of its process since its last heartbeat.
    """

    cores: float
    handlers: int
    cpu_micros: int = 0


class Usage(NamedTuple):
    """The smoothed usage of a member, beside what it may use.

    Attributes:
        cores: Processors that its handlers may use.
        handlers: Handlers that it runs at once.
        process_per_s: CPU seconds a second of its process.
        cpu_per_s: CPU seconds a second of its handlers.
        busy_per_s: Busy seconds a second of its handlers, waiting included.
        at: As of when.
    """

    cores: float
    handlers: int
    process_per_s: float
    cpu_per_s: float
    busy_per_s: float
    at: float

    @property
    def wait_per_s(self) -> float:
        """Returns how many handlers wait, on average."""
        return max(self.busy_per_s - self.cpu_per_s, 0.0)


class MemberWork:
    """The usage of a group's members, in a leader's memory; bounded by the members that it has."""

    def __init__(self) -> None:
        self.usages: dict[str, Usage] = {}
        self.cores_per_handler = 0.0
        self.capacities: Mapping[str, float] = {}

    def heard(
        self, member: str, work: ToldWork | None, cpu_micros: int, busy_micros: int, seconds: float, now: float
    ) -> None:
        """Takes a heartbeat, `seconds` after the one before; None forgets a member that tells nothing any more."""
        if work is None or work.handlers < 1:
            self.usages.pop(member, None)
            return
        cores, handlers = _cut(work.cores, CAPACITY_MAX), int(_cut(work.handlers, _HANDLERS_MAX))
        process, cpu, busy = (_rate(micros, seconds) for micros in (work.cpu_micros, cpu_micros, busy_micros))
        known = self.usages.get(member)
        if known is None:
            self.usages[member] = Usage(cores, handlers, process, cpu, busy, now)
            return
        gain = -math.expm1(-seconds / LOAD_RISE_SECONDS)
        self.usages[member] = Usage(
            cores,
            handlers,
            known.process_per_s + (process - known.process_per_s) * gain,
            known.cpu_per_s + (cpu - known.cpu_per_s) * gain,
            known.busy_per_s + (busy - known.busy_per_s) * gain,
            now,
        )

    def look(self, members: Collection[str]) -> None:
        """Computes the worth of a handler, and what each member counts for; nothing while a member does not tell."""
        if len(self.usages) > len(members):
            self.usages = {each: usage for each, usage in self.usages.items() if each in members}
        if not members or len(self.usages) < len(members) or not all(each in self.usages for each in members):
            self.cores_per_handler, self.capacities = 0.0, {}
            return
        told = list(self.usages.values())
        cores = bounded([each.cores for each in told], [each.cpu_per_s for each in told])
        handlers = bounded([float(each.handlers) for each in told], [each.busy_per_s for each in told])
        worth = float(cores.sum() / handlers.sum())
        computing = sum(each.cpu_per_s for each in told)
        waiting = sum(each.busy_per_s for each in told) * worth
        part = computing / (computing + waiting) if computing + waiting > 0 else 1.0
        counts = cores * part + handlers * worth * (1 - part)
        self.cores_per_handler = worth
        self.capacities = dict(zip(self.usages, counts.tolist(), strict=True))

    @property
    def busy_handlers(self) -> float:
        """How many handlers of the group run, on average."""
        return sum(each.busy_per_s for each in self.usages.values())

    def cost_micros(self, busy_micros: int, cpu_micros: int) -> float:
        """Returns what a lease took of the scarcer resource, in microseconds of a processor."""
        if not self.cores_per_handler:
            return busy_micros
        return max(min(cpu_micros, busy_micros), busy_micros * self.cores_per_handler)


def bounded(said: Floats | Sequence[float], used: Sequence[float] | None = None) -> Floats:
    """Returns what members say, none of it far above the median; of an even number of members, the lower one.

    Args:
        said: What each says that it may use.
        used: What each uses of it; None where that is not known.
    """
    values: Floats = np.asarray(said, np.float64)
    if len(values) < 2:
        return values
    middle = (len(values) - 1) // 2
    median = float(np.partition(values, middle)[middle])
    result: Floats = np.minimum(values, median * CAPACITY_SAID_FACTOR)
    if used is not None:
        result = np.minimum(result, np.maximum(median, np.asarray(used) * CAPACITY_USED_FACTOR))
    return result


def _cut(said: float, most: float) -> float:
    """Returns a number within bounds; what is no number is the least."""
    return min(max(CAPACITY_MIN, said), most)


def _rate(micros: int, seconds: float) -> float:
    return min(max(micros, 0) / 1e6 / seconds, LOAD_BUSY_PER_SECOND_MAX)
