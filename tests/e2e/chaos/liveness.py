"""I13 from logs: while faults last, work stands still nowhere for longer than their kind may cost. Pure.

Sending stands still where a producer has no acknowledgement in a lane, or a record of it waits for its own; working,
where a partition holds acknowledged records and none of them is settled. Time in which the producer itself, or the
partition's cluster, was hit does not count: what stood still there was the fault.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from testbed.ground.field import Mark
from testbed.ground.journals import Line
from testbed.ground.load import fate_of
from tests.e2e.chaos.catalogue import FAULTS, Kind

NOTED_MS: Final = 1_000  # what stands still for less is nothing to speak of
SLACK: Final = 2.0  # on what is promised of the time after healing
GIVEN_MIN: Final = 0.9  # of the machine's time; with less, a late moment says nothing of the mesh
_NEVER: Final = 1 << 62


@dataclass
class Act(Mark):
    """A fault of the deck from its first step to its last; `subject` says that it is one, `what` names it.

    Attributes:
        given: How much of the machine's time there was: 1 all of it.
        sends_seconds: The longest time for which a producer stood still in it.
        works_seconds: The longest for which a partition did.
    """

    given: float = 1.0
    sends_seconds: float = 0.0
    works_seconds: float = 0.0


class Gap(NamedTuple):
    """A time in which something stood still. `ms` counts of it what no fault excuses."""

    whose: str
    sends: bool
    begin_ms: int
    end_ms: int
    ms: int


Outages = Mapping[str, Sequence[tuple[int, int]]]


def gaps(lines: Sequence[Line], marks: Sequence[Mark], given_up_ms: Callable[[Line], int | None]) -> list[Gap]:
    """Every gap worth a word, of producers until they end in order."""
    found: dict[str, list[tuple[int, int]]] = {}
    for mark in (mark for mark in marks if mark.hit):
        found.setdefault(mark.subject, []).append((mark.begin_ms, _NEVER if mark.end_ms is None else mark.end_ms))
    outages = {subject: joined(intervals) for subject, intervals in found.items()}
    return [*_sends(lines, outages), *_waits(lines, outages), *_works(lines, outages, given_up_ms)]


def _sends(lines: Sequence[Line], outages: Outages) -> Iterator[Gap]:
    """A lane's first record opens its row: what comes before is the start."""
    acked: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        if line.kind == "acked":
            acked.setdefault((line.process, _lane(line)), []).append(line.ms)
    last = max((line.ms for line in lines), default=0)
    ended = {line.process: line.ms for line in lines if line.kind == "ended"}
    for (process, lane), times in acked.items():
        row = [*sorted(times), ended.get(process, last)]
        yield from _between(row, f"{process} in lane {lane}", True, outages.get(process, ()))


def _waits(lines: Sequence[Line], outages: Outages) -> Iterator[Gap]:
    """The record that waited longest among those that waited at the same time."""
    sent = {line.value: line.ms for line in lines if line.kind == "sent"}
    waited: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for line in lines:
        begin = sent.get(line.value, line.ms) if line.kind == "acked" else line.ms
        if line.ms - begin >= NOTED_MS:
            waited.setdefault((line.process, _lane(line)), []).append((begin, line.ms))
    for (process, lane), intervals in waited.items():
        for times in longest(intervals):
            yield from _between(times, f"a record of {process} in lane {lane}", True, outages.get(process, ()))


def _lane(line: Line) -> str:
    return line.topic.rsplit(".", 2)[-2]


