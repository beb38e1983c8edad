"""One cursor of a lease: a range of its log, the progress in it, and what is handed out of it. No I/O.

A record's `work` is the cursor that fetched it. `lease_work` has what concerns the lease as a whole.
"""

import asyncio
import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from braid.client.delivery.cursor_context import CursorContext
from braid.client.delivery.failed_attempts import FailedAttempts
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.memory_bound import LaneMemory
from braid.client.delivery.ordered_queue import OrderedQueue
from braid.client.delivery.stages import Stage
from braid.client.records.delivery import Failed
from braid.client.records.record import QuarantinedBatch, Record, Row, missing
from braid.client.records.slices import Slice, below, in_order, slice_of_rows
from braid.kernel.error_texts import text_of
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.client import ACKS_KEPT_MAX
from braid.kernel.ports import FetchedColumns, KnownLog
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import RecordColumns

_log = logging.getLogger("braid.consumer")


class Cursor:
    """Works on a range of a lease's log: at the head until the lease is split, then on the range below the split."""

    def __init__(
        self,
        context: CursorContext,
        progress: Progress,
        *,
        start: int,
        known_log: KnownLog,
        order: KeyOrder[Row, Slice["Cursor"]] | None,
    ) -> None:
        """Begins a range at `start`; `order` says which records may be out at once (None: all)."""
        self._context = context  # what each record needs of it is at hand below
        self.lease, self.topic_id, self.busy = context.lease, context.topic_id, context.busy
        self.memory, self._ready, self._brake = context.memory, context.ready, context.brake
        self._may_start, self.pathways = context.may_start, context.pathways and context.pathways()
        self.progress = progress  # without buffered acknowledgements, which `note_acked` adds
        self.start = start
        self.until: int | None = None  # end of a backlog cursor's range
        self.known_log = known_log
        self.stage = Stage.WORKING
        self.version = 0  # grows with every change worth a commit
        self.queue = self.lease.id.channel.lane  # the queue of fetched records
        self.skipped = 0  # records that the filter rejected
        self.ordered = order is not None
        self.one_by_one = self._may_start is not None  # that is asked for each before it is handed out
        self.out = 0  # records out: unsettled, or settled and not noted
        self.copying = 0  # of those: being copied to the dlq lane
        self.failures = FailedAttempts()
        self._ordered_queue = None if order is None else OrderedQueue(self, self._ready, order)
        self._acked: list[int] = []  # offsets, not noted yet; records would burden the garbage collection
        self._acked_bytes = 0
        self._acks_kept = ACKS_KEPT_MAX
        self._held_bytes = 0  # this cursor's part of `memory.used`
        self._uncopied: dict[int, int] = {}  # first and last offset of quarantined batches without a copy
        self._drained = asyncio.Event()
        self._done_since = self._bytes_since = 0  # records done and bytes fetched since `take_load`

    @property
    def working(self) -> bool:
        """Whether records are fetched and handed out."""
        return self.stage is Stage.WORKING

    @property
    def draining(self) -> bool:
        """Whether the lease was asked back."""
        return self._context.life.stage is Stage.DRAINING

    @property
    def ended(self) -> bool:
        """Whether the lease is gone."""
        return self._context.life.stage is Stage.ENDED

    @property
    def gone(self) -> asyncio.Event:
        """Is set once the lease is gone."""
        return self._context.life.gone

    @property
    def crowded(self) -> bool:
        """Whether fetched records of its lane wait for a handler."""
        return self.memory.waiting > 0

    @property
    def unnoted(self) -> int:
        """How many acknowledgements are buffered for `note_acked`."""
        return len(self._acked)

    @property
    def read_up(self) -> bool:
        """Whether all of a backlog cursor's range was fetched."""
        return self.until is not None and self.progress.fetched >= self.until

    @property
    def uncopied_ranges(self) -> Ranges:
        """Ranges of quarantined batches that have no copy yet: passed, but not done."""
        return Ranges((first, last + 1) for first, last in sorted(self._uncopied.items()))

    def fall_behind(self, until: int, memory: LaneMemory, queue: str) -> None:
        """Turns this into a backlog cursor up to `until`; its fetched records wait in another queue from now on."""
        self._acks_kept = 1  # the backlog's bound is checked for each record
        self.note_acked()
        self._ready.move(self, memory, queue)
        self.memory.weigh(-self._held_bytes)
        memory.weigh(self._held_bytes)
        self.memory, self.queue, self.until = memory, queue, until
        self.version += 1

    def inherit(self, older: "Cursor") -> None:
        """Takes over what the cursor below had to state; that one is done and closed, so this is the lowest now."""
        last = older.progress.snapshot()
        self.progress.inherit(last.rejected, last.expired, last.rejected_before)
        self.start = 0
        self._learn_epoch(older.known_log.leader_epoch)

    def drain(self) -> None:
        """Hands out nothing more; `drained` returns once every record that is out was settled."""
        if self.stage is Stage.WORKING:
            self._stop(Stage.DRAINING)
        self._check_drained()

    async def drained(self) -> None:
        """Waits until no record is out."""
        await self._drained.wait()

    def end(self) -> None:
        """Ends the work: records settled from now on change nothing."""
        self._stop(Stage.ENDED)
        self._drained.set()

    def _stop(self, stage: Stage) -> None:
        """Stops handing out ahead and waiting for turns; acknowledgements are noted at once."""
        self._ready.recall()
        self._acks_kept = 1
        self.note_acked()
        self._ready.keeps_no_acks(self)
        self.stage = stage
        if self._ordered_queue is not None:
            self.free(self._ordered_queue.close())

    def take_load(self) -> tuple[int, int]:
        """Returns the records done and bytes fetched since the last call."""
        self.note_acked()
        records, size = self._done_since, self._bytes_since
        self._done_since = self._bytes_since = 0
        return records, size

    def accept(self, fetched: FetchedColumns) -> int:
        """Takes the records of a fetch, with the headers that `headers_asked` names; returns their bytes of content."""
        if self.stage is not Stage.WORKING:
            return 0
        if self.until is not None:
            fetched = below(fetched, self.until)
        self.note_acked()
        progress, content = self.progress, 0
        before, settled = progress.fetched, self.version
        pieces = in_order(fetched.parts, missing(fetched.damaged, progress)) if fetched.damaged else fetched.parts
        for piece in pieces:
            if isinstance(piece, QuarantinedBatch):
                self._accept_damaged(piece)
            else:
                content += self._accept_part(piece)
        progress.advance_fetched(fetched.next_offset)
        self._learn_epoch(fetched.leader_epoch)
        if progress.fetched != before and self.version == settled:
            self.version += 1
        return content

    def _learn_epoch(self, leader_epoch: int) -> None:
        if leader_epoch > self.known_log.leader_epoch:
            self.known_log = self.known_log._replace(leader_epoch=leader_epoch)

    def _accept_part(self, part: RecordColumns) -> int:
        """Queues records that are for this group; the others are done when they are passed."""
        found = self._context.intake.sift(part)
        self.skipped += found.skipped
        found = found.of(self.progress.deliver_many(found.part.offsets, found.times))
        if len(found.part):
            self.version += 1
            self._weigh(int(found.sizes.sum()))
            if self.pathways is not None:
                self.pathways.fetched(found.part)
            self._ready.put(Slice(self, *found[:3]))
        return found.content

    def _accept_damaged(self, batch: QuarantinedBatch) -> None:
        """Has an undecodable batch copied as one dead letter, unless an earlier holder saw to that.

        Until then its first offset stays undone, and none of the batch is claimed.
        """
        if self.progress.deliver(batch.offset, batch.ingested_at):
            self.version += 1
            self._weigh(batch.size)
            self.out += 1
            first, last, why = batch.batch[:3]
            self._uncopied[first] = last
            _log.warning("%s@%d to %d cannot be read: %s", self.lease.id, first, last, why)
            Record(batch, self).dead_letter(why)

    def _weigh(self, size: int) -> None:
        self._bytes_since += size
        self._held_bytes += size
        self.memory.weigh(size)

    def hand_out(self, count: int) -> bool:
        """Whether so many waiting records may be handed out now; if so, they are counted as out."""
        if self.stage is not Stage.WORKING or (self._may_start is not None and not self._may_start()):
            return False
        self.out += count
        return True

    def take_back(self, count: int) -> None:
        """Counts back records that were to be handed out and were not."""
        self.out -= count

    def admitted(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Returns those of some records whose turn has come; the others wait."""
        assert self._ordered_queue is not None, "asked of ordered work only"
        found = self._ordered_queue.admit(rows)
        self.out -= len(rows) - len(found)
        return found

    def admits_slice(self, waiting: Slice["Cursor"], count: int) -> bool:
        """Whether so many records of a slice may be handed out together; the slice is emptied if it has to wait."""
        assert self._ordered_queue is not None, "asked of ordered work only"
        admitted = self._ordered_queue.admit_slice(waiting, count)
        if not admitted:
            self.out -= count
        return admitted

    # --- settling (called by Record and Batch)

    def is_done(self, offset: int) -> bool:
        """Whether a record that was out lately is settled."""
        return self.progress.is_done(offset)

    def attempts(self, offset: int) -> int:
        """Returns the number of failed attempts so far."""
        return self.progress.attempts(offset)

    def failed(self, offset: int, now_ms: int) -> Failed:
        """Counts a handler's failure over a record, whatever its cause; returns the record's failures."""
        return self.failures.note(offset, now_ms)

    def done(self, record: Record) -> None:
        """Marks a record as processed. Every record passes here, so they are buffered and noted many at once."""
        self._brake.done += 1
        acked = self._acked
        raw = record.raw
        acked.append(raw.offset)
        self._acked_bytes += raw.size
        if self._ordered_queue is not None:
            self._ordered_queue.settled(record)
        if len(acked) >= self._acks_kept or self._ready.waiters.of_any_lane:  # noting makes room for the next records
            self.note_acked()
        elif len(acked) == 1:
            self._ready.keeps_acks(self)

    def note_acked(self) -> None:
        """Notes the buffered acknowledgements, so that progress, counts and memory include them."""
        if not self._acked:
            return
        acked, size, self._acked, self._acked_bytes = self._acked, self._acked_bytes, [], 0
        if self.stage is not Stage.ENDED:
            self.progress.done_some(acked)
            self._done_since += len(acked)
        self.failures.forget(acked)
        self._finished(len(acked), size)

    def done_many(self, offsets: NDArray[np.int64], chosen: NDArray[np.bool_], size: int) -> None:
        """Marks chosen records of those handed out, `size` bytes in all, as processed."""
        self.note_acked()
        count = int(np.count_nonzero(chosen))
        if self.stage is not Stage.ENDED:
            self.progress.done_many(offsets, None if count == len(chosen) else chosen)
        if self.failures:
            self.failures.forget(offsets[chosen].tolist())
        self.finished(count, size)

    def finished(self, count: int, size: int) -> None:
        """Counts out records that `progress` has marked as done, or that ended with the lease."""
        if self.stage is not Stage.ENDED:
            self._done_since += count
            self._brake.done += count
        if self._ordered_queue is not None:
            self._ordered_queue.settled_of_slice(count)
        self._finished(count, size)

    def reject(self, record: Record, reason: str) -> None:
        """Skips the record in place; `reason` is for the log."""
        if self.stage is not Stage.ENDED:
            self._mark_rejected(record)
            self._brake.done += 1
            _log.info("%s@%d is rejected: %s", self.lease.id, record.offset, reason)
        self._finish(record)

    def retry(self, record: Record, after_seconds: float) -> None:
        """Brings the record back after a failed attempt."""
        if self.stage is not Stage.ENDED:
            self.progress.attempt(record.offset)
            self.version += 1
        self.postpone(record, after_seconds)

    def postpone(self, record: Record, after_seconds: float | None) -> None:
        """Brings the record back without counting an attempt; at once with None."""
        self.out -= 1
        if self.stage is not Stage.WORKING:
            self.free(record.size)
        elif after_seconds is None:
            self.back(record)
        else:
            self._context.settling.park(record, after_seconds)
        self._check_drained()

    def dead_letter(self, record: Record, error: BaseException | str) -> None:
        """Has the record copied to the dlq lane; it counts as out until the copy is acknowledged."""
        if self.stage is Stage.ENDED:
            self._finish(record)
            return
        if record.lane == DLQ_LANE:  # a copy would lie in front of its reader again
            self.reject(record, f"given up, attempt {record.attempt}: {text_of(error)}")
            return
        self.progress.attempt(record.offset)
        if isinstance(record.raw, QuarantinedBatch) or self._brake.allows():  # no handler has seen such a batch
            self.copying += 1
            self._context.settling.write_dead_letter(record, error)
        else:
            self.version += 1  # the dead-letter limit is reached: the record waits, undone
            self.abandon(record)

    def copied(self, record: Record) -> None:
        """Marks the record done: its copy in the dlq lane was acknowledged, or is no longer needed."""
        self.copying -= 1
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
        """Rejects a record that can never be copied to the dlq lane."""
        self.copying -= 1
        self.reject(record, reason)

    def abandon(self, record: Record) -> None:
        """Gives back a record whose handler was ended: another handler gets it, here or at the next holder."""
        self.postpone(record, None)

    def back(self, record: Record) -> None:
        """Queues the record for a handler again; one of an ordered slice waits for the slice's others."""
        assert isinstance(record.raw, Row), "a batch nobody can decode is not tried again"
        if self._ordered_queue is None or not self._ordered_queue.back(record.raw):
            self._ready.put(slice_of_rows(self, [record.raw], admitted=True))

    def _finish(self, record: Record) -> None:
        if self._ordered_queue is not None:
            self._ordered_queue.settled(record)
        self._uncopied.pop(record.offset, None)
        self.failures.forget((record.offset,))
        self._finished(1, record.size)

    def _finished(self, count: int, size: int) -> None:
        self.out -= count
        self.version += 1
        self.free(size)
        self._context.settling.settled(count)
        if self.stage is Stage.DRAINING or self.until is not None:
            self._check_drained()

    def free(self, size: int) -> None:
        """Frees the memory of records that are done, or will not be handed out."""
        self._held_bytes -= size
        self.memory.free(size)

    def _check_drained(self) -> None:
        if self.until is not None:
            self._ready.stir(self.queue)
        if self.stage is Stage.DRAINING and self.out <= 0:
            self._drained.set()
