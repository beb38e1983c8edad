"""Every group with its lag, small enough for 45,000 groups: fields to search and sort by, and messages as bytes.

A page shows a window of it: some hundred rows, in the order and with the filter that it asks for. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.kernel.errors import Invalid
from console.server.limits import ORDERS_KEPT, WINDOW_ROWS


class GroupFacts(NamedTuple):
    """A group's message, and the fields of it that pages sort and sum."""

    data: bytes
    members: int
    leases: int
    free_leases: int
    stopped: bool
    frozen: bool


class LaneLag(NamedTuple):
    """A group's lag on a lane: its message, and the fields of it that pages sort and sum."""

    data: bytes
    group: str
    stream: str
    lane: str
    records: int
    seconds: float
    stale: bool
    trend_per_s: float | None


class GroupRow(NamedTuple):
    """A row of the page's table, by whose columns it sorts and filters; the page gives them the same names."""

    group: str
    state: str
    lag: float
    lane: str
    records: int
    trend: float
    members: int
    leases: int


class Window(NamedTuple):
    """Some rows in a row: the names of their groups, where they begin, and how many there are."""

    names: Sequence[str]
    first: int
    matched: int
    total: int


class GroupTable:
    """Groups by name, and lag by group and lane."""

    def __init__(self) -> None:
        self.groups: Mapping[str, GroupFacts] = {}
        self.lags: Mapping[str, Sequence[LaneLag]] = {}
        self.more_groups = self.more_lags = False  # than may be kept
        self._rows: Sequence[GroupRow] | None = None
        self._orders: dict[tuple[str, str], Sequence[str]] = {}

    def put_groups(self, groups: Mapping[str, GroupFacts], *, more: bool) -> None:
        """Replaces all groups; `more` says that some were left out at the bound."""
        self.groups, self.more_groups = groups, more
        self._changed()

    def put_lags(self, lags: Iterable[LaneLag], *, more: bool) -> None:
        """Replaces all lag; `more` says that some was left out at the bound."""
        found: dict[str, list[LaneLag]] = {}
        for each in lags:
            found.setdefault(each.group, []).append(each)
        self.lags, self.more_lags = found, more
        self._changed()

    def window(self, sort: str, filter: str, first: int) -> Window:
        """Returns rows in an order. Raises `Invalid` for an unknown column."""
        names = self.ordered(sort, filter)
        return Window(names[first : first + WINDOW_ROWS], first, len(names), len(self._known_rows()))

    def ordered(self, sort: str, filter: str) -> Sequence[str]:
        """Returns the groups that match, in an order; the one most behind first by default. Raises `Invalid`."""
        sort = sort or "-lag"
        known = self._orders.get((sort, filter))
        if known is None:
            column, down = sort.removeprefix("-"), sort.startswith("-")
            if column not in GroupRow._fields:
                raise Invalid("there is no such column", field="sort", remedy=f"one of {', '.join(GroupRow._fields)}")
            place = GroupRow._fields.index(column)
            found = sorted(
                _matching(self._known_rows(), filter), key=itemgetter(0)
            )  # rows that are equal keep this order
            found.sort(key=itemgetter(place), reverse=down)
            while len(self._orders) >= ORDERS_KEPT:
                del self._orders[next(iter(self._orders))]
            known = self._orders[sort, filter] = [row.group for row in found]
        return known

    def worst(self, most: int) -> Sequence[LaneLag]:
        """The lanes with the most lag in seconds."""
        return nlargest(most, self._lanes(), key=lambda each: each.seconds)

    def worst_by_stream(self) -> Mapping[str, tuple[LaneLag, int]]:
        """Each stream's worst lag, and how many groups read it."""
        worst: dict[str, LaneLag] = {}
        groups: dict[str, set[str]] = {}
        for each in self._lanes():
            before = worst.get(each.stream)
            if before is None or each.seconds > before.seconds:
                worst[each.stream] = each
            groups.setdefault(each.stream, set()).add(each.group)
        return {stream: (each, len(groups[stream])) for stream, each in worst.items()}

    def _lanes(self) -> Iterable[LaneLag]:
        return (each for lanes in self.lags.values() for each in lanes)

    def _changed(self) -> None:
        self._rows = None
        self._orders.clear()

    def _known_rows(self) -> Sequence[GroupRow]:
        if self._rows is None:
            foreign = (name for name in self.lags if name not in self.groups)
            self._rows = [
                *(_row(name, facts, self.lags.get(name, ())) for name, facts in self.groups.items()),
                *(_row(name, None, self.lags[name]) for name in foreign),
            ]
        return self._rows


def group_facts(group: group_pb2.Group, before: GroupFacts | None) -> GroupFacts:
    """Reads a group; one that did not change is not read again."""
    data = group.SerializeToString()
    if before is not None and before.data == data:
        return before
    status = group.status
    frozen = group.HasField("rules") and group.rules.HasField("freeze")
    return GroupFacts(data, status.members, status.leases, status.free_leases, bool(status.stopped_lanes), frozen)


def lane_lag(lag: lag_pb2.Lag) -> LaneLag:
    """Reads a lane's lag."""
    trend = lag.trend_per_s if lag.HasField("trend_per_s") else None
    data = lag.SerializeToString()
    return LaneLag(data, lag.group, lag.stream, lag.lane, lag.lag_records, lag.lag_seconds, lag.stale, trend)


def _row(name: str, group: GroupFacts | None, lanes: Sequence[LaneLag]) -> GroupRow:
    worst = lanes[0] if lanes else None
    records, trend = 0, 0.0
    for each in lanes:  # mostly one
        records += each.records
        trend += each.trend_per_s or 0.0
        if worst is None or each.seconds > worst.seconds:
            worst = each
    lag, lane = (-1.0, "") if worst is None else (worst.seconds, f"{worst.stream}/{worst.lane}")
    members, leases = (-1, -1) if group is None else (group.members, group.leases)
    return GroupRow(name, _state(group, worst), lag, lane, records, trend, members, leases)


def _state(group: GroupFacts | None, worst: LaneLag | None) -> str:
    """A group's state as its page calls it."""
    if group is None:
        return "foreign"
    if group.stopped:
        return "blocked"
    if group.members == 0:
        return "unattended"
    if worst is not None and worst.stale:
        return "stale"
    if group.free_leases > 0:
        return "waiting"
    return "frozen" if group.frozen else "live"


def _matching(rows: Sequence[GroupRow], filter: str) -> Iterable[GroupRow]:
    """Rows in which every word of a filter occurs: in the name, the state, or the worst lane; whatever its case."""
    words = filter.lower().split()
    if not words:
        return rows
    return (row for row in rows if _has(f"{row.group}\n{row.state}\n{row.lane}".lower(), words))


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)
