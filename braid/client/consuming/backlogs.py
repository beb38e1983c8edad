"""Leases whose work is split: a live cursor at the head of the log, backlog cursors on older ranges of it.

Each cursor is a `PartitionWork` of its own with its own tracker; the live one stands for the lease, the others are
`behind` it, and every commit states all of them as one progress (`kernel.progress.cursors`). Of a lane's memory, of its
turn and of the running handlers backlogs have no more than their share, so that records at the head wait no longer for
them. The oldest backlog of a lease is read first, by a fetcher of its own; when it is done it closes by itself.
"""

import logging
from collections.abc import Callable, MutableMapping
from typing import Final

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.commits.restore import Restored
from braid.client.consuming.cluster import ClusterWork
from braid.client.delivery.cursors import undone_below
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.partition_work import PartitionWork
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.records.delivery import OwnedLease
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import BACKLOG_PERMILLE_DEFAULT, FETCH_RECORDS_MAX, SPLIT_RECORDS_MIN
from braid.kernel.limits.envelope import ENVELOPE_CURSORS_MAX
from braid.kernel.ports import OffsetAt
from braid.kernel.progress.tracker import Progress

_log = logging.getLogger("braid.consumer")
_WHOLE: Final = 1_000  # thousandths


class LaneBacklog:
    """The backlog cursors of one lane, at one consumer; `ready_queue.BacklogQueue`."""

    def __init__(self, lane: str, slots: Callable[[], int]) -> None:
        """`slots` says how many handlers may run at once; 0 where the application takes records by itself."""
        self._lane = lane
        self._slots = slots
        self.works: list[PartitionWork] = []
        self.permille = 0

    @property
    def lane(self) -> str:
        """The lane."""
        return self._lane

    @property
    def share(self) -> float:
        """The part of the lane's turn."""
        return self.permille / _WHOLE

    def room(self) -> int:
        """How many more records may be out: of the running handlers no more than the share, and one at least."""
        slots = self._slots()
        if not slots:
            return FETCH_RECORDS_MAX
        return max(1, int(slots * self.share)) - sum(work.out for work in self.works)


