"""The members of a group by id, and what placement asks of all of them at once, in columns. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

_JOINED_MAX: Final = 256  # put into columns together; those of more are made anew


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

    def with_members(self, members: Sequence[Member]) -> "MemberColumns":
        """The columns with members that are not there yet."""
        joined = sorted(members, key=lambda member: member.id)
        at = [bisect_left(self.ids, member.id) for member in joined]
        clients = dict(self.clients)
        for member in joined:
            clients[member.client_id] = tuple(sorted((*clients.get(member.client_id, ()), member.id)))
        return MemberColumns(
            self.of,
            sorted([*self.ids, *(member.id for member in joined)]),
            np.insert(self.capacities, at, [member.capacity for member in joined]),
            np.insert(self.joined_at_ms, at, [member.joined_at_ms for member in joined]),
            clients,
        )


class Members(dict[str, Member]):
    """By id; never changed once it is made. Once its columns were asked for, those of its successors cost little.

    Those of who joins are put in when columns are asked for again: for all at once, where many join together.
    """

    __slots__ = ("_columns", "_joined")

    def __init__(self, members: Mapping[str, Member] | None = None) -> None:
        super().__init__(members or {})
        self._columns: MemberColumns | None = None
        self._joined: tuple[Member, ...] = ()  # and not in the columns yet

    @property
    def columns(self) -> MemberColumns:
        """The members in columns."""
        if self._columns is None:
            self._columns = gathered(self)
        elif self._joined:
            self._columns = replace(self._columns.with_members(self._joined), of=self)
        self._joined = ()
        return self._columns

    def with_member(self, member: Member) -> "Members":
        """With one more, or another under its id."""
        result = Members(self)
        dict.__setitem__(result, member.id, member)
        if member.id in self and self._columns is not None:
            result._columns = replace(self.columns.without(member.id).with_members([member]), of=result)
        elif self._columns is not None and len(self._joined) < _JOINED_MAX:
            result._columns, result._joined = self._columns, (*self._joined, member)
        return result

    def without(self, *ids: str) -> "Members":
        """Without some that are there."""
        result = Members(self)
        columns = self.columns if self._columns is not None else None
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
