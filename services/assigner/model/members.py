"""The members of a group by id, and what placement asks of all of them at once, in columns. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

_BUCKETS: Final = 128  # so that a change of one of ten thousand copies some eighty, and these
_CHANGES_MAX: Final = 256  # put into columns together; those of more are made anew


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the group.

    `principal` is that of the certificate or token it joined with, and `secret_digest` of the secret it was given to
    come back with; each is empty where it has none.
    """

    id: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str
    joined_at_ms: int
    principal: str = ""
    secret_digest: str = ""


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
        """Returns a member's row; -1 for an unknown one."""
        return index_of(self.ids, id)

    def positions(self, members: Sequence[str]) -> NDArray[np.int64]:
        """Returns the rows of members, each of which must exist."""
        if members is self.ids or members == self.ids:
            return np.arange(len(self.ids))
        index = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return np.array([index[member] for member in members], np.int64)

    def changed(self, changes: Mapping[str, Member | None], of: "Mapping[str, Member]") -> "MemberColumns":
        """The columns of `of`, in which some members are others, new, or (None) gone; costs one look at all."""
        before = {id: at for id in changes if (at := self.position(id)) >= 0}
        after = sorted((each for each in changes.values() if each is not None), key=lambda each: each.id)
        clients = dict(self.clients)
        for id in before:
            client = self.of[id].client_id
            if left := tuple(each for each in clients.pop(client) if each != id):
                clients[client] = left
        for each in after:
            clients[each.client_id] = tuple(sorted((*clients.get(each.client_id, ()), each.id)))
        gone = list(before.values())
        ids = [id for id in self.ids if id not in before]
        places = [bisect_left(ids, each.id) for each in after]
        return MemberColumns(
            of,
            sorted([*ids, *(each.id for each in after)]),
            np.insert(np.delete(self.capacities, gone), places, [each.capacity for each in after]),
            np.insert(np.delete(self.joined_at_ms, gone), places, [each.joined_at_ms for each in after]),
            clients,
        )


_NO_MEMBERS: Final[Mapping[str, Member]] = MappingProxyType({})
_EMPTY: Final = (_NO_MEMBERS,) * _BUCKETS  # shared by all groups: own ones would take 10 KB each


class Members(Mapping[str, Member]):
    """Members by id: immutable, and iterated by id. A successor shares all unchanged parts.

    Members lie in buckets by a checksum of their ids. Once the columns were asked for, those of successors cost one
    look at all members, however many joined and left in between. Beyond a bound they are made anew.
    """

    __slots__ = ("_buckets", "_changes", "_columns", "_count")

    def __init__(self, members: Mapping[str, Member] | None = None) -> None:
        found: dict[int, dict[str, Member]] = {}
        for id, member in (members or {}).items():
            found.setdefault(_bucket(id), {})[id] = member
        self._buckets: tuple[Mapping[str, Member], ...] = _EMPTY
        if found:
            self._buckets = tuple(found.get(number, _NO_MEMBERS) for number in range(_BUCKETS))
        self._count = len(members or {})
        self._columns: MemberColumns | None = None
        self._changes: Mapping[str, Member | None] = {}  # that are not in the columns yet

    @property
    def columns(self) -> MemberColumns:
        """The members in columns."""
        if self._columns is None:
            self._columns = gathered(self)
        elif self._changes:
            self._columns = self._columns.changed(self._changes, self)
        self._changes = {}
        return self._columns

    def with_member(self, member: Member) -> "Members":
        """Returns a successor with one more member, or another under its id."""
        return self._changed({member.id: member})

    def without(self, *ids: str) -> "Members":
        """Returns a successor without some present members."""
        return self._changed(dict.fromkeys(ids))

    def _changed(self, changes: Mapping[str, Member | None]) -> "Members":
        buckets = list(self._buckets)
        count = self._count
        for id, member in changes.items():
            number = _bucket(id)
            bucket = dict(buckets[number])
            count -= len(bucket)
            if member is None:
                del bucket[id]
            else:
                bucket[id] = member
            count += len(bucket)
            buckets[number] = bucket
        result = Members.__new__(Members)
        result._buckets, result._count = tuple(buckets), count
        kept = self._columns is not None and len(self._changes) + len(changes) <= _CHANGES_MAX
        result._columns = self._columns if kept else None
        result._changes = {**self._changes, **changes} if kept else {}
        return result

    # --- a mapping

    def __getitem__(self, id: str) -> Member:
        return self._buckets[_bucket(id)][id]

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and id in self._buckets[_bucket(id)]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(id for bucket in self._buckets for id in bucket))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Members):
            return self._buckets == other._buckets
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        return f"Members({dict(self.items())!r})"


def _bucket(id: str) -> int:
    return crc32(id.encode()) % _BUCKETS


def index_of(ids: Sequence[str], id: str) -> int:
    """Returns the index of an id in sorted ids; -1 if it is missing."""
    at = bisect_left(ids, id)
    return at if at < len(ids) and ids[at] == id else -1


def gathered(members: Mapping[str, Member]) -> MemberColumns:
    """Makes the columns of members from scratch."""
    ordered = sorted(members.values(), key=lambda member: member.id)
    clients: dict[str, tuple[str, ...]] = {}
    for member in ordered:
        clients[member.client_id] = (*clients.get(member.client_id, ()), member.id)
    capacities = np.fromiter((member.capacity for member in ordered), np.float64, len(ordered))
    joined = np.fromiter((member.joined_at_ms for member in ordered), np.int64, len(ordered))
    return MemberColumns(members, [member.id for member in ordered], capacities, joined, clients)