class Backlogs:
    """Of one consumer."""

    def __init__(
        self,
        works: MutableMapping[LeaseId, PartitionWork],
        make: Callable[[OwnedLease, ClusterWork, int], PartitionWork],
        ready: ReadyQueue,
        memory: MemoryBound,
        *,
        ordered: bool,
        slots: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        """`works` by lease; `make` makes one that begins at an offset; `changed` hears when `told` says something else.

        `ordered` says that records of a key keep their order, which a split loosens.
        """
        self._works = works
        self._make = make
        self._ready = ready
        self._memory = memory
        self._ordered = ordered
        self._slots = slots
        self._changed = changed
        self._lanes: dict[str, LaneBacklog] = {}

    def told(self) -> list[wire.SplitLease]:
        """All leases that are split."""
        return [_told(work) for work in self._works.values() if work.behind]

    async def split(self, work: PartitionWork, cluster: ClusterWork, share: float, *, relaxed: bool) -> str:
        """Begins at the log's end, or where fetching is by now if that is later, and leaves what is below to a backlog.

        A lease that is split and not far behind at its head keeps its cursors and gets the share.

        Args:
            work: What stands for the lease.
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
        end = max(end, work.progress.fetched)  # meanwhile more came, was fetched, and is this cursor's
        permille = min(max(round(share * _WHOLE), 1), _WHOLE - 1)
        left = undone_below(work, end)
        if left < SPLIT_RECORDS_MIN or len(work.cursors) >= ENVELOPE_CURSORS_MAX:
            if not work.behind:
                return f"it is {max(left, 0):,} offsets behind; a split is worth it from {SPLIT_RECORDS_MIN:,} on"
            work.backlog_permille = permille
            work.version += 1
            self._share_out(work.lease.id.channel.lane)
            _log.info("%s is split at %d already: its backlogs have another share", work.lease.id, work.start)
        else:
            self._begin_head(work, cluster, end, permille)
            _log.info("%s is split at %d: %d offsets behind it", work.lease.id, end, left)
        cluster.committer.hurry()
        self._changed()
        return ""

    def _begin_head(self, work: PartitionWork, cluster: ClusterWork, end: int, permille: int) -> None:
        head = self._make(work.lease, cluster, end)
        head.busy, head.committed_at = work.busy, work.committed_at
        head.behind, work.behind = [*work.behind, work], []
        head.backlog_permille = permille
        head.begin(Progress(end), work.topic_id)
        cluster.intake.remove(work)
        self._works[work.lease.id] = head
        self._fall_behind(work, end, permille)
        cluster.add(head)

    def resume(self, work: PartitionWork, cluster: ClusterWork, restored: Restored) -> None:
        """Makes the backlog cursors that a commit states, for a lease whose work begins."""
        start = 0
        for progress, until in restored.behind:
            older = self._make(work.lease, cluster, start)
            older.begin(progress, restored.topic_id)
            older.leader_epoch, older.restored_end = restored.leader_epoch, restored.end
            older.busy = work.busy
            work.behind.append(older)
            start = until
        work.start = start
        work.backlog_permille = restored.backlog_permille or BACKLOG_PERMILLE_DEFAULT
        for older, (_, until) in zip(work.behind, restored.behind, strict=True):
            self._fall_behind(older, until, work.backlog_permille)
        if work.behind:
            self._changed()

    def close_finished(self, work: PartitionWork, cluster: ClusterWork) -> None:
        """The lowest cursors whose ranges are done exist no more: the next one states what they still had to."""
        closed = False
        while work.behind and _is_done(oldest := work.behind[0]):
            work.behind.pop(0)
            following, last = work.cursors[0], oldest.progress.snapshot()
            following.progress.inherit(last.rejected, last.expired, last.rejected_before)
            following.start = 0
            following.leader_epoch = max(following.leader_epoch, oldest.leader_epoch)
            work.skipped += oldest.skipped
            work.backlog_permille = work.backlog_permille if work.behind else 0
            cluster.read_behind(work, done=oldest)
            self.forget(oldest)
            closed = True
        if closed:
            work.version += 1
            self._changed()
            if not work.behind:
                _log.info("%s has caught up: it is split no more", work.lease.id)

    def forget(self, work: PartitionWork) -> None:
        """A backlog cursor has come to its end, or its lease has."""
        lane = work.lease.id.channel.lane
        work.end()
        if lane in self._lanes and work in self._lanes[lane].works:
            self._lanes[lane].works.remove(work)
            self._share_out(lane)

    def _fall_behind(self, work: PartitionWork, until: int, permille: int) -> None:
        lane = work.lease.id.channel.lane
        backlog = self._lanes.setdefault(lane, LaneBacklog(lane, self._slots))
        backlog.works.append(work)
        work.fall_behind(until, self._memory.divide(lane, permille / _WHOLE), _queue(lane))
        self._share_out(lane)

    def _share_out(self, lane: str) -> None:
        """All backlogs of a lane together have the largest share that one of them was given."""
        backlog = self._lanes[lane]
        shares = [each.backlog_permille for each in self._works.values() if each.lease.id.channel.lane == lane]
        backlog.permille = max(shares, default=0) if backlog.works else 0
        self._memory.divide(lane, backlog.share)
        self._ready.divide(_queue(lane), backlog if backlog.works else None)
        if not backlog.works:
            del self._lanes[lane]
        self._memory.tell()


def _queue(lane: str) -> str:
    return f"{lane} backlog"


def _is_done(work: PartitionWork) -> bool:
    return work.until is not None and work.progress.base >= work.until


def _told(work: PartitionWork) -> wire.SplitLease:
    share = work.backlog_permille / _WHOLE
    return wire.SplitLease(lease=str(work.lease.id), epoch=work.lease.epoch, at=work.start, share=share)