def longest(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest of overlapping intervals, one after the other."""
    found: list[tuple[int, int]] = []
    over = -1
    for begin, end in sorted(intervals):
        if found and begin <= over:
            found[-1] = max(found[-1], (begin, end), key=lambda each: each[1] - each[0])
        else:
            found.append((begin, end))
        over = max(over, end)
    return found


def _works(lines: Sequence[Line], outages: Outages, given_up_ms: Callable[[Line], int | None]) -> Iterator[Gap]:
    settled: dict[bytes, int] = {}
    for line in lines:
        if line.kind in ("processed", "rejected"):
            settled[line.value] = min(line.ms, settled.get(line.value, line.ms))
    waits: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for line in lines:
        if line.kind == "acked" and fate_of(line.value) != "poison":
            done = settled.get(line.value, given_up_ms(line))
            if done is None or done > line.ms:
                waits.setdefault(line.log, []).append((line.ms, _NEVER if done is None else done))
    last = max((line.ms for line in lines), default=0)
    for log, intervals in waits.items():
        cluster, topic, partition = log
        for busy in _busy(intervals, last):
            yield from _between(busy, f"{topic}/{partition} on {cluster}", False, outages.get(cluster, ()))


def _busy(waits: Sequence[tuple[int, int]], last: int) -> Iterator[list[int]]:
    """For each stretch in which something waits: its begin, each time something is settled, its end."""
    known = [(begin, min(end, last)) for begin, end in waits if begin < last]
    steps = sorted([*((begin, 1) for begin, _ in known), *((end, -1) for _, end in known)])
    waiting, row = 0, []
    for at, step in steps:
        if step > 0 and waiting:
            waiting += 1
            continue
        row.append(at)
        waiting += step
        if not waiting:
            yield row
            row = []


def _between(times: Sequence[int], whose: str, sends: bool, outages: Sequence[tuple[int, int]]) -> Iterator[Gap]:
    for begin, end in pairwise(times):
        if end - begin >= NOTED_MS and (ms := excused(begin, end, outages)) >= NOTED_MS:
            yield Gap(whose, sends, begin, end, ms)


def joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times, none of them twice, in order."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def excused(begin: int, end: int, outages: Sequence[tuple[int, int]]) -> int:
    """The longest part of a time that lies outside of outages, which are in order and apart."""
    longest, at = 0, begin
    for out, back in outages:
        if back > begin and out < end:
            longest, at = max(longest, out - at), max(at, back)
    return max(longest, end - at)


def stalls(acts: Sequence[Act], found: Sequence[Gap]) -> Iterator[str]:
    """Notes in each act how long work stood still; yields what stood still for longer than any act about it allows."""
    for gap in found:
        about = [act for act in acts if act.begin_ms < gap.end_ms and (act.end_ms is None or act.end_ms > gap.begin_ms)]
        for act in about:
            if gap.sends:
                act.sends_seconds = max(act.sends_seconds, gap.ms / 1_000)
            else:
                act.works_seconds = max(act.works_seconds, gap.ms / 1_000)
        about = about or [act for act in acts if act.begin_ms < gap.end_ms][-1:]  # what a fault left behind
        if about and all(gap.ms / 1_000 * act.given > _allowed(FAULTS[act.what], gap) for act in about):
            during = ", ".join(act.what for act in about)
            what = "was without an acknowledgement" if gap.sends else "had work and none of it settled"
            yield f"{gap.whose} {what} for {gap.ms / 1_000:.1f} s, during: {during}"


def _allowed(kind: Kind, gap: Gap) -> float:
    return kind.sends_seconds if gap.sends else kind.works_seconds


def late(
    promised: Mapping[str, float], figures: Mapping[str, Sequence[float]], given: Mapping[str, float]
) -> list[str]:
    """Figures in seconds that came later than twice what is promised, on a machine that gave its time."""
    return [
        f"{name}: {max(figures[name]):.1f}, promised {aim:g}"
        for name, aim in promised.items()
        if name in figures and given[name] >= GIVEN_MIN and max(figures[name]) > SLACK * aim
    ]


def not_judged(
    promised: Mapping[str, float], figures: Mapping[str, Sequence[float]], given: Mapping[str, float]
) -> list[str]:
    """Figures that came too late on a machine that withheld its time: they have to be measured again."""
    missed = late(promised, figures, dict.fromkeys(given, 1.0))
    return [each for each in missed if each not in late(promised, figures, given)]
