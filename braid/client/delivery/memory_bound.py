"""The bound on fetched records that are not done, over all clusters of a consumer, divided between lanes. No I/O.

A lane may always use its own part, as far as it is not lent. If a lane uses little, the others may use the rest, except
for a reserve. Once the lane uses more, the others fetch nothing until they are back within their parts.
"""

from collections.abc import Callable, Iterator, Mapping

from braid.kernel.limits.client import MEMORY_KEPT, READY_RECORDS_MAX


def share_of(lane: str, shares: Mapping[str, int]) -> int:
    """Returns a lane's share: its own; the least of all where others are named and it is not; 1 where none is."""
    return shares.get(lane) or min(shares.values(), default=1)


class LaneMemory:
    """One lane's part of the memory. It keeps a backlog or a paused lane from blocking the records of other lanes."""

    __slots__ = ("_bound", "blocked", "fraction", "held_back", "name", "share", "used", "waiting")

    def __init__(self, bound: "MemoryBound", share: int, fraction: float = 1.0, name: str = "") -> None:
        self._bound = bound
        self.name = name
        self.share = share
        self.fraction = fraction  # of the lane's part: the rest is for backlog cursors in it, or this is for those
        self.used = 0
        self.waiting = 0  # records that no handler has asked for; more would only cool caches
        self.blocked = False  # whether something else than bytes is full
        self.held_back = False  # whether fetching of this lane waits for room

    def review(self) -> bool:
        """Pauses fetching when the lane's part is full, and resumes it at half; returns `held_back`."""
        bytes_max = self._bound.part_bytes(self)
        records_max = max(1, int(self._bound.ready_records_max * self.fraction))
        if self.held_back:
            bytes_max, records_max = bytes_max // 2 + 1, records_max // 2 + 1
        self.held_back = self.blocked or self.used >= bytes_max or self.waiting >= records_max
        return self.held_back

    def weigh(self, size: int) -> None:
        """Adds the bytes of fetched records; a negative number moves them to another part."""
        self.used += size

    def wait(self, records: int) -> None:
        """Adds to the number of waiting records; with a negative number fewer wait, and `free` is called next."""
        self.waiting += records

    def free(self, size: int) -> None:
        """Frees the bytes of records that are done or dropped: fetching may resume."""
        self.used -= size
        if self.held_back and not self.review():
            self._bound.tell()


class MemoryBound:
    """`max_bytes` over all lanes by their shares; see `share_of`."""

    def __init__(self, max_bytes: int, shares: Mapping[str, int], ready_records_max: int = READY_RECORDS_MAX) -> None:
        """`ready_records_max` of a lane's records may wait for a handler."""
        self.max_bytes = max_bytes
        self.ready_records_max = ready_records_max
        self._shares = dict(shares)
        self._lanes: dict[str, LaneMemory] = {}
        self._backlogs: dict[str, LaneMemory] = {}
        self._on_room: list[Callable[[], None]] = []

    @property
    def used(self) -> int:
        """Bytes in use over all lanes."""
        return sum(lane.used for lane in (*self._lanes.values(), *self._backlogs.values()))

    def lane(self, name: str) -> LaneMemory:
        """Returns a lane's part."""
        if name not in self._lanes:
            self._lanes[name] = LaneMemory(self, share_of(name, self._shares), name=name)
        return self._lanes[name]

    def block(self, name: str, blocked: bool) -> None:
        """Pauses or resumes fetching of a lane and its backlogs for another reason than bytes."""
        if self.lane(name).blocked != blocked:
            for memory in self._of_lane(name):
                memory.blocked = blocked
            self.tell()

    def kept_full_by(self, name: str, size: int) -> bool:
        """Whether a lane is held back until some of these bytes are freed."""
        if not self.lane(name).held_back and name not in self._backlogs:
            return False  # as most often
        held_back = any(memory.held_back for memory in self._of_lane(name))
        return held_back and 2 * size > sum(self.part_bytes(memory) for memory in self._of_lane(name))

    def _of_lane(self, name: str) -> Iterator[LaneMemory]:
        """Returns a lane's part and that of its backlogs."""
        yield self.lane(name)
        if name in self._backlogs:
            yield self._backlogs[name]

    def divide(self, name: str, share: float) -> LaneMemory:
        """Reserves a part of a lane's memory for its backlog cursors, and returns it; 0 reserves nothing."""
        lane = self.lane(name)
        lane.fraction = 1.0 - share
        if name not in self._backlogs:
            self._backlogs[name] = LaneMemory(self, lane.share, name=name)
            self._backlogs[name].blocked = lane.blocked
        self._backlogs[name].fraction = share
        return self._backlogs[name]

    def part_bytes(self, lane: LaneMemory) -> int:
        """Returns how many bytes a lane may use now: its part, and what others lend of theirs."""
        shares = sum(each.share for each in self._lanes.values())
        part = self.max_bytes * lane.share // shares
        if len(self._lanes) > 1:
            part = self._with_loans(lane.name, part, shares)
        return part if lane.fraction == 1.0 else max(1, int(part * lane.fraction))

    def _with_loans(self, name: str, part: int, shares: int) -> int:
        lent = taken = 0
        for other in self._lanes:
            if other != name:
                theirs = self.max_bytes * self._lanes[other].share // shares
                used, kept = sum(memory.used for memory in self._of_lane(other)), int(theirs * MEMORY_KEPT)
                lent += theirs - kept if used < kept else 0
                taken += max(used, kept)
        return max(1, int(part * MEMORY_KEPT), min(part + lent, self.max_bytes - taken))

    def share_out(self, shares: Mapping[str, int]) -> None:
        """Divides the memory by other shares from now on. What is in use stays until it is done."""
        self._shares = dict(shares)
        for name in self._lanes:
            for memory in self._of_lane(name):
                memory.share = share_of(name, self._shares)
        self.tell()

    def on_room(self, listener: Callable[[], None]) -> None:
        """Registers a callback for when a lane that was held back has room."""
        self._on_room.append(listener)

    def tell(self) -> None:
        """Calls the listeners."""
        for listener in self._on_room:
            listener()
