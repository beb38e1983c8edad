"""Leases whose work is split: a live cursor at the head of the log, backlog cursors on older ranges of it.

Each cursor has progress of its own, and every commit states all of them as one (`kernel.progress.cursors`). Backlogs
get no more than their share of a lane's memory, its turns and the running handlers, so records at the head do not wait
longer for them. A fetcher of its own reads the oldest backlog of a lease first. When that is done it closes by itself.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.commits.restore import Restored
from braid.client.consuming.cluster import ClusterWork
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import BACKLOG_PERMILLE_DEFAULT, FETCH_RECORDS_MAX, SPLIT_RECORDS_MIN
from braid.kernel.limits.envelope import ENVELOPE_CURSORS_MAX
from braid.kernel.ports import OffsetAt

_log = logging.getLogger("braid.consumer")
_WHOLE: Final = 1_000  # thousandths


class LaneBacklog:
    """The backlog cursors of one lane, at one consumer; `ready_queue.BacklogQueue`."""

    def __init__(self, lane: str, slots: Callable[[], int]) -> None:
        """`slots` says how many handlers may run at once; 0 where the application takes records by itself."""
        self._lane = lane
        self._slots = slots
        self.cursors: tuple[Cursor, ...] = ()
        self._permille = 0

    @property
    def lane(self) -> str:
        """The lane's name."""
        return self._lane

    @property
    def share(self) -> float:
        """The part of the lane's turn that backlogs get."""
        return self._permille / _WHOLE

    @property
    def permille(self) -> int:
        """The share in thousandths."""
        return self._permille

    @property
    def out(self) -> int:
        """How many records of the backlogs are handed out."""
        return sum(cursor.out for cursor in self.cursors)

    def add(self, *cursors: Cursor) -> None:
        """Adds backlog cursors of the lane."""
        self.cursors += cursors

    def remove(self, cursor: Cursor) -> None:
        """Removes a cursor that was closed, or whose lease is gone."""
        self.cursors = tuple(each for each in self.cursors if each is not cursor)

    def divide(self, permille: int) -> None:
        """Sets the backlogs' part of the lane's turn, in thousandths."""
        self._permille = permille

    def room(self) -> int:
        """Returns how many more records may be out: the share of the running handlers, one at least."""
        slots = self._slots()
        if not slots:
            return FETCH_RECORDS_MAX
        return max(1, int(slots * self.share)) - self.out


