"""A leader's measurements of one group during its term: the cost of each lease, and how much was moved lately. Pure.

It is a leader's memory and nothing more: the next one begins anew, and moves nothing by load until it has measured for
`LOAD_SETTLE_SECONDS`, so that a leader change moves no partition. A cost is smoothed (an exponential average, so a
sample's weight falls by 1/e each `LOAD_RISE_SECONDS`); what is read is its peak, which fades by `LOAD_FALL_SECONDS`:
a hog is seen within seconds, a pause in the traffic moves nothing. What a lease cost under its former holder says
little of the new one: there is no peak, and no further move by load, until that has been measured. Else what left a
slow host would be sent back, for it seems as dear on a fast one.
"""

import math
from array import array
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.assigner.placement import (
    BALANCE_LOOK_SECONDS,
    LOAD_BUSY_PER_SECOND_MAX,
    LOAD_FALL_SECONDS,
    LOAD_FLOOR,
    LOAD_NOMINAL_BYTE_SECONDS,
    LOAD_NOMINAL_RECORD_SECONDS,
    LOAD_RISE_SECONDS,
    LOAD_SETTLE_SECONDS,
    MOVES_COUNTED_SECONDS,
)
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.leases.lease import split
from services.assigner.model.rules import Basis
from services.assigner.policy.constraints import borne, drained, hosts_of
from services.assigner.policy.costs import Costs
from services.assigner.policy.layout import band_of, least_weight
from services.assigner.policy.member_work import MemberWork, SpentMicros, ToldWork, Usage
from services.assigner.policy.slow_members import slow_parts
from services.assigner.policy.slowness import Slowness
from services.assigner.policy.work_times import Spent, WorkTimes

_SILENCE_SECONDS: Final = 2.0  # more than heartbeats are apart, and a stall of either side
_INTERVAL_SECONDS: Final = (0.05, 10.0)  # between two heartbeats, as far as rates go by it
_IDLE: Final = SpentMicros(0, 0, 0)


class Sample(NamedTuple):
    """A member's measurement of a lease since its last heartbeat.

    CPU time, and time lost because others had the processor, are parts of the busy time.
    """

    lease: str
    records: int
    bytes: int
    busy_micros: int
    cpu_micros: int = 0
    lost_micros: int = 0


class Cost(NamedTuple):
    """The measured cost of a lease, as of `at`: the smoothed value, and the fading peak of it.

    `busy` is how many handlers it keeps busy, waiting included. `member` is whom it was measured under, `since` from
    when on.
    """

    smooth: float
    peak: float
    member: str
    since: float
    at: float
    busy: float = 0.0


