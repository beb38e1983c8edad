"""The members of a group by id, and what placement asks of all of them at once, in columns. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the group."""

    id: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str
    joined_at_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class MemberColumns:
    """Members sorted by id; arrays of shape (N,).

    Attributes:
        of: Whose columns these are.
        ids: Their ids.
        capacities: What they declared they bear; 0 for nothing said.
        joined_at_ms: When they joined.
        clients: Ids by client id.
    """

    of: Mapping[str, Member]
    ids: list[str] = field(default_factory=list)
    capacities: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    joined_at_ms: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    clients: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def position(self, id: str) -> int:
        """Where a member stands; -1 for none."""
        return index_of(self.ids, id)

    def positions(self, members: Sequence[str]) -> NDArray[np.int64]:
        """Where members stand; each must be one."""
        if members is self.ids or members == self.ids:
            return np.arange(len(self.ids))
        index = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return np.array([index[member] for member in members], np.int64)

    def without(self, id: str) -> "MemberColumns":
        """The columns without a member that is there."""
        at, client = self.position(id), self.of[id].client_id
        ids, clients = list(self.ids), dict(self.clients)
        del ids[at]
        left = tuple(each for each in clients.pop(client) if each != id)
        if left:
            clients[client] = left
        return MemberColumns(self.of, ids, np.delete(self.capacities, at), np.delete(self.joined_at_ms, at), clients)

    def with_member(self, member: Member) -> "MemberColumns":
        """The columns with a member that is not there yet."""
        at = bisect_left(self.ids, member.id)
        ids, clients = list(self.ids), dict(self.clients)
        ids.insert(at, member.id)
        clients[member.client_id] = tuple(sorted((*clients.get(member.client_id, ()), member.id)))
        capacities = np.insert(self.capacities, at, member.capacity)
        return MemberColumns(self.of, ids, capacities, np.insert(self.joined_at_ms, at, member.joined_at_ms), clients)


class Members(dict[str, Member]):
    """By id; never changed once it is made. Once its columns were asked for, those of its successors cost little."""

    __slots__ = ("_columns",)

    def __init__(self, members: Mapping[str, Member] | None = None) -> None:
        super().__init__(members or {})
        self._columns: MemberColumns | None = None

    @property
    def columns(self) -> MemberColumns:
        """The members in columns."""
        if self._columns is None:
            self._columns = gathered(self)
        return self._columns

    def with_member(self, member: Member) -> "Members":
        """With one more, or another under its id."""
        result = Members(self)
        known = dict.get(self, member.id)
        dict.__setitem__(result, member.id, member)
        if self._columns is not None:
            columns = self._columns if known is None else self._columns.without(member.id)
            result._columns = replace(columns.with_member(member), of=result)
        return result

    def without(self, *ids: str) -> "Members":
        """Without some that are there."""
        result = Members(self)
        columns = self._columns
        for id in ids:
            dict.__delitem__(result, id)
            columns = None if columns is None else columns.without(id)
        result._columns = None if columns is None else replace(columns, of=result)
        return result


def index_of(ids: Sequence[str], id: str) -> int:
    """Where an id stands among sorted ones; -1 for nowhere."""
    at = bisect_left(ids, id)
    return at if at < len(ids) and ids[at] == id else -1


def gathered(members: Mapping[str, Member]) -> MemberColumns:
    """The columns of members, made from nothing."""
    ordered = sorted(members.values(), key=lambda member: member.id)
    clients: dict[str, tuple[str, ...]] = {}
    for member in ordered:
        clients[member.client_id] = (*clients.get(member.client_id, ()), member.id)
    capacities = np.fromiter((member.capacity for member in ordered), np.float64, len(ordered))
    joined = np.fromiter((member.joined_at_ms for member in ordered), np.int64, len(ordered))
    return MemberColumns(members, [member.id for member in ordered], capacities, joined, clients)
