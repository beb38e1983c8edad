"""What a term as leader has measured of one group: what each lease costs, and how much was moved lately. Pure.

It is a leader's memory and nothing more: the next one begins anew, and moves nothing by load until it has measured for
`LOAD_SETTLE_SECONDS`, so that a leader change moves no partition. A cost is smoothed (an exponential average, so a
sample's weight falls by 1/e each `LOAD_RISE_SECONDS`); what is read is its peak, which fades by `LOAD_FALL_SECONDS`:
a hog is seen within seconds, a pause in the traffic moves nothing. What a lease cost under its former holder says
little of the new one: there is no peak, and no further move by load, until that has been measured. Else what left a
slow host would be sent back, for it seems as dear on a fast one.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from braid.kernel.limits import (
    LOAD_BUSY_PER_SECOND_MAX,
    LOAD_FALL_SECONDS,
    LOAD_FLOOR,
    LOAD_NOMINAL_BYTE_SECONDS,
    LOAD_NOMINAL_RECORD_SECONDS,
    LOAD_RISE_SECONDS,
    LOAD_SETTLE_SECONDS,
    PLACEMENT_BAND_HIGH,
    PLACEMENT_BAND_LOW,
)
from services.assigner.constraints import capacity_of, drained
from services.assigner.events import Loads
from services.assigner.group import Group

_MINUTE: Final = 60.0
_SILENCE_SECONDS: Final = 2.0  # more than heartbeats are apart, and a stall of either side
_INTERVAL_SECONDS: Final = (0.05, 10.0)  # between two heartbeats, as far as rates go by it


class Sample(NamedTuple):
    """What a member said of a lease in a heartbeat, since the one before."""

    lease: str
    records: int
    bytes: int
    busy_micros: int


class Cost(NamedTuple):
    """Busy seconds per second of a lease: the smoothed value, and the fading peak of it, as of `at`.

    `member` is whom it was measured under, `since` from when on.
    """

    smooth: float
    peak: float
    member: str
    since: float
    at: float


class GroupLoads:
    """Costs of a group's leases. Holds no more entries than the group has leases and members."""

    def __init__(self, now: float) -> None:
        """`now` in seconds on a clock that never falls, as everywhere here."""
        self._measures_since = now
        self._heard: dict[str, float] = {}
        self._costs: dict[str, Cost] = {}
        self._moved: deque[tuple[float, int, int]] = deque()

    def heard(self, state: Group, member: str, now: float, samples: Iterable[Sample]) -> None:
        """A heartbeat came. Its first only begins the interval; leases that are not the member's are passed over."""
        before = self._heard.get(member)
        self._heard[member] = now
        if before is None:
            self._heard = {each: at for each, at in self._heard.items() if each in state.members or each == member}
            return
        seconds = min(max(now - before, _INTERVAL_SECONDS[0]), _INTERVAL_SECONDS[1])
        for sample in samples:
            lease = state.leases.get(sample.lease)
            if lease is not None and lease.holder == member:
                known = self._costs.get(sample.lease, Cost(0.0, 0.0, member, now, now - seconds))
                if known.member != member:
                    if _peak(known, now) > LOAD_FLOOR:  # else it was idle, which tells of no holder
                        self._measures_since = now
                    known = Cost(known.smooth, known.smooth, member, now, now - seconds)
                known = _smoothed(known, 0.0, now - seconds)  # what was not named meanwhile was idle
                self._costs[sample.lease] = _smoothed(known, _rate(sample, seconds), now)

    def moved(self, partitions: int, now: float, ruled: int = 0) -> None:
        """So many partitions were asked back, some of them because of rules."""
        if partitions:
            self._moved.append((now, partitions, ruled))
            self._measures_since = now

    def settled(self, now: float) -> bool:
        """Whether it was measured for long enough, since the term began and since anything moved, to move more."""
        return now - self._measures_since >= LOAD_SETTLE_SECONDS

    def taken(self, state: Group, now: float) -> Loads:
        """What a balance step goes by; forgets leases that are no more."""
        self.recovered(now)
        self._costs = {lease: cost for lease, cost in self._costs.items() if lease in state.leases}
        peaks = {lease: _peak(cost, now) for lease, cost in self._costs.items()}
        costs = {lease: peak for lease, peak in peaks.items() if peak > LOAD_FLOOR}
        moved = sum(partitions for _, partitions, _ in self._moved)
        return Loads(costs, self.settled(now), moved, sum(ruled for _, _, ruled in self._moved))

    def recovered(self, now: float) -> bool:
        """Whether moves were made so long ago, since this was last asked, that as many may be made again."""
        before = len(self._moved)
        while self._moved and now - self._moved[0][0] >= _MINUTE:
            self._moved.popleft()
        return len(self._moved) < before

    def uneven(self, state: Group, now: float) -> bool:
        """Whether a balance step might find something to move. Costs one pass over the leases."""
        members = [id for id, member in state.members.items() if not drained(state, member)]
        if not self.settled(now) or len(members) < 2 or state.rules.freeze is not None:
            return False
        loads, counts = dict.fromkeys(members, 0.0), dict.fromkeys(members, 0)
        for name, lease in state.leases.items():
            if lease.holder in loads:
                cost = self._costs.get(name)
                loads[lease.holder] += LOAD_FLOOR if cost is None else max(_peak(cost, now), LOAD_FLOOR)
                counts[lease.holder] += 1
        relative = _relative(state, loads)
        heaviest, mean = max(relative, key=relative.__getitem__), sum(loads.values()) / _capacity(state, members)
        outside = (
            relative[heaviest] > mean * (1 + PLACEMENT_BAND_HIGH)
            or min(relative.values()) < mean * (1 - PLACEMENT_BAND_LOW)
            or max(counts.values()) - min(counts.values()) > 1
        )
        return counts[heaviest] > 1 and outside


def _rate(sample: Sample, seconds: float) -> float:
    """Busy seconds per second; records that were not timed cost what records cost at least. Hostile numbers are cut."""
    nominal = max(sample.records, 0) * LOAD_NOMINAL_RECORD_SECONDS + max(sample.bytes, 0) * LOAD_NOMINAL_BYTE_SECONDS
    return min(max(sample.busy_micros / 1e6, nominal) / seconds, LOAD_BUSY_PER_SECOND_MAX)


def _smoothed(known: Cost, rate: float, now: float) -> Cost:
    """The cost after a time of this rate."""
    seconds = now - known.at
    if seconds <= 0:
        return known
    smooth = known.smooth + (rate - known.smooth) * -math.expm1(-seconds / LOAD_RISE_SECONDS)
    faded = known.peak + (smooth - known.peak) * -math.expm1(-seconds / LOAD_FALL_SECONDS)
    learning = now - known.since < LOAD_SETTLE_SECONDS
    return known._replace(smooth=smooth, peak=smooth if learning else max(smooth, faded), at=now)


def _peak(cost: Cost, now: float) -> float:
    """What it costs now: not named for longer than heartbeats are apart means idle."""
    return _smoothed(cost, 0.0, now - _SILENCE_SECONDS).peak


def _relative(state: Group, loads: Mapping[str, float]) -> dict[str, float]:
    return {member: load / capacity_of(state, state.members[member]) for member, load in loads.items()}


def _capacity(state: Group, members: Iterable[str]) -> float:
    return sum(capacity_of(state, state.members[member]) for member in members)