class GroupLoads:
    """The measured costs of a group's leases; bounded by twice the group's partitions and members."""

    def __init__(self, now: float) -> None:
        """Begins at `now`, in seconds on a clock that never falls."""
        self._measures_since = now
        self._heard: dict[str, float] = {}
        self._work = MemberWork()
        self._work_seen_at = -math.inf
        self._times: WorkTimes | None = None
        self._slow: frozenset[str] = frozenset()  # as of the last step
        self._costs = _Measures()
        self._moved: deque[tuple[float, int, int]] = deque()

    def heard(
        self, state: Group, member: str, now: float, samples: Sequence[Sample], work: ToldWork | None = None
    ) -> None:
        """Takes a heartbeat's samples, and what the member may use and used.

        A member's first heartbeat only begins the interval; leases not its own are ignored.
        """
        before = self._heard.get(member)
        self._heard[member] = now
        if before is None:
            if len(self._heard) > len(state.members):
                self._heard = {each: at for each, at in self._heard.items() if each in state.members or each == member}
            self._work.heard(member, work and work._replace(cpu_micros=0, delay_micros=0), _IDLE, 1.0, now)
            return
        seconds = min(max(now - before, _INTERVAL_SECONDS[0]), _INTERVAL_SECONDS[1])
        self._work.heard(member, work, _spent(samples), seconds, now)
        if self._times is not None:
            self._times.heard(member, self._spent(state, member, samples), now)
        for sample in samples:
            lease = state.leases.get(sample.lease)
            if lease is not None and lease.holder == member:
                at = self._costs.place(state, sample.lease)
                known = self._costs.read(at) or Cost(0.0, 0.0, member, now, now - seconds)
                if known.member != member:
                    if _peak(known, now) > LOAD_FLOOR:  # else it was idle, which tells of no holder
                        self._measures_since = now
                    known = Cost(known.smooth, known.smooth, member, now, now - seconds, known.busy)
                known = _smoothed(known, 0.0, now - seconds)  # what was not named meanwhile was idle
                busy = min(max(sample.busy_micros, 0) / 1e6 / seconds, LOAD_BUSY_PER_SECOND_MAX)
                self._costs.write(at, _smoothed(known, _rate(sample, self._work, seconds), now, busy))

    def moved(self, partitions: int, now: float, ruled: int = 0) -> None:
        """Notes how many partitions were asked back, and how many of them because of rules."""
        if partitions:
            self._moved.append((now, partitions, ruled))
            self._measures_since = now

    @property
    def begun(self) -> bool:
        """Whether anything was measured or moved, so that the next leader would know less."""
        return bool(self._heard or self._moved or self._times is not None)

    def settled(self, now: float) -> bool:
        """Whether the leader has measured for long enough to move more: since its term began and the last move."""
        return now - self._measures_since >= LOAD_SETTLE_SECONDS

    def taken(self, state: Group, now: float) -> Loads:
        """Returns the measurements for a balance step; forgets leases that are gone."""
        self.recovered(now)
        self._costs.keep(state)
        self._look_at_work(state, now)
        moved = sum(partitions for _, partitions, _ in self._moved)
        ruled = sum(partitions for _, _, partitions in self._moved)
        self._follow_slow(slow_parts(state), now)
        costs, capacities = self._costs.peaks(now), self._work.capacities
        return Loads(costs, self.settled(now), moved, ruled, capacities, self._costs.busy(now))

    def _look_at_work(self, state: Group, now: float) -> None:
        """Sums up the members' measurements now and then: for each decision it would cost too much."""
        if now - self._work_seen_at >= BALANCE_LOOK_SECONDS:
            self._work_seen_at = now
            self._work.look(state.members)

    def _follow_slow(self, slow: Collection[str], now: float) -> None:
        """Lets leases leave a member that has become slow at once; forgets how dear they were once it has recovered."""
        if any(id not in self._slow for id in slow):
            self._measures_since = min(self._measures_since, now - LOAD_SETTLE_SECONDS)
        for id in self._slow:
            if id not in slow:
                self._costs.learn_anew(id, now)
        self._slow = frozenset(slow)

    def compare(self, state: Group, now: float) -> Mapping[str, tuple[Slowness, str]]:
        """Returns how members compare with each other, and in which lane; from now on their times are measured."""
        if self._times is None:
            self._times = WorkTimes()
        self._times.keep(state.members)
        return self._times.slowness(hosts_of(state), now)

    def compare_no_more(self) -> None:
        """Measures no times any more."""
        self._times = None

    def _spent(self, state: Group, member: str, samples: Sequence[Sample]) -> Iterator[Spent]:
        """Yields what a heartbeat says of leases that are the member's own."""
        for sample in samples:
            lease = state.leases.get(sample.lease)
            if lease is not None and lease.holder == member:
                seconds = min(max(sample.busy_micros, 0) / 1e6, LOAD_BUSY_PER_SECOND_MAX)
                yield Spent(sample.lease, sample.lease.rsplit("/", 2)[0], sample.records, seconds)

    def usage(self, member: str) -> Usage | None:
        """Returns what a member uses; None where it does not tell."""
        return self._work.usages.get(member)

    def recovered(self, now: float) -> bool:
        """Whether the budget of moves has recovered since this was last asked."""
        before = len(self._moved)
        while self._moved and now - self._moved[0][0] >= MOVES_COUNTED_SECONDS:
            self._moved.popleft()
        return len(self._moved) < before

    def uneven(self, state: Group, now: float) -> bool:
        """Whether a balance step might find something to move."""
        if not self.settled(now) or len(state.members) < 2 or state.rules.freeze is not None:
            return False  # without columns of all groups: most of them are small
        everybody, columns = state.member_columns, state.lease_columns
        here = np.array([not drained(state, state.members[id]) for id in everybody.ids] if state.rules.drains else [])
        counted = np.flatnonzero(here) if len(here) else np.arange(len(everybody.ids))
        if len(counted) < 2:
            return False
        if slow_parts(state):
            return True  # only a step knows what leases of slow members cost the others
        blocks = [(name, columns.extent(name)) for name in state.channels]
        holders = columns.holders(blocks)
        held = np.flatnonzero(holders >= 0)
        self._look_at_work(state, now)
        weights = self._costs.peaks(now).of(blocks)
        weights = np.maximum(weights, least_weight(weights))[held]
        numbers = columns.numbers(everybody.ids)[counted]
        sums = np.append(np.bincount(holders[held], weights, len(columns.members.names)), 0.0)
        loads, counts, capacities = sums[numbers], columns.counts(numbers), borne(state, self._work.capacities)[counted]
        if state.rules.policy.basis is Basis.COUNT:
            loads, capacities = counts.astype(np.float64), np.ones(len(counts))
        band = band_of(state.rules.policy)
        relative, mean = loads / capacities, float(loads.sum() / capacities.sum())
        heaviest = int(relative.argmax())
        outside = (
            relative[heaviest] > mean * (1 + band.high)
            or relative.min() < mean * (1 - band.low)
            or counts.max() - counts.min() > 1
        )
        return bool(counts[heaviest] > 1 and outside)


