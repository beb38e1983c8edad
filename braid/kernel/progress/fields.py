"""The stated progress of a group in one partition: the immutable values that a commit envelope carries.

The tracker that produces them is `tracker.Progress`, the bytes that carry them are `envelope`'s business.
"""

from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.ports import Fingerprint
from braid.kernel.progress.ranges import EMPTY, Ranges


class Attempts(NamedTuple):
    """How often an unfinished record was tried without success."""

    offset: int
    attempts: int


class LaneShare(NamedTuple):
    """The share of a consumer's concurrency that is reserved for a lane."""

    lane: str
    share: int


class SpillPointer(NamedTuple):
    """Names the record that holds the whole of a progress which does not fit its commit: one record of `spill.TOPIC`.

    Attributes:
        partition: Of that topic.
        offset: Of the record.
        slot: Which of its lease's it is.
        size: Bytes of its value.
        checksum: The value's first four bytes.
        done: Offsets it claims beyond those the commit itself claims.
    """

    partition: int
    offset: int
    slot: int
    size: int
    checksum: int
    done: int = 0


@dataclass(frozen=True, slots=True)
class Cursor:
    """A further cursor in the same partition, beside the main one, so that live head and backlog are worked on at once.

    A cursor claims `[start, base)` and `done`; it works upwards from `base` to `until`, which it does not include.

    Attributes:
        start: First offset of the cursor's range.
        base: Everything from `start` up to here is done; at least `start`.
        until: End of the cursor's range, None when it follows the log's end.
        done: Done ranges above `base`, within the cursor's range.
        oldest_ingested_at_ms: Ingestion time of its unfinished record with the lowest offset, None when there is none.
        backlog_permille: Of a cursor that follows the log's end: the share of the work that those below it may take,
            in thousandths; 0 when it says none.
    """

    start: int
    base: int
    until: int | None = None
    done: Ranges = EMPTY
    oldest_ingested_at_ms: int | None = None
    backlog_permille: int = 0

    @property
    def claims(self) -> Ranges:
        """Every offset this cursor says is done."""
        return self.done.add(self.start, self.base)


@dataclass(frozen=True, slots=True)
class EnvelopeFields:
    """Progress of a group in one partition, as it is committed.

    Rejected and expired offsets count as done too: those above `base` are also covered by `done` or a cursor, those
    below `base` are stated until a commit that carries them was acknowledged, and then where there is room.

    Attributes:
        base: Everything below is done; committed as the ordinary Kafka offset.
        done: Done ranges above `base`, of the main cursor.
        until: End of the main cursor's range, None when it follows the log's end.
        cursors: Further cursors beside the main one.
        epoch: The lease epoch under which this was written; 0 without a lease.
        detached: Written while no assigner could be reached.
        oldest_ingested_at_ms: Ingestion time of the unfinished record with the lowest offset, None when there is none;
            where the partition is split, at most that of the lowest undone one, fetched or not.
        head_ingested_at_ms: Ingestion time of the record with the highest offset delivered so far, None before any.
        attempts: Unsuccessful attempts of unfinished records, by increasing offset; counts are positive.
        rejected: Offsets skipped in place, without a copy.
        rejected_before: Of those below `base`, what an acknowledged commit stated already: left out first. Fields that
            were read or encoded have it within `rejected`.
        expired: Offsets that left the log before they were done.
        fingerprint: Identity of the log just below `base`.
        lanes: Lanes' shares; the first is the lane this partition belongs to.
        spill: Where the whole of this progress lies, None when these fields are all of it.
    """

    base: int
    done: Ranges = EMPTY
    until: int | None = None
    cursors: tuple[Cursor, ...] = ()
    epoch: int = 0
    detached: bool = False
    oldest_ingested_at_ms: int | None = None
    head_ingested_at_ms: int | None = None
    attempts: tuple[Attempts, ...] = ()
    rejected: Ranges = EMPTY
    rejected_before: Ranges = EMPTY
    expired: Ranges = EMPTY
    fingerprint: Fingerprint | None = None
    lanes: tuple[LaneShare, ...] = ()
    spill: SpillPointer | None = None

    @property
    def claims(self) -> Ranges:
        """Every offset these fields say is done, from 0."""
        claimed = self.done.add(0, self.base)
        for cursor in self.cursors:
            claimed = claimed.union(cursor.claims)
        return claimed
