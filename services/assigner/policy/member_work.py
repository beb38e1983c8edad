"""The processors and handlers that members may use, and how much of them they do use, by their heartbeats. Pure.

Two resources bind a member: its handlers wait, of which it runs so many at once, and they compute, on so many cores.
A lease costs what it takes of the scarcer one (Ghodsi and others, *Dominant Resource Fairness*, NSDI 2011). Both are
told in processors, so a member without anything told still counts as one: a handler is worth its part of the group's
processors. With that the placement evens out one number for each lease, and no load makes it jump between the two.

A processor that other processes take from a member shows in neither: its handlers are *delayed*. The CPU work of a
record stays the same, and takes longer there. So a member counts with the part of its processors that it got of what it
wanted, and with the part of its handlers' time that was not lost in such delays. The lost time is nobody's cost: it
would not go with the lease. Both parts fall at once and rise slowly, so a neighbour that comes and goes moves nothing
to and fro.

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
    LOAD_FALL_SECONDS,
    LOAD_RISE_SECONDS,
    PROCESSOR_PART_MIN,
    PROCESSOR_USED_MIN,
)
from services.assigner.policy.arrays import Floats

_HANDLERS_MAX: Final = 1_000_000  # that a member may say it runs; beside an absurd number the others' would vanish


class ToldWork(NamedTuple):
    """A member's own word of its work, with a heartbeat.

    Attributes:
        cores: Processors that its handlers may use.
        handlers: Handlers that it runs at once.
        cpu_micros: CPU time of its process since its last heartbeat.
        delay_micros: For so long since then its handlers were ready to compute while others had the processor.
    """

    cores: float
    handlers: int
    cpu_micros: int = 0
    delay_micros: int = 0


class SpentMicros(NamedTuple):
    """Time that handlers took, in microseconds.

    Attributes:
        busy: Of handlers that run.
        cpu: Part of it that is CPU time.
        lost: Part of it in which their threads were ready to run and had no processor.
    """

    busy: int
    cpu: int
    lost: int = 0


class Usage(NamedTuple):
    """The smoothed usage of a member, beside what it may use.

    Attributes:
        cores: Processors that its handlers may use.
        handlers: Handlers that it runs at once.
        process_per_s: CPU seconds a second of its process.
        cpu_per_s: CPU seconds a second of its handlers.
        busy_per_s: Busy seconds a second of its handlers, waiting included.
        at: As of when.
        delay_per_s: Seconds a second in which its handlers were ready to compute while others had the processor.
        lost_per_s: What was lost a second of its handlers' busy time in such delays.
        core_part: The part that it gets of the processors that it wants.
        handler_part: The part of its handlers' time that is not lost.
    """

    cores: float
    handlers: int
    process_per_s: float
    cpu_per_s: float
    busy_per_s: float
    at: float
    delay_per_s: float = 0.0
    lost_per_s: float = 0.0
    core_part: float = 1.0
    handler_part: float = 1.0

    @property
    def wait_per_s(self) -> float:
        """Returns how many handlers wait for something else than a processor, on average."""
        return max(self.busy_per_s - self.cpu_per_s - self.lost_per_s, 0.0)

    def after(self, seconds: float, told: "Usage") -> "Usage":
        """Returns the usage after a time in which it was as told."""
        gain = -math.expm1(-seconds / LOAD_RISE_SECONDS)
        process, cpu, busy, delay, lost = (
            before + (now - before) * gain for before, now in zip(self._rates(), told._rates(), strict=True)
        )
        cores = _follow(self.core_part, _part(cpu, delay), seconds)
        handlers = _follow(self.handler_part, _part(busy - lost, lost), seconds)
        return Usage(told.cores, told.handlers, process, cpu, busy, told.at, delay, lost, cores, handlers)

    def _rates(self) -> tuple[float, ...]:
        return self.process_per_s, self.cpu_per_s, self.busy_per_s, self.delay_per_s, self.lost_per_s


class MemberWork:
    """The usage of a group's members, in a leader's memory; bounded by the members that it has."""

    def __init__(self) -> None:
        self.usages: dict[str, Usage] = {}
        self.cores_per_handler = 0.0
        self.capacities: Mapping[str, float] = {}

    def heard(self, member: str, work: ToldWork | None, spent: SpentMicros, seconds: float, now: float) -> None:
        """Takes a heartbeat, `seconds` after the one before; None forgets a member that tells nothing any more."""
        if work is None or work.handlers < 1:
            self.usages.pop(member, None)
            return
        cores, handlers = _cut(work.cores, CAPACITY_MAX), int(_cut(work.handlers, _HANDLERS_MAX))
        process, delay = _rate(work.cpu_micros, seconds), _rate(work.delay_micros, seconds)
        busy, cpu, lost = (_rate(micros, seconds) for micros in spent)
        told = Usage(cores, handlers, process, cpu, busy, now, delay, min(lost, busy))
        known = self.usages.get(member)
        self.usages[member] = told if known is None else known.after(seconds, told)

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
        waiting = sum(each.busy_per_s - each.lost_per_s for each in told) * worth
        part = computing / (computing + waiting) if computing + waiting > 0 else 1.0
        got = cores * np.array([each.core_part for each in told])
        running = handlers * worth * np.array([each.handler_part for each in told])
        counts = got * part + running * (1 - part)
        self.cores_per_handler = worth
        self.capacities = dict(zip(self.usages, counts.tolist(), strict=True))

    def cost_micros(self, spent: SpentMicros) -> float:
        """Returns what a lease took of the scarcer resource, in microseconds of a processor."""
        if not self.cores_per_handler:
            return spent.busy
        cpu = min(spent.cpu, spent.busy)
        running = max(spent.busy - max(spent.lost, 0), cpu)
        return max(cpu, running * self.cores_per_handler)


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


def _part(got: float, not_got: float) -> float:
    """Returns which part of what was wanted was got; all of it where next to nothing was wanted."""
    had = max(got, 0.0) + PROCESSOR_USED_MIN
    return max(had / (had + not_got), PROCESSOR_PART_MIN)


def _follow(known: float, now: float, seconds: float) -> float:
    """Returns a part after a time: one that falls at once and rises slowly."""
    return min(now, known + (now - known) * -math.expm1(-seconds / LOAD_FALL_SECONDS))


def _cut(said: float, most: float) -> float:
    """Returns a number within bounds; what is no number is the least."""
    return min(max(CAPACITY_MIN, said), most)


def _rate(micros: int, seconds: float) -> float:
    return min(max(micros, 0) / 1e6 / seconds, LOAD_BUSY_PER_SECOND_MAX)