class _Measures:
    """Costs by lease, in columns: a block of rows a channel, as many as it has partitions."""

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[int, int]] = {}
        self._members: list[str] = []  # under whom it was measured; empty while it was not
        self._smooth, self._peaks, self._since, self._at = array("d"), array("d"), array("d"), array("d")
        self._busy = array("d")

    def place(self, state: Group, lease: str) -> int:
        """Returns the row of a lease that exists; makes room for its channel if necessary."""
        channel, partition = split(lease)
        start, size = self._blocks.get(channel, (0, 0))
        if partition >= size:
            start, size = self._grow(channel, max(partition + 1, state.channels[channel].partitions))
        return start + partition

    def _grow(self, channel: str, size: int) -> tuple[int, int]:
        """Adds a block at the end, and moves a channel's measurements there."""
        before, known = self._blocks.get(channel, (0, 0))
        start = len(self._members)
        more = size - known
        self._members += [*self._members[before : before + known], *[""] * more]
        for column in (self._smooth, self._peaks, self._since, self._at, self._busy):
            column.extend([*column[before : before + known], *[0.0] * more])
        self._blocks[channel] = (start, size)
        return start, size

    def read(self, row: int) -> Cost | None:
        """Returns a lease's measurement; None if there is none."""
        member = self._members[row]
        if not member:
            return None
        return Cost(self._smooth[row], self._peaks[row], member, self._since[row], self._at[row], self._busy[row])

    def write(self, row: int, cost: Cost) -> None:
        """Sets a lease's measurement."""
        self._smooth[row], self._peaks[row], self._members[row], self._since[row], self._at[row], self._busy[row] = cost

    def learn_anew(self, member: str, now: float) -> None:
        """Counts the leases of a member as what they cost from now on: what they cost before says nothing any more."""
        for row, known in enumerate(self._members):
            if known == member:
                self._peaks[row], self._since[row] = self._smooth[row], now

    def keep(self, state: Group) -> None:
        """Forgets channels that are gone."""
        gone = [name for name in self._blocks if name not in state.channels or state.channels[name].closed]
        for name in gone:
            del self._blocks[name]
        if sum(size for _, size in self._blocks.values()) * 2 < len(self._members):
            blocks, self._blocks = self._blocks, {}
            old = (self._members, self._smooth, self._peaks, self._since, self._at, self._busy)
            self._members = []
            self._smooth, self._peaks, self._since, self._at = array("d"), array("d"), array("d"), array("d")
            self._busy = array("d")
            for name, (start, size) in blocks.items():
                self._blocks[name] = (len(self._members), size)
                self._members += old[0][start : start + size]
                columns = (self._smooth, self._peaks, self._since, self._at, self._busy)
                for column, before in zip(columns, old[1:], strict=True):
                    column.extend(before[start : start + size])

    def peaks(self, now: float) -> Costs:
        """Returns the present cost of each lease; one that was not named for longer than a heartbeat was idle since."""
        smooth, peaks, since, at = (np.array(column) for column in (self._smooth, self._peaks, self._since, self._at))
        silent = np.flatnonzero((at < now - _SILENCE_SECONDS) & (np.maximum(smooth, peaks) > LOAD_FLOOR))
        if not len(silent):
            return Costs(dict(self._blocks), peaks)
        seconds = now - _SILENCE_SECONDS - at[silent]
        left = smooth[silent] * np.exp(-seconds / LOAD_RISE_SECONDS)
        faded = peaks[silent] + (left - peaks[silent]) * -np.expm1(-seconds / LOAD_FALL_SECONDS)
        learning = now - _SILENCE_SECONDS - since[silent] < LOAD_SETTLE_SECONDS
        peaks[silent] = np.where(learning, left, np.maximum(left, faded))
        return Costs(dict(self._blocks), peaks)

    def busy(self, now: float) -> Costs:
        """Returns how many handlers each lease keeps busy at present."""
        silent = np.maximum(now - _SILENCE_SECONDS - np.array(self._at), 0.0)
        return Costs(dict(self._blocks), np.array(self._busy) * np.exp(-silent / LOAD_RISE_SECONDS))


