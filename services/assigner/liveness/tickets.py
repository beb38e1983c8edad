"""Tickets: they name a member's open Join stream on the Beat stream of the same connection. Pure.

A ticket counts only for the connection it was issued to, and is never issued again. Tickets of one term count up from a
random number, so tickets of an earlier term, another replica or another connection name no member.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from braid.kernel.ports import Caller

T = TypeVar("T")


class Origin(NamedTuple):
    """Whose streams belong together: one connection of one principal, or all of a principal with a certificate."""

    peer: str
    tenant: str
    principal: str


def origin_of(caller: Caller) -> Origin:
    """Where a stream comes from. Whoever has a certificate opens connections anew when it is rotated.

    A verified principal decides which tenant it is in, and may be declared to another while its streams are open.
    """
    if caller.authenticated:
        return Origin("", "", caller.principal)
    return Origin(caller.peer, caller.tenant, caller.principal)


class Tickets(Generic[T]):
    """Issued tickets and their holders, by connection."""

    def __init__(self, first: int) -> None:
        """`first` is a random number of up to 40 bits."""
        self._next = first
        self._held: dict[Origin, dict[int, T]] = {}

    def issue(self, origin: Origin, holder: T) -> int:
        """Issues a new ticket."""
        self._next += 1
        self._held.setdefault(origin, {})[self._next] = holder
        return self._next

    def void(self, origin: Origin, ticket: int) -> None:
        """Voids a ticket: it names no member any more."""
        held = self._held.get(origin)
        if held is not None and held.pop(ticket, None) is not None and not held:
            del self._held[origin]

    def of(self, origin: Origin) -> Mapping[int, T]:
        """Returns the holders of one connection's tickets."""
        return MappingProxyType(self._held.get(origin, {}))
