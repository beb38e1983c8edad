"""Divides handlers between lanes by the lanes' shares, and lends idle ones to other lanes.

A handler takes records of its own lane first. While that lane has none it works for the others, but one handler of each
lane never does. So no lane waits for another's slow handlers, and lent handlers return as they finish. If an
application says how many handlers each lane has, nothing is lent.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from braid.client.records.record import Record
from braid.kernel.limits.client import HANDLERS_PER_LANE_MIN

if TYPE_CHECKING:
    from braid.client.delivery.ready_queue import ReadyQueue


class HandlerDuty(NamedTuple):
    """The lanes that one handler works for.

    Attributes:
        lane: Whose records it takes first; empty: those of all in turns.
        helps: Whether it takes others' while that lane has none.
    """

    lane: str
    helps: bool


ANY = HandlerDuty("", True)
RETIRED = HandlerDuty("", False)  # takes nothing


def roles(handlers: int, shares: Mapping[str, int]) -> Sequence[HandlerDuty]:
    """Divides so many handlers between lanes, by their shares (1 at least). Pure.

    If they are too few for every lane to keep one and lend another, all of them work for all lanes.
    """
    if len(shares) < 2 or handlers < HANDLERS_PER_LANE_MIN * len(shares):
        return [ANY] * handlers
    whole = sum(shares.values())
    parts = {lane: max(1, handlers * share // whole) for lane, share in shares.items()}

    def beyond(lane: str) -> int:
        return parts[lane] * whole - handlers * shares[lane]

    while sum(parts.values()) > handlers:
        parts[max((lane for lane in parts if parts[lane] > 1), key=beyond)] -= 1
    while sum(parts.values()) < handlers:
        parts[min(parts, key=beyond)] += 1
    return [HandlerDuty(lane, helps=number > 0) for lane, part in parts.items() for number in range(part)]


def own_roles(handlers: Mapping[str, int]) -> Sequence[HandlerDuty]:
    """The duties of handlers that are reserved for each lane, and work for no other. Pure."""
    return [HandlerDuty(lane, helps=False) for lane, count in handlers.items() for _ in range(count)]


class HandlerPlace:
    """The place from which one handler takes records.

    Attributes:
        lane: See `HandlerDuty`.
        helps: See `HandlerDuty`.
    """

    __slots__ = ("_next", "_ready", "_run", "helps", "lane")

    def __init__(self, ready: "ReadyQueue") -> None:
        """Takes records of all lanes in turns, until `work_as` says otherwise."""
        self._ready = ready
        self._run, self._next = ready.run, ready.run.records
        self.lane, self.helps = ANY

    def work_as(self, role: HandlerDuty) -> None:
        """Takes so from now on."""
        self.lane, self.helps = role

    @property
    def retired(self) -> bool:
        """Whether it takes nothing any more: fewer handlers are to run."""
        return not self.lane and not self.helps

    def take_quickly(self) -> Record | None:
        """Returns the next record, or None if the caller must use `ReadyQueue.take`."""
        records = self._next
        if records and (self.helps or self._run.is_of_lane(self.lane)):
            return records.popleft()
        return self._ready.take_quickly(self)
