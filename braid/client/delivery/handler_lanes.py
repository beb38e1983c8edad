"""Which lane a handler works for: handlers are divided by the lanes' shares, and those with nothing to do are lent.

A handler takes what its own lane has first. While that has nothing it works for the others, but one of each lane's
never does: so no lane waits for a slow handler of another, and what was lent comes back as it ends. Nothing is lent
where an application says how many each lane has.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from braid.client.records.record import Record
from braid.client.records.slices import Slice
from braid.kernel.limits.client import HANDLERS_PER_LANE_MIN

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor
    from braid.client.delivery.ready_queue import ReadyQueue


class Role(NamedTuple):
    """Of one handler.

    Attributes:
        lane: Whose records it takes first; empty: those of all in turns.
        helps: Whether it takes others' while that lane has none.
    """

    lane: str
    helps: bool


ANY = Role("", True)


def roles(handlers: int, shares: Mapping[str, int]) -> Sequence[Role]:
    """Divides so many handlers between lanes, by their shares (1 at least). Pure.

    Where they are too few for every lane to keep one and lend another, all of them work for all lanes.
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
    return [Role(lane, helps=number > 0) for lane, part in parts.items() for number in range(part)]


def own_roles(handlers: Mapping[str, int]) -> Sequence[Role]:
    """So many of each lane, which work for no other. Pure."""
    return [Role(lane, helps=False) for lane, count in handlers.items() for _ in range(count)]


class HandlerPlace:
    """Where one handler takes what it handles."""

    __slots__ = ("_ready", "_run", "helps", "lane")

    def __init__(self, ready: "ReadyQueue") -> None:
        """Takes of all lanes in turns, until it is told otherwise."""
        self._ready = ready
        self._run: deque[Record] = ready.run
        self.lane, self.helps = ANY

    def take_quickly(self) -> Record | None:
        """The next record, or None when `take` has to see to it."""
        run = self._run
        if run and (self.helps or self._ready.runs(self.lane)):
            return run.popleft()
        return self._ready.take_quickly(self)

    async def take(self) -> Record | None:
        """See `ReadyQueue.take`."""
        return await self._ready.take(self)

    async def take_slice(self, max_records: int) -> "Slice[Cursor] | None":
        """See `ReadyQueue.take_slice`."""
        return await self._ready.take_slice(max_records, self)
