"""The work on one lease: its progress, what is handed out of it, and its end. No I/O; other parts fetch and commit."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from braid.client.delivery.dead_letter_limit import LaneBrake
from braid.client.delivery.failed_attempts import FailedAttempts
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.memory_bound import LaneMemory
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Settling, Stage
from braid.client.records.delivery import Failed, OwnedLease
from braid.client.records.intake_filter import IntakeFilter
from braid.client.records.record import QuarantinedBatch, Record, Row, missing
from braid.client.records.slices import Slice, below, in_order, slice_of_rows
from braid.client.records.where import Where, salt_of
from braid.kernel.busy_time import BusyTime
from braid.kernel.errors import text_of
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.client import ACKS_KEPT_MAX
from braid.kernel.ports import FetchedColumns
from braid.kernel.progress.fields import LaneShare
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import RecordColumns

_log = logging.getLogger("braid.consumer")


class PartitionWork:
    """Work on one lease under one epoch; a new grant makes a new one."""

    def __init__(
        self,
        lease: OwnedLease,
        *,
        group: str,
        ready: ReadyQueue,
        settling: Settling,
        memory: LaneMemory,
        may_start: Callable[[], bool] | None,
        brake: LaneBrake | None = None,
        order: KeyOrder[Row, Slice["PartitionWork"]] | None = None,
        where: Where | None = None,
        start: int = 0,
    ) -> None:
        """Begins with a lease that was granted, or with one cursor's part of it, from offset `start` on.

        `may_start` says whether a handler may start now, where the lease's deadline decides that (exclusive); `brake`
        whether records of its lane may be dead-lettered (None: always), `order` which may be out at once (None: all),
        `where` which are wanted at all (None: all).
        """
        self.lease = lease
        self.stage = Stage.RESTORING
        self.topic_id = bytes(16)
        self.leader_epoch = -1  # the newest of those that took what was fetched or is done; -1: unknown
        self.restored_end = 0  # nothing at or above it was done when the lease was restored
        self.version = 0  # of progress; grows with every change worth a commit
        self.committed_version = -1
        self.committed_at = 0.0
        self.memory = memory
        self.start = start
        self.until: int | None = None  # end of a backlog cursor's range
        self.behind: list[PartitionWork] = []  # backlog cursors of the lease, by increasing offset
        self.backlog_permille = 0  # of the work, for those
        self.queue = lease.id.channel.lane  # where what is fetched waits for a handler
        self.held_bytes = 0  # of `memory.used`
        self._progress: Progress | None = None
        self.lane_share = LaneShare(lease.id.channel.lane, memory.share)
        self._ready = ready
        self._settling = settling
        self._may_start = may_start
        self._brake = brake or LaneBrake()
        self._sieve = IntakeFilter(group, where, lease.id.channel.lane, salt_of(lease.id))
        self.skipped = 0  # by predicate
        self.content = 0  # bytes of keys and values that were taken; who counts them begins anew
        self._order = order
        self.ordered = order is not None
        self.one_by_one = may_start is not None  # that is asked for each before it is handed out
        self._acked: list[int] = []  # offsets, not noted yet; records would burden the garbage collection
        self._acked_bytes = 0
        self._acks_kept = ACKS_KEPT_MAX
        self._out = 0
        self._copying = 0  # of those out: on their way to the dlq lane
        self.failures = FailedAttempts()
        self._uncopied: dict[int, int] = {}  # first and last offset of quarantined batches without a copy
        self._drained = asyncio.Event()
        self.gone = asyncio.Event()  # the lease is
        self._records = 0
        self._bytes = 0
        ready.open(self.queue)
        self.busy = BusyTime()  # cursors of a lease share one

    # --- life

    @property
    def progress(self) -> Progress:
        """The tracker, with all that was acknowledged; only once restored."""
        self.note_acked()
        return self.noted

    @property
    def noted(self) -> Progress:
        """As `progress`, without what was acknowledged lately: enough for who asks about a record that is out."""
        assert self._progress is not None, "progress is known once restored"
        return self._progress

    @property
    def restored(self) -> bool:
        """Whether committed progress was read."""
        return self._progress is not None

    @property
    def working(self) -> bool:
        """Whether records are fetched and handed out."""
        return self.stage is Stage.WORKING

    @property
    def draining(self) -> bool:
        """Whether the lease was asked back."""
        return self.stage is Stage.DRAINING

    @property
    def ended(self) -> bool:
        """Whether the lease is gone."""
        return self.stage is Stage.ENDED

    @property
    def crowded(self) -> bool:
        """Whether records of its lane wait that no handler asked for yet."""
        return self.memory.waiting > 0

    @property
    def handled(self) -> int:
        """Records the application works on, whatever became of the lease."""
        self.note_acked()
        return self._out - self._copying + sum(each.handled for each in self.behind)

    @property
    def copying(self) -> int:
        """Records on their way to the dlq lane."""
        return self._copying + sum(each.copying for each in self.behind)

    @property
    def out(self) -> int:
        """Records that were handed out by this cursor and are not settled."""
        return self._out

    @property
    def cursors(self) -> Sequence["PartitionWork"]:
        """All that works on the lease, by increasing offset; this is the last, the one at the head of the log."""
        return (*self.behind, self)

    @property
    def read_up(self) -> bool:
        """Whether all of a backlog cursor's range was fetched."""
        return self.until is not None and self.progress.fetched >= self.until

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        self.note_acked()
        return (self.restored and self.version != self.committed_version) or any(each.dirty for each in self.behind)

    def begin(self, progress: Progress, topic_id: bytes) -> None:
        """Starts working from restored progress, unless the lease was asked back or lost meanwhile."""
        if self.stage is Stage.RESTORING:
            self._progress = progress
            self.topic_id = topic_id
            self.stage = Stage.WORKING

    def fall_behind(self, until: int, memory: LaneMemory, queue: str) -> None:
        """This goes on below `until` as a backlog cursor: what it has fetched waits in another queue from now on."""
        self._acks_kept = 1  # how many are out is asked with each that is handed out
        self.note_acked()
        self._ready.move(self, memory, queue)
        self.memory.used -= self.held_bytes
        memory.used += self.held_bytes
        self.memory, self.queue, self.until = memory, queue, until
        self.version += 1

    def drain(self) -> None:
        """Hands nothing out any more; `drained` returns once all that is out was settled."""
        if self.stage in (Stage.RESTORING, Stage.WORKING):
            self._settle_at_once()
            self.stage = Stage.DRAINING
            self._drop_waiting()
        self._check_drained()
        for each in self.behind:
            each.drain()

    async def drained(self) -> None:
        """Waits until nothing is handed out."""
        await self._drained.wait()
        for each in list(self.behind):
            await each.drained()

    def end(self) -> None:
        """The lease is gone: whatever is settled from now on changes nothing."""
        self._settle_at_once()
        self.stage = Stage.ENDED
        self.gone.set()
        self._drop_waiting()
        self._drained.set()
        for each in self.behind:
            each.end()

    def _settle_at_once(self) -> None:
        """Nothing is kept any more of what is handed out ahead or acknowledged."""
        self._ready.recall()
        self._acks_kept = 1
        self.note_acked()

    # --- intake

    def accept(self, fetched: FetchedColumns) -> None:
        """Takes what a fetch brought, with the headers that `headers_asked` names."""
        if self.stage is not Stage.WORKING:
            return
        if self.until is not None:
            fetched = below(fetched, self.until)
        progress = self.progress
        before, settled = progress.fetched, self.version
        for piece in in_order(fetched.parts, missing(fetched.damaged, progress)):
            if isinstance(piece, QuarantinedBatch):
                self._accept_damaged(piece)
            else:
                self._accept_part(piece)
        progress.advance_fetched(fetched.next_offset)
        self.leader_epoch = max(self.leader_epoch, fetched.leader_epoch)
        if progress.fetched != before and self.version == settled:
            self.version += 1

    def _accept_part(self, part: RecordColumns) -> None:
        """Lets records that are for this group wait for a handler; what is left out is done when passed."""
        found = self._sieve.sift(part)
        self.skipped += found.skipped
        self.content += found.content
        found = found.of(self.progress.deliver_many(found.part.offsets, found.times))
        if len(found.part):
            self.version += 1
            self._weigh(int(found.sizes.sum()))
            self._ready.put(Slice(self, *found[:3]))

    def _accept_damaged(self, batch: QuarantinedBatch) -> None:
        """Has a batch nobody can decode copied as one dead letter, where no holder before saw to that.

        Until then its first offset stays undone, and none of it is claimed.
        """
        if self.progress.deliver(batch.offset, batch.ingested_at):
            self.version += 1
            self._weigh(batch.size)
            self._out += 1
            first, last, why = batch.batch[:3]
            self._uncopied[first] = last
            _log.warning("%s@%d to %d cannot be read: %s", self.lease.id, first, last, why)
            Record(batch, self).dead_letter(why)

    def _weigh(self, size: int) -> None:
        self._bytes += size
        self.held_bytes += size
        self.memory.used += size

    def hand_out(self, count: int) -> bool:
        """Whether so many waiting records may be handed out now; then they are."""
        if self.stage is not Stage.WORKING or (self._may_start is not None and not self._may_start()):
            return False
        self._out += count
        return True

    def take_back(self, count: int) -> None:
        """So many records were to be handed out and were not."""
        self._out -= count

    def admitted(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those whose turn has come, of records that are about to be handed out; the others wait here."""
        assert self._order is not None, "asked of ordered work only"
        found = self._order.admit_many(rows)
        self._out -= len(rows) - len(found)
        return found

    def admits_slice(self, waiting: Slice["PartitionWork"], count: int) -> bool:
        """Whether so many records of a slice may be handed out together; it is emptied when it has to wait."""
        assert self._order is not None, "asked of ordered work only"
        if self._order.admit_slice(count):
            return True
        self._out -= count
        self._order.put_aside(waiting.rest(len(waiting)))
        return False

    def _drop_waiting(self) -> None:
        """What waits for its turn will not be handed out here."""
        if self._order is not None:
            records, slices = self._order.clear()
            self.free(sum(each.size for each in records) + sum(int(each.sizes.sum()) for each in slices))

    # --- settling (called by Record and Batch)

    def is_done(self, offset: int) -> bool:
        """Whether nothing is left to do about a record that was out lately."""
        return self.noted.is_done(offset)

    def attempts(self, offset: int) -> int:
        """Failed attempts so far."""
        return self.noted.attempts(offset)

    def failed(self, offset: int, now_ms: int) -> Failed:
        """A handler failed over a record, whosever fault it was; returns what is known with it."""
        return self.failures.note(offset, now_ms)

    def done(self, record: Record) -> None:
        """The record was processed. Every record passes here: they are kept, to be noted many at once."""
        self._brake.done += 1
        acked = self._acked
        if not acked:
            self._ready.keeping.add(self)
        raw = record.raw
        acked.append(raw.offset)
        self._acked_bytes += raw.size
        if self.ordered:
            self._follow(record)
        if len(acked) >= self._acks_kept or self._ready.takers:  # noting makes room for more of what they wait for
            self.note_acked()

    def note_acked(self) -> None:
        """Notes what was acknowledged: whoever reads progress, counts or memory sees it from now on."""
        if not self._acked:
            return
        acked, size, self._acked, self._acked_bytes = self._acked, self._acked_bytes, [], 0
        self._ready.keeping.discard(self)
        if self.stage is not Stage.ENDED and self._progress is not None:
            self._progress.done_some(acked)
            self._records += len(acked)
        self.failures.forget(acked)
        self._finished(len(acked), size)

    def done_many(self, offsets: NDArray[np.int64], chosen: NDArray[np.bool_], size: int) -> None:
        """Those chosen of some handed-out records, `size` bytes, were processed."""
        count = int(np.count_nonzero(chosen))
        if self.stage is not Stage.ENDED:
            self.progress.done_many(offsets, None if count == len(chosen) else chosen)
        if self.failures:
            self.failures.forget(offsets[chosen].tolist())
        self.finished(count, size)

    def finished(self, count: int, size: int) -> None:
        """So many handed-out records of so many bytes are marked as done in `progress`, or ended with the lease."""
        if self.stage is not Stage.ENDED:
            self._records += count
            self._brake.done += count
        self._settled_of_slice(count)
        self._finished(count, size)

    def reject(self, record: Record, reason: str) -> None:
        """The record is skipped in place; `reason` is for the log."""
        if self.stage is not Stage.ENDED:
            self._mark_rejected(record)
            self._brake.done += 1
            _log.info("%s@%d is rejected: %s", self.lease.id, record.offset, reason)
        self._finish(record)

    def retry(self, record: Record, after_seconds: float) -> None:
        """The record is to come back; an attempt failed."""
        if self.stage is not Stage.ENDED:
            self.noted.attempt(record.offset)
            self.version += 1
        self.postpone(record, after_seconds)

    def postpone(self, record: Record, after_seconds: float | None) -> None:
        """The record is to come back; at once with None."""
        self._out -= 1
        if self.stage is not Stage.WORKING:
            self.free(record.size)
        elif after_seconds is None:
            self.back(record)
        else:
            self._settling.park(record, after_seconds)
        self._check_drained()

    def dead_letter(self, record: Record, error: BaseException | str) -> None:
        """The record is to be copied to the dlq lane, and counts as handed out until that is acknowledged."""
        if self.stage is Stage.ENDED:
            self._finish(record)
            return
        if record.lane == DLQ_LANE:  # a copy would lie in front of its reader again
            self.reject(record, f"given up, attempt {record.attempt}: {text_of(error)}")
            return
        self.progress.attempt(record.offset)
        if isinstance(record.raw, QuarantinedBatch) or self._brake.allows():  # no handler has seen such a batch
            self._copying += 1
            self._settling.write_dead_letter(record, error)
        else:
            self.version += 1  # its lane has had too many: it waits, undone
            self.abandon(record)

    def copied(self, record: Record) -> None:
        """The record's copy in the dlq lane was acknowledged, or is of no interest any more."""
        self._copying -= 1
        if self.stage is not Stage.ENDED:
            if isinstance(record.raw, QuarantinedBatch):
                self._mark_rejected(record)
            else:
                self.progress.done(record.offset)
        self._finish(record)

    def _mark_rejected(self, record: Record) -> None:
        self.progress.reject(record.offset)
        if isinstance(record.raw, QuarantinedBatch):
            self.progress.reject_range(record.offset, record.raw.batch.last_offset + 1)

    def uncopied(self, record: Record, reason: str) -> None:
        """The record cannot be copied to the dlq lane, ever: it is rejected."""
        self._copying -= 1
        self.reject(record, reason)

    def abandon(self, record: Record) -> None:
        """The record was handed out and its handler was ended: somebody else gets it, here or at the next holder."""
        self.postpone(record, None)

    def back(self, record: Record) -> None:
        """The record waits for a handler again; of a slice in order, with the others of it that are not settled."""
        assert isinstance(record.raw, Row), "a batch nobody can decode is not tried again"
        if self._order is not None and self._order.slice_out:
            self._order.returned(record.raw)
            self._settled_of_slice(0)
        else:
            self._ready.put(slice_of_rows(self, [record.raw], admitted=True))

    def _settled_of_slice(self, count: int) -> None:
        """So many records of the slice that is out are settled; perhaps all others wait to be tried again."""
        if self._order is None or self.stage is not Stage.WORKING:
            return
        again = self._order.settled_of_slice(count)
        if rows := self._order.all_returned():
            again = [slice_of_rows(self, rows, admitted=False)]
        for waiting in sorted(again, key=attrgetter("first_offset"), reverse=True):
            self._ready.put(waiting, first=True)

    def _follow(self, record: Record) -> None:
        """A record is settled: it is the turn of the next one of its key."""
        raw = record.raw
        if self._order is None or self.stage is not Stage.WORKING or isinstance(raw, QuarantinedBatch):
            return
        if self._order.slice_out:
            self._settled_of_slice(1)
        elif (following := self._order.settled(raw)) is not None:
            self._ready.follow(self, following)

    def _finish(self, record: Record) -> None:
        self._follow(record)
        self._uncopied.pop(record.offset, None)
        self.failures.forget((record.offset,))
        self._finished(1, record.size)

    def _finished(self, count: int, size: int) -> None:
        self._out -= count
        self.version += 1
        self.held_bytes -= size
        self.memory.used -= size
        if self.memory.held_back:
            self.memory.freed()
        self._settling.settled(count)
        if self.stage is Stage.DRAINING or self.until is not None:
            self._check_drained()

    def free(self, size: int) -> None:
        """Records of so many bytes wait here no longer, and will not be handed out."""
        self.held_bytes -= size
        self.memory.used -= size
        self.memory.freed()

    def _check_drained(self) -> None:
        if self.until is not None:
            self._ready.stir(self.queue)
        if self.stage is Stage.DRAINING and self._out <= 0:
            self._drained.set()

    @property
    def uncopied_ranges(self) -> Ranges:
        """Quarantined batches without a copy: passed, and not done."""
        return Ranges((first, last + 1) for first, last in sorted(self._uncopied.items()))

    def take_load(self) -> tuple[int, int]:
        """Records done and bytes fetched since the last call."""
        self.note_acked()
        records, size = self._records, self._bytes
        self._records = self._bytes = 0
        behind = [each.take_load() for each in self.behind]
        return records + sum(load[0] for load in behind), size + sum(load[1] for load in behind)
