"""The progress tracker of one partition: what was delivered, what is done, what may be claimed. No I/O, no clock.

What lies below the fetch position and is not unfinished is done; `DeliveredRecords` keeps what was delivered.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import REJECTED_RANGES_KEPT_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.delivered import DeliveredRecords
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import EMPTY, Ranges

_NEVER: Final = 1 << 63


class Progress:
    """A group's progress in one partition (or in one cursor's range of it), for its single holder.

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
        "_delivered",
        "_expired",
        "_fetched",
        "_rejected",
        "_rejected_before",
        "_rejected_lately",
    )

    def __init__(self, base: int, head_ingested_at_ms: int | None = None) -> None:
        """Begins at `base`: everything below counts as done, nothing at or above it was delivered.

        `head_ingested_at_ms` is when the newest record that an earlier holder saw was sent.
        """
        self._delivered = DeliveredRecords(base, head_ingested_at_ms)
        self._fetched = base
        self._attempts: dict[int, int] = {}
        self._rejected = self._rejected_before = self._expired = EMPTY
        self._rejected_lately: list[int] = []
        self._set_ahead(EMPTY)

    @classmethod
    def restore(cls, fields: EnvelopeFields) -> Self:
        """Continues from a commit.

        Done ranges above the base (of every cursor) are remembered: `deliver` refuses the records in them.
        """
        made = cls(fields.base, fields.head_ingested_at_ms)
        made._set_ahead(fields.claims.clip(fields.base, _NEVER))
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
        self._delivered.append(offset, ingested_at_ms)
        self._fetched = offset + 1
        return True

    def deliver_many(
        self, offsets: NDArray[np.int64] | Sequence[int], ingested_at_ms: NDArray[np.int64] | Sequence[int]
    ) -> NDArray[np.bool_]:
        """Delivers a batch in offset order; returns which of its records are to be handled.

        Raises:
            Invalid: the offsets do not increase, or the arrays differ in length.
        """
        given, times = np.asarray(offsets, np.int64), np.asarray(ingested_at_ms, np.int64)
        if given.shape != times.shape or (len(given) > 1 and not (given[1:] > given[:-1]).all()):
            raise Invalid("a batch's offsets must increase, with one ingestion time each", field="offsets")
        wanted = np.ones(len(given), np.bool_)
        if not len(given):
            return wanted
        last = int(given[-1])
        if int(given[0]) < self._fetched or last >= self._ahead_start:
            edges = self._ahead[self._ahead_index : bisect_right(self._ahead, last)]
            wanted = (given >= self._fetched) & (np.searchsorted(edges, given, side="right") % 2 == 0)
            self._delivered.extend(given[wanted], times[wanted])
        else:
            self._delivered.extend(given, times)
        self._pass_to(last + 1 if wanted[-1] else last)
        return wanted

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
        newly = self._delivered.finish(offset)
        if newly and self._attempts:
            self._attempts.pop(offset, None)
        return newly

    def done_some(self, offsets: Sequence[int]) -> int:
        """`done_many`, for what is no array yet."""
        newly = self._delivered.finish_some(offsets)
        if newly and self._attempts:
            self._forget_attempts(offsets)
        return newly

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
        newly = self._delivered.finish_many(offsets, mask)
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
        self._delivered.finish_between(start, end)
        self._attempts = {offset: count for offset, count in self._attempts.items() if not start <= offset < end}
        self.undeliverable(start, end)
        self._expired = self._expired.union(lost)
        return lost

    def inherit(self, rejected: Ranges, expired: Ranges, rejected_before: Ranges = EMPTY) -> None:
        """States from now on what a tracker of older offsets stated and no longer states: all of it counts as done."""
        self._rejected = self._rejected.union(rejected)
        self._rejected_before = _newest(self._rejected_before.union(rejected_before))
        self._expired = self._expired.union(expired)

    def attempt(self, offset: int) -> int:
        """Counts one unsuccessful attempt of an unfinished record; returns how many there are (0 once it is done).

        Raises:
            Invalid: the record was never delivered here.
        """
        self._delivered.check(offset)
        if not self._delivered.is_unfinished(offset):
            return 0
        self._attempts[offset] = count = self._attempts.get(offset, 0) + 1
        return count

    def attempts(self, offset: int) -> int:
        """Returns how many attempts of an unfinished record failed so far, including those of earlier holders."""
        return self._attempts.get(offset, 0)

    def forget_head(self) -> None:
        """Forgets when the newest record an earlier holder saw was sent; without deliveries it would grow stale."""
        self._delivered.forget_newest()

    # --- what is known

    @property
    def base(self) -> int:
        """The low-water mark: everything below is done. Reading it also frees what lies below."""
        oldest = self._delivered.oldest()
        if oldest is not None:
            return oldest[0]
        self._pass_to(self._fetched)
        return self._fetched

    @property
    def fetched(self) -> int:
        """The offset from which records are still wanted; fetching may begin here."""
        self._pass_to(self._fetched)
        return self._fetched

    @property
    def in_flight(self) -> int:
        """How many delivered records are unfinished."""
        return self._delivered.in_flight

    @property
    def tracked(self) -> int:
        """How many delivered records take memory: those in flight, and finished ones that are not yet forgotten."""
        return len(self._delivered)

    @property
    def head_ingested_at_ms(self) -> int | None:
        """Ingestion time of the record with the highest offset delivered so far, None before any."""
        return self._delivered.newest_ms

    @property
    def done_ranges(self) -> Ranges:
        """Done ranges above `base`."""
        self._pass_to(self.base)
        ahead = self._ahead_ranges()
        if not self.in_flight:
            return ahead
        unfinished = self.unfinished()
        edges = np.stack([unfinished + 1, np.append(unfinished[1:], self._fetched)], axis=1)
        apart = edges[:, 0] < edges[:, 1]
        return Ranges.of_edges(edges[apart].ravel().tolist()).union(ahead)

    def unfinished(self) -> NDArray[np.int64]:
        """Offsets of the delivered records that are not done, increasing; a copy."""
        return self._delivered.unfinished()

    def oldest_unfinished(self) -> tuple[int, int] | None:
        """Offset and ingestion time (ms) of the unfinished record with the lowest offset; None when all are done."""
        return self._delivered.oldest()

    def is_done(self, offset: int) -> bool:
        """Whether this offset counts as done."""
        if offset >= self._fetched:
            return offset in self._ahead_ranges()
        return not self._delivered.is_unfinished(offset)

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

    def _forget_attempts(self, finished: Sequence[int] | NDArray[np.int64]) -> None:
        """Drops the attempts of records that are done, some of which may just have become so."""
        several = finished if len(finished) < len(self._attempts) else list(self._attempts)
        for offset in map(int, several):
            if offset in self._attempts and self.is_done(offset):
                del self._attempts[offset]

    def _ahead_ranges(self) -> Ranges:
        return Ranges.of_edges(self._ahead[self._ahead_index :])

    def _set_ahead(self, ahead: Ranges) -> None:
        """Replaces the done ranges beyond the fetch position."""
        self._ahead = ahead.edges
        self._ahead_index = 0
        self._ahead_start = ahead.edges[0] if ahead else _NEVER
        self._pass_to(self._fetched)

    def _pass_to(self, offset: int) -> None:
        """Raises the fetch position to an offset, and further through the done ranges that it reaches."""
        self._fetched = max(self._fetched, offset)
        while self._ahead_start <= self._fetched:
            self._fetched = max(self._fetched, self._ahead[self._ahead_index + 1])
            self._ahead_index += 2
            more = self._ahead_index < len(self._ahead)
            self._ahead_start = self._ahead[self._ahead_index] if more else _NEVER


def _newest(rejected: Ranges) -> Ranges:
    """Returns the newest rejected offsets, as many as every commit repeats."""
    return Ranges.of_edges(rejected.edges[-2 * REJECTED_RANGES_KEPT_MAX :])