class Backlogs:
    """The split leases of one consumer."""

    def __init__(
        self,
        works: Mapping[LeaseId, LeaseWork],
        ready: ReadyQueue,
        memory: MemoryBound,
        *,
        ordered: bool,
        slots: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        """`works` by lease; `changed` is called when `told` changes.

        `ordered`: records of a key keep their order, which a split loosens.
        """
        self._works = works
        self._ready = ready
        self._memory = memory
        self._ordered = ordered
        self._slots = slots
        self._changed = changed
        self._lanes: dict[str, LaneBacklog] = {}

    def told(self) -> list[wire.SplitLease]:
        """Lists all leases that are split."""
        return [_told(work) for work in self._works.values() if work.behind]

    async def split(self, work: LeaseWork, cluster: ClusterWork, share: float, *, relaxed: bool) -> str:
        """Begins at the log's end, or where fetching is by now if that is later, and leaves what is below to a backlog.

        A lease that is split and not far behind at its head keeps its cursors and gets the share.

        Args:
            work: On the lease.
            cluster: Where it lies.
            share: What the backlogs of its lane may have of memory, turns and handlers; within 0 and 1.
            relaxed: Whether the order of a key may be kept within each cursor alone.

        Returns:
            Why it is not split; empty when it is.
        """
        if self._ordered and not relaxed:
            return "its records keep an order, which a split keeps within each cursor alone: allow that with relaxed"
        place = work.lease.topic_partition
        try:
            end = (await cluster.admin.offsets_at({place: OffsetAt.LATEST}))[place]
        except BraidError as error:
            return f"the end of its log is not known: {error}"
        if self._works.get(work.lease.id) is not work or not work.working:
            return "its lease was moving"
        end = max(end, work.head.progress.fetched)  # records fetched meanwhile belong to this cursor
        permille = min(max(round(share * _WHOLE), 1), _WHOLE - 1)
        work.note_acked()
        left = undone_below(work.head, end)
        if left < SPLIT_RECORDS_MIN or len(work.cursors) >= ENVELOPE_CURSORS_MAX:
            if not work.behind:
                return f"it is {max(left, 0):,} offsets behind; a split is worth it from {SPLIT_RECORDS_MIN:,} on"
            work.share(permille)
            self._share_out(work.lease.id.channel.lane)
            _log.info("%s is split at %d already: its backlogs have another share", work.lease.id, work.head.start)
        else:
            self._begin_head(work, cluster, end, permille)
            _log.info("%s is split at %d: %d offsets behind it", work.lease.id, end, left)
        cluster.committer.hurry()
        self._changed()
        return ""

    def _begin_head(self, work: LeaseWork, cluster: ClusterWork, end: int, permille: int) -> None:
        older = work.split(end, permille)
        cluster.fetching.leave_head(older)
        self._fall_behind(older, end, permille)
        cluster.add(work)

    def resume(self, work: LeaseWork, restored: Restored) -> None:
        """Restores the backlog cursors that a commit states, for a lease whose work begins."""
        if not work.behind:
            return
        work.share(restored.backlog_permille or BACKLOG_PERMILLE_DEFAULT)
        for older, (_, until) in zip(work.behind, restored.behind, strict=True):
            self._fall_behind(older, until, work.backlog_permille)
        self._changed()

    def close_finished(self, cluster: ClusterWork, work: LeaseWork) -> None:
        """Closes the lowest cursors whose ranges are done; the next cursor states what they still had to state."""
        closed = False
        while (oldest := work.close_oldest()) is not None:
            cluster.fetching.read_behind(work, done=oldest)
            self.forget(oldest)
            closed = True
        if closed:
            self._changed()
            if not work.behind:
                _log.info("%s has caught up: it is split no more", work.lease.id)

    def forget(self, cursor: Cursor) -> None:
        """Forgets a backlog cursor that is finished, or whose lease is gone."""
        lane = cursor.lease.id.channel.lane
        cursor.end()
        if lane in self._lanes and cursor in self._lanes[lane].cursors:
            self._lanes[lane].remove(cursor)
            self._share_out(lane)

    def _fall_behind(self, cursor: Cursor, until: int, permille: int) -> None:
        lane = cursor.lease.id.channel.lane
        backlog = self._lanes.setdefault(lane, LaneBacklog(lane, self._slots))
        backlog.add(cursor)
        cursor.fall_behind(until, self._memory.divide(lane, permille / _WHOLE), _queue(lane))
        self._share_out(lane)

    def _share_out(self, lane: str) -> None:
        """Gives all backlogs of a lane together the largest share that one of them was given."""
        backlog = self._lanes[lane]
        shares = [each.backlog_permille for each in self._works.values() if each.lease.id.channel.lane == lane]
        backlog.divide(max(shares, default=0) if backlog.cursors else 0)
        self._memory.divide(lane, backlog.share)
        self._ready.divide(_queue(lane), backlog if backlog.cursors else None)
        if not backlog.cursors:
            del self._lanes[lane]
        self._memory.tell()


def _queue(lane: str) -> str:
    return f"{lane} backlog"


def undone_below(cursor: Cursor, end: int) -> int:
    """Counts the offsets of a cursor's range below `end` that are not done."""
    return cursor.progress.done_ranges.add(0, cursor.progress.base).gaps(0, end).count


def _told(work: LeaseWork) -> wire.SplitLease:
    share = work.backlog_permille / _WHOLE
    return wire.SplitLease(lease=str(work.lease.id), epoch=work.lease.epoch, at=work.head.start, share=share)