def _spent(samples: Sequence[Sample]) -> SpentMicros:
    """Returns the sums of a heartbeat's samples."""
    return SpentMicros(
        sum(each.busy_micros for each in samples),
        sum(each.cpu_micros for each in samples),
        sum(each.lost_micros for each in samples),
    )


def _rate(sample: Sample, work: MemberWork, seconds: float) -> float:
    """Returns busy seconds per second; untimed records cost a minimum, and hostile numbers are cut."""
    nominal = max(sample.records, 0) * LOAD_NOMINAL_RECORD_SECONDS + max(sample.bytes, 0) * LOAD_NOMINAL_BYTE_SECONDS
    timed = work.cost_micros(SpentMicros(sample.busy_micros, sample.cpu_micros, sample.lost_micros)) / 1e6
    return min(max(timed, nominal) / seconds, LOAD_BUSY_PER_SECOND_MAX)


def _smoothed(known: Cost, rate: float, now: float, busy: float = 0.0) -> Cost:
    """Returns the smoothed cost after a time at this rate, with so many handlers busy."""
    seconds = now - known.at
    if seconds <= 0:
        return known
    gain = -math.expm1(-seconds / LOAD_RISE_SECONDS)
    smooth, busy = known.smooth + (rate - known.smooth) * gain, known.busy + (busy - known.busy) * gain
    faded = known.peak + (smooth - known.peak) * -math.expm1(-seconds / LOAD_FALL_SECONDS)
    learning = now - known.since < LOAD_SETTLE_SECONDS
    return Cost(smooth, smooth if learning else max(smooth, faded), known.member, known.since, now, busy)


def _peak(cost: Cost, now: float) -> float:
    """Returns the present cost; a lease not named for longer than heartbeats are apart is idle."""
    return _smoothed(cost, 0.0, now - _SILENCE_SECONDS).peak
