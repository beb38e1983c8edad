"""How long records take at each member of a group, lane by lane, in a leader's memory. Pure.

Sums of records and of the time that handlers ran fade with `SLOW_WINDOW_SECONDS`, so what is told is seconds old. They
are kept for each lease, because one partition with dear records says nothing of its member.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.assigner.placement import (
    SLOW_RECORDS_MIN,
    SLOW_SILENCE_SECONDS,
    SLOW_SPENT_MIN_SECONDS,
    SLOW_WINDOW_SECONDS,
)
from services.assigner.policy.slowness import MemberTimes, Slowness, slowness

_FORGOTTEN: Final = 1e-3  # of a record, or a second: what has faded so far is dropped


class Spent(NamedTuple):
    """A heartbeat's measurement of one lease.

    Attributes:
        lease: Its name.
        lane: `<stream>/<lane>`.
        records: Records done.
        seconds: Seconds that its handlers ran.
    """

    lease: str
    lane: str
    records: int
    seconds: float


class _Sums(NamedTuple):
    lane: str
    records: float
    seconds: float


class _LaneTime(NamedTuple):
    seconds: float  # that a record takes
    spent: float


class WorkTimes:
    """The times of a group's members; bounded by the leases that they held lately."""

    def __init__(self) -> None:
        self._leases: dict[str, dict[str, _Sums]] = {}
        self._lanes: dict[str, tuple[float, Mapping[str, _LaneTime]]] = {}  # by member, as of when
        self._heard: dict[str, float] = {}

    def heard(self, member: str, measured: Iterable[Spent], now: float) -> None:
        """Takes a heartbeat's measurements of the leases that a member holds."""
        fade = math.exp(-max(now - self._heard.get(member, now), 0.0) / SLOW_WINDOW_SECONDS)
        self._heard[member] = now
        faded = {
            lease: _Sums(lane, records * fade, seconds * fade)
            for lease, (lane, records, seconds) in self._leases.get(member, {}).items()
            if max(records, seconds) * fade > _FORGOTTEN
        }
        for each in measured:
            _, records, seconds = faded.get(each.lease, _Sums(each.lane, 0.0, 0.0))
            faded[each.lease] = _Sums(each.lane, records + max(each.records, 0), seconds + each.seconds)
        self._leases[member] = faded
        self._lanes[member] = now, _lane_times(faded.values())

    def keep(self, members: Iterable[str]) -> None:
        """Forgets members that are gone."""
        here = set(members)
        for gone in [member for member in self._heard if member not in here]:
            del self._heard[gone], self._leases[gone], self._lanes[gone]

    def slowness(self, hosts: Mapping[str, str], now: float) -> Mapping[str, tuple[Slowness, str]]:
        """Returns, by member, how it compares with the others, and the lane that was compared.

        Args:
            hosts: The host of each member of the group.
            now: As in `heard`.
        """
        ids = list(hosts)
        numbers = {member: number for number, member in enumerate(ids)}
        lanes: dict[str, int] = {}
        rows: list[tuple[int, int, float, float]] = []
        for member, (at, told) in self._lanes.items():
            if member in numbers and now - at < SLOW_SILENCE_SECONDS:
                for lane, each in told.items():
                    rows.append((lanes.setdefault(lane, len(lanes)), numbers[member], each.seconds, each.spent))
        if not rows:
            return {}
        of_lane, of_member, seconds, spent = (np.array(column) for column in zip(*rows, strict=True))
        _, of_host = np.unique(list(hosts.values()), return_inverse=True)
        found = slowness(MemberTimes(of_lane, of_member, seconds, spent), np.asarray(of_host, np.int64))
        names = list(lanes)
        return {ids[number]: (each, names[each.lane]) for number, each in found.items()}


def _lane_times(sums: Iterable[_Sums]) -> Mapping[str, _LaneTime]:
    """Returns the time of a record by lane, where there is enough work to say anything.

    The lease that took longest is left out where the others say enough: its records may be dear, whoever handles them.
    """
    lanes: dict[str, list[_Sums]] = {}
    for each in sums:
        lanes.setdefault(each.lane, []).append(each)
    found: dict[str, _LaneTime] = {}
    for lane, told in lanes.items():
        dearest = max(told, key=lambda each: each.seconds)
        spent = sum(each.seconds for each in told)
        for some in ([each for each in told if each is not dearest], told):
            records, seconds = sum(each.records for each in some), sum(each.seconds for each in some)
            if records >= SLOW_RECORDS_MIN or seconds >= SLOW_SPENT_MIN_SECONDS:
                found[lane] = _LaneTime(seconds / max(records, 1.0), spent)
                break
    return found
