"""The progress tracker of one partition: what was delivered, what is done, what may be claimed. No I/O, no clock.

A record costs 17 bytes while it is tracked and no object of its own: delivered offsets, their ingestion times and
one flag each lie in three parallel arrays in offset order. Acknowledging clears a flag; the low-water mark is found
by a byte search (memchr) that never looks at the same flag twice. What lies below the fetch position and is not
tracked is done, so the finished are dropped wherever they lie, once they are as many as the others: memory follows
what is unfinished, however much was done beyond a record that is stuck. Everything is O(1) amortised.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import REJECTED_RANGES_KEPT_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import EMPTY, Ranges

_NEVER: Final = 1 << 63
_UNFINISHED: Final = 1
_ARRAY_LEAST: Final = 32  # offsets
_COMPACT_AT: Final = 4_096  # finished records that are kept, at least, before the arrays are shortened


class Progress:
    """What a group has done in one partition (or in one cursor's range of it), for its single holder.

    Records are delivered in offset order. An offset the fetch position has passed without a delivery is not
    deliverable (control, aborted, compacted, skipped by predicate) and counts as done; delivering a record passes
    everything below it. Therefore call `deliver` for every record of a fetch *before* `advance_fetched` with the
    fetch's next offset, and never pass records that still wait in a buffer undelivered.
    """

    __slots__ = (
        "_ahead",
        "_ahead_index",
        "_ahead_start",
        "_attempts",
        "_expired",
        "_fetched",
        "_forgotten",
        "_head",
        "_head_ingested_at_ms",
        "_in_flight",
        "_offsets",
        "_origin",
        "_rejected",
        "_rejected_before",
        "_rejected_lately",
        "_times",
        "_unfinished",
    )

    def __init__(self, base: int) -> None:
        """Begins at `base`: everything below counts as done, nothing at or above it was delivered."""
        self._origin = base
        self._fetched = base
        self._forgotten = base  # finished records below it may be tracked no more
        self._offsets = array("q")
        self._times = array("q")
        self._unfinished = bytearray()
        self._head = 0
        self._in_flight = 0
        self._head_ingested_at_ms: int | None = None
        self._attempts: dict[int, int] = {}
        self._rejected = self._rejected_before = self._expired = EMPTY
        self._rejected_lately: list[int] = []
        self._set_ahead(EMPTY)

    @classmethod
    def restore(cls, fields: EnvelopeFields) -> Self:
        """Continues where a commit left off.

        Done ranges above the base (of every cursor) are remembered: `deliver` refuses the records in them.
        """
        made = cls(fields.base)
        made._set_ahead(fields.claims.clip(fields.base, _NEVER))
        made._head_ingested_at_ms = fields.head_ingested_at_ms
        made._attempts = {offset: count for offset, count in fields.attempts if offset >= fields.base}
        made._rejected = fields.rejected.clip(fields.base, _NEVER)
        made._rejected_before = _newest(fields.rejected.clip(0, fields.base))
        made._expired = fields.expired.clip(fields.base, _NEVER)
        return made

    # --- delivery

    def deliver(self, offset: int, ingested_at_ms: int) -> bool:
        """Notes that a fetched record is about to be handed out.

        Args:
            offset: The record's offset.
            ingested_at_ms: Its ingestion time, milliseconds since the epoch.

        Returns:
            True when the record is to be handled; False when it is done already (by an earlier holder) or was
            delivered before: do not hand it out again.
        """
        if offset >= self._ahead_start:
            self._pass_to(offset)
        if offset < self._fetched:
            return False
        self._offsets.append(offset)
        self._times.append(ingested_at_ms)
        self._unfinished.append(_UNFINISHED)
        self._in_flight += 1
        self._fetched = offset + 1
        return True

    def deliver_many(
        self, offsets: NDArray[np.int64] | Sequence[int], ingested_at_ms: NDArray[np.int64] | Sequence[int]
    ) -> NDArray[np.bool_]:
        """Delivers a batch in offset order; returns which of its records are to be handled.

        Raises:
            Invalid: the offsets do not increase, or the arrays differ in length.
        """
        offsets, ingested_at_ms = np.asarray(offsets, np.int64), np.asarray(ingested_at_ms, np.int64)
        if offsets.shape != ingested_at_ms.shape or (len(offsets) > 1 and not (offsets[1:] > offsets[:-1]).all()):
            raise Invalid("a batch's offsets must increase, with one ingestion time each", field="offsets")
        if not len(offsets):
            return np.zeros(0, np.bool_)
        if int(offsets[0]) < self._fetched or int(offsets[-1]) >= self._ahead_start:
            pairs = zip(offsets.tolist(), ingested_at_ms.tolist(), strict=True)
            return np.fromiter((self.deliver(offset, time) for offset, time in pairs), np.bool_, len(offsets))
        self._offsets.frombytes(offsets.astype(np.int64, copy=False).tobytes())
        self._times.frombytes(ingested_at_ms.astype(np.int64, copy=False).tobytes())
        self._unfinished.extend(b"\x01" * len(offsets))
        self._in_flight += len(offsets)
        self._fetched = int(offsets[-1]) + 1
        return np.ones(len(offsets), np.bool_)

    def advance_fetched(self, next_offset: int) -> None:
        """Notes the fetch position: offsets below it that were never delivered are not deliverable, hence done."""
        self._pass_to(next_offset)

    def undeliverable(self, start: int, end: int) -> None:
        """Notes that no record of `[start, end)` will be delivered any more; delivered ones are not touched."""
        if start <= self._fetched:
            self._pass_to(end)
        elif end > start:
            self._set_ahead(self._ahead_ranges().add(start, end))

    # --- completion

    def done(self, offset: int) -> bool:
        """Notes that a delivered record is done. Returns False for a repeat, which is harmless.

        Raises:
            Invalid: the record was never delivered here.
        """
        offsets = self._offsets
        count = len(offsets)
        index = offset - offsets[-1] + count - 1 if count else -1  # where the newest follow each other
        if not (0 <= index < count and offsets[index] == offset):
            index = self._locate(offset)
            if index < 0:
                return False
        if self._unfinished[index] != _UNFINISHED:
            return False
        self._unfinished[index] = 0
        self._in_flight -= 1
        if self._attempts:
            self._attempts.pop(offset, None)
        return True

    def done_some(self, offsets: Sequence[int]) -> int:
        """`done_many`, one by one where arrays are not worth their making."""
        if len(offsets) < _ARRAY_LEAST:
            return sum(map(self.done, offsets))
        return self.done_many(np.array(offsets, np.int64))

    def done_many(self, offsets: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> int:
        """Notes that many delivered records are done, in any order.

        Args:
            offsets: Offsets of delivered records.
            mask: Which of them are done; all when None.

        Returns:
            How many were unfinished until now.

        Raises:
            Invalid: one of them was never delivered here; then nothing has changed.
        """
        offsets = np.asarray(offsets, np.int64)
        if (together := self._together(offsets)) is not None:
            newly = self._finish_among(together, mask)
        else:
            positions, strangers = self._positions(offsets if mask is None else offsets[mask])
            for stranger in strangers.tolist():
                self._locate(stranger)
            newly = self._finish(positions)
        if newly and self._attempts:
            self._forget_attempts(offsets)
        return newly

    def reject(self, offset: int) -> bool:
        """Notes that a delivered record is skipped in place, without a copy. Returns False when it was done already.

        Raises:
            Invalid: the record was never delivered here.
        """
        newly = self.done(offset)
        if newly:
            self._rejected_lately.append(offset)
        return newly

    def reject_range(self, start: int, end: int) -> None:
        """Notes that `[start, end)`, of which nothing is unfinished, was skipped in place, without a copy."""
        self._rejected = self._rejected.add(start, end)

    def expire(self, start: int, end: int) -> Ranges:
        """Notes that the log no longer holds `[start, end)`.

        Returns:
            What of the range was not done before; it counts as done now and is stated as expired.
        """
        lost = self.done_ranges.add(0, self.base).gaps(start, end)
        first, last = bisect_left(self._offsets, start), bisect_left(self._offsets, end)
        self._finish(np.arange(first, last))
        self._attempts = {offset: count for offset, count in self._attempts.items() if not start <= offset < end}
        self.undeliverable(start, end)
        self._expired = self._expired.union(lost)
        return lost

    def inherit(self, rejected: Ranges, expired: Ranges, rejected_before: Ranges = EMPTY) -> None:
        """States from now on what a tracker of older offsets stated and states no more: all of it counts as done."""
        self._rejected = self._rejected.union(rejected)
        self._rejected_before = _newest(self._rejected_before.union(rejected_before))
        self._expired = self._expired.union(expired)

    def attempt(self, offset: int) -> int:
        """Counts one unsuccessful attempt of an unfinished record; returns how many there are (0 once it is done).

        Raises:
            Invalid: the record was never delivered here.
        """
        index = self._locate(offset)
        if index < 0 or self._unfinished[index] != _UNFINISHED:
            return 0
        self._attempts[offset] = count = self._attempts.get(offset, 0) + 1
        return count

    def attempts(self, offset: int) -> int:
        """How many attempts of an unfinished record failed so far, those of earlier holders included."""
        return self._attempts.get(offset, 0)

    def forget_head(self) -> None:
        """Forgets when the newest record an earlier holder saw was sent: who delivers nothing here cannot renew it."""
        self._head_ingested_at_ms = None

    # --- what is known

    @property
    def base(self) -> int:
        """The low-water mark: everything below is done. Reading it also frees what lies below."""
        head = self._unfinished.find(_UNFINISHED, self._head)
        if head < 0:
            self._forget_all()
            self._pass_to(self._fetched)
            return self._fetched
        self._head = head
        base = self._offsets[head]
        if len(self._offsets) - self._in_flight >= max(_COMPACT_AT, self._in_flight):
            self._forget_finished()
        return base

    @property
    def fetched(self) -> int:
        """The offset from which records are still wanted; fetching may begin here."""
        self._pass_to(self._fetched)
        return self._fetched

    @property
    def in_flight(self) -> int:
        """How many delivered records are unfinished."""
        return self._in_flight

    @property
    def head_ingested_at_ms(self) -> int | None:
        """Ingestion time of the record with the highest offset delivered so far, None before any."""
        return self._times[-1] if self._times else self._head_ingested_at_ms

    @property
    def done_ranges(self) -> Ranges:
        """Done ranges above `base`."""
        self._pass_to(self.base)
        ahead = self._ahead_ranges()
        if not self._in_flight:
            return ahead
        unfinished = self.unfinished()
        edges = np.stack([unfinished + 1, np.append(unfinished[1:], self._fetched)], axis=1)
        apart = edges[:, 0] < edges[:, 1]
        return Ranges.of_edges(edges[apart].ravel().tolist()).union(ahead)

    def unfinished(self) -> NDArray[np.int64]:
        """Offsets of the delivered records that are not done, increasing; a copy."""
        if not self._in_flight:
            return np.zeros(0, np.int64)
        offsets = np.frombuffer(self._offsets, np.int64)[self._head :]
        flags = np.frombuffer(self._unfinished, np.uint8)[self._head :]
        unfinished: NDArray[np.int64] = offsets[flags == _UNFINISHED]
        return unfinished

    def oldest_unfinished(self) -> tuple[int, int] | None:
        """Offset and ingestion time (ms) of the unfinished record with the lowest offset; None when all are done."""
        if not self._in_flight:
            return None
        offset = self.base
        return offset, self._times[self._head]

    def is_done(self, offset: int) -> bool:
        """Whether this offset counts as done."""
        if offset >= self._fetched:
            return offset in self._ahead_ranges()
        index = bisect_left(self._offsets, offset)
        delivered = index < len(self._offsets) and self._offsets[index] == offset
        return not (delivered and self._unfinished[index])

    def first_wanted(self, start: int, end: int) -> int | None:
        """The lowest offset of `[start, end)` that was neither delivered nor done; None when there is none."""
        return self._ahead_ranges().gaps(max(start, self.fetched), end).start

    # --- commits

    def snapshot(
        self,
        *,
        epoch: int = 0,
        detached: bool = False,
        fingerprint: Fingerprint | None = None,
        lanes: tuple[LaneShare, ...] = (),
        until: int | None = None,
        cursors: tuple[Cursor, ...] = (),
    ) -> EnvelopeFields:
        """The progress of this moment as an immutable value, with what only the caller knows added to it."""
        base, oldest = self.base, self.oldest_unfinished()
        self._attempts = {offset: count for offset, count in self._attempts.items() if not self.is_done(offset)}
        self._rejected = self._rejected.union(Ranges.of_offsets(self._rejected_lately))
        self._rejected_lately.clear()
        return EnvelopeFields(
            base=base,
            done=self.done_ranges,
            until=until,
            cursors=cursors,
            epoch=epoch,
            detached=detached,
            oldest_ingested_at_ms=oldest[1] if oldest else None,
            head_ingested_at_ms=self.head_ingested_at_ms,
            attempts=tuple(Attempts(offset, count) for offset, count in sorted(self._attempts.items())),
            rejected=self._rejected,
            rejected_before=self._rejected_before,
            expired=self._expired,
            fingerprint=fingerprint,
            lanes=lanes,
        )

    def acknowledge(self, stated: EnvelopeFields) -> None:
        """Notes that a commit stating these fields is stored: what it states below its base need not be repeated.

        The newest of what was rejected is repeated all the same, so that it can be listed and fetched again.

        Args:
            stated: `EncodedCommit.stated` of the acknowledged commit, not the snapshot before encoding.
        """
        passed = stated.rejected.clip(0, stated.base)
        if passed:
            self._rejected = self._rejected.subtract(passed)
            self._rejected_before = _newest(self._rejected_before.union(passed))
        self._expired = self._expired.subtract(stated.expired.clip(0, stated.base))

    # --- storage

    def _locate(self, offset: int) -> int:
        """Index of a delivered record, -1 for one that was finished long enough ago to be forgotten."""
        offsets = self._offsets
        index = bisect_left(offsets, offset)
        if index < len(offsets) and offsets[index] == offset:
            return index
        if self._origin <= offset < self._forgotten:
            return -1
        raise Invalid(f"offset {offset} was never delivered", field="offset")

    def _together(self, wanted: NDArray[np.int64]) -> slice | None:
        """Where the wanted offsets are, when they follow each other here as they do there."""
        count = len(wanted)
        if not count or not self._offsets:
            return None
        first = bisect_left(self._offsets, int(wanted[0]))
        if first + count > len(self._offsets) or self._offsets[first + count - 1] != wanted[-1]:
            return None
        alike = np.array_equal(np.frombuffer(self._offsets, np.int64, count, first * 8), wanted)
        return slice(first, first + count) if alike else None

    def _positions(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Indices of the wanted offsets that are tracked, and the offsets that are not.

        Views of the arrays must not outlive this call: an exported buffer refuses to grow.
        """
        if not self._offsets:
            return np.zeros(0, np.intp), wanted
        known = np.frombuffer(self._offsets, np.int64)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = known[positions] == wanted
        return positions[found], wanted[~found]

    def _finish(self, positions: NDArray[np.intp]) -> int:
        if not len(positions):
            return 0
        flags = np.frombuffer(self._unfinished, np.uint8)
        around = flags[int(positions.min()) : int(positions.max()) + 1]  # offsets may be named twice
        before = np.count_nonzero(around)
        flags[positions] = 0
        newly = int(before - np.count_nonzero(around))
        self._in_flight -= newly
        return newly

    def _finish_among(self, positions: slice, mask: NDArray[np.bool_] | None) -> int:
        """Of records that follow each other, all or those of the mask."""
        flags = np.frombuffer(self._unfinished, np.uint8)[positions]
        before = np.count_nonzero(flags)
        flags[slice(None) if mask is None else mask] = 0
        newly = int(before - np.count_nonzero(flags))
        self._in_flight -= newly
        return newly

    def _forget_attempts(self, finished: NDArray[np.int64]) -> None:
        """Drops the attempts of what is done, of which some just became so."""
        several = finished.tolist() if len(finished) < len(self._attempts) else list(self._attempts)
        for offset in several:
            if offset in self._attempts and self.is_done(offset):
                del self._attempts[offset]

    def _forget_all(self) -> None:
        """Drops all records, all of them finished."""
        if self._offsets:
            self._head_ingested_at_ms, self._forgotten = self._times[-1], self._offsets[-1] + 1
        del self._offsets[:], self._times[:], self._unfinished[:]
        self._head = 0

    def _forget_finished(self) -> None:
        """Drops the finished records, but for the newest: it says when the newest was sent."""
        keep = np.frombuffer(self._unfinished, np.uint8) == _UNFINISHED
        keep[-1] = True
        self._forgotten = self._offsets[-1]
        self._offsets = array("q", np.frombuffer(self._offsets, np.int64)[keep].tobytes())
        self._times = array("q", np.frombuffer(self._times, np.int64)[keep].tobytes())
        self._unfinished = bytearray(np.frombuffer(self._unfinished, np.uint8)[keep].tobytes())
        self._head = 0

    def _ahead_ranges(self) -> Ranges:
        return Ranges.of_edges(self._ahead[self._ahead_index :])

    def _set_ahead(self, ahead: Ranges) -> None:
        """Replaces the done ranges beyond the fetch position."""
        self._ahead = ahead.edges
        self._ahead_index = 0
        self._ahead_start = ahead.edges[0] if ahead else _NEVER
        self._pass_to(self._fetched)

    def _pass_to(self, offset: int) -> None:
        """Moves the fetch position up, and on through done ranges it reaches."""
        self._fetched = max(self._fetched, offset)
        while self._ahead_start <= self._fetched:
            self._fetched = max(self._fetched, self._ahead[self._ahead_index + 1])
            self._ahead_index += 2
            more = self._ahead_index < len(self._ahead)
            self._ahead_start = self._ahead[self._ahead_index] if more else _NEVER


def _newest(rejected: Ranges) -> Ranges:
    """So much of what was rejected as every commit is to repeat."""
    return Ranges.of_edges(rejected.edges[-2 * REJECTED_RANGES_KEPT_MAX :])
