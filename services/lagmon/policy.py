"""The lag of one group in one partition, from its newest commit, the log's ends and at most one record. Pure.

Lag in records is the log's end minus what is done, gaps and done ranges counted. Lag in seconds is the age of the
oldest record not done, where it is known best:

1. everything is done, or the channel is drained: exactly 0;
2. the record was read for its time, once a stall: its age;
3. the envelope names its ingestion time: its age;
4. the group works through records that lay there when it committed: it is about as old as the newest delivered one;
5. it came since, between two looks close together, or there is no envelope: guessed from the times at which the log's
   end was seen, and labelled so;
6. else it is at least as old as the first look that saw it.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from braid.kernel.envelope import MetadataKind, decode
from braid.kernel.limits.lagmon.sampling import (
    LAG_GUESS_SECONDS,
    LAG_PROBE_AGAIN_SECONDS,
    LAG_STALE_SECONDS,
    LAG_STALL_SECONDS,
    LAG_TABLE_FACTOR,
)
from braid.kernel.progress.cursors import live_cursor
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import EMPTY, Ranges
from services.lagmon.model.ends import LogEnds
from services.lagmon.model.lag import Source

LONG_AGO: Final = -math.inf  # the time of a commit that was there before this replica


class Now(NamedTuple):
    """One instant on both clocks: seconds that never step, and wall-clock milliseconds."""

    elapsed: float
    wall_ms: int

    def later(self, seconds: float) -> "Now":
        """Returns the instant some seconds later, if the wall clock does not step meanwhile."""
        return Now(self.elapsed + seconds, self.wall_ms + round(seconds * 1_000))


class RecordProbe(NamedTuple):
    """A record read for its time: its undone offset, its ingestion time (None: not found), and when it was read."""

    offset: int
    ingested_at_ms: int | None
    at: float


class PartitionLag(NamedTuple):
    """The lag of one group in one partition.

    Attributes:
        records: Undone offsets below the log's end.
        seconds: Age of the oldest of them, at least; 0 for none.
        source: Where the age comes from.
        oldest: The lowest undone offset, -1 for none.
        exact: Whether nothing better could be learned by reading the record.
    """

    records: int
    seconds: float
    source: Source
    oldest: int
    exact: bool


_DONE: Final = PartitionLag(0, 0.0, Source.DONE, -1, True)


@dataclass(slots=True)
class Commit:
    """A group's newest commit of one partition; its envelope is decoded when first needed.

    Attributes:
        offset: The committed offset.
        metadata: The committed metadata.
        time_ms: The coordinator's wall clock.
        heard_at: When it was read, in seconds that never step; `LONG_AGO` when it was there before.
    """

    offset: int
    metadata: str
    time_ms: int
    heard_at: float = LONG_AGO
    _decoded: tuple[MetadataKind, EnvelopeFields, Ranges] | None = None

    @property
    def kind(self) -> MetadataKind:
        """The kind of the metadata."""
        return self._read()[0]

    @property
    def fields(self) -> EnvelopeFields:
        """The fields of the envelope; without one, only the offset."""
        return self._read()[1]

    @property
    def claims(self) -> Ranges:
        """Every offset that the commit says is done."""
        return self._read()[2]

    @property
    def epoch(self) -> int:
        """The holder's lease epoch; 0 without one."""
        return self.fields.epoch

    @property
    def detached(self) -> bool:
        """Whether the holder worked without an assigner."""
        return self.fields.detached

    def _read(self) -> tuple[MetadataKind, EnvelopeFields, Ranges]:
        if self._decoded is None:
            decoded = decode(self.offset, self.metadata)
            self._decoded = (decoded.kind, decoded.fields, decoded.fields.claims)
        return self._decoded


@dataclass(slots=True)
class PartitionProgress:
    """The known progress of one group in one partition.

    Attributes:
        commit: The newest commit, None for a registered group without any.
        probe: The record last read for its time.
        no_records: Offsets found to hold no record of anybody's (canaries of seals).
    """

    commit: Commit | None = None
    probe: RecordProbe | None = None
    no_records: Ranges = EMPTY


def read_lag(progress: PartitionProgress, ends: LogEnds, now: Now, *, drained: bool = False) -> PartitionLag:
    """Returns the present lag. Never negative, never NaN, exactly 0 when everything is done."""
    commit = progress.commit
    if drained or (commit is not None and 0 <= ends.end <= commit.offset):
        return _DONE  # without a look into the envelope
    undone = undone_offsets(progress, ends)
    oldest = undone.start
    if oldest is None:
        return _DONE if ends.end >= 0 else _unseen(progress, now)
    seconds, source, exact = _age(progress, ends, oldest, now)
    beside = commit.fields.spill.done if commit is not None and commit.fields.spill is not None else 0
    return PartitionLag(max(1, undone.count - beside), max(0.0, seconds), source, oldest, exact)


def undone_offsets(progress: PartitionProgress, ends: LogEnds) -> Ranges:
    """Returns offsets of the log that are not done: above the committed one, and in gaps between done ranges."""
    done = progress.commit.claims if progress.commit else EMPTY
    return done.gaps(max(ends.start, 0), ends.end).subtract(progress.no_records)


def live_seconds(progress: PartitionProgress, ends: LogEnds, now: Now) -> float | None:
    """Returns the age of the oldest undone record from where the live cursor began; None if it has none."""
    commit = progress.commit
    live = live_cursor(commit.fields) if commit is not None else None
    if commit is None or live is None:
        return None
    undone = commit.claims.gaps(live.start, ends.end).start
    if undone is None:
        return 0.0
    if live.oldest_ingested_at_ms is not None:
        return max(0.0, (now.wall_ms - live.oldest_ingested_at_ms) / 1000)
    _, by = ends.written(undone)
    return max(0.0, now.elapsed - by) if by is not None else 0.0


def wants_probe(progress: PartitionProgress, reading: PartitionLag, ends: LogEnds, now: Now) -> bool:
    """Whether the record at the oldest undone offset should be read for its time."""
    commit, probe = progress.commit, progress.probe
    if reading.exact or reading.oldest < 0 or (commit is not None and not _has_envelope(commit)):
        return False
    if probe is not None and probe.offset == reading.oldest:
        return probe.ingested_at_ms is None and now.elapsed - probe.at >= LAG_PROBE_AGAIN_SECONDS
    seen, heard_at = ends.written(reading.oldest).by, commit.heard_at if commit else LONG_AGO
    return seen is not None and now.elapsed - max(seen, heard_at) >= LAG_STALL_SECONDS


def is_stale(ends: LogEnds, now: Now) -> bool:
    """Whether the log's end was not observed lately."""
    return ends.seen_at is None or now.elapsed - ends.seen_at > LAG_STALE_SECONDS


def has_envelope(progress: PartitionProgress) -> bool:
    """Whether the newest commit is a Braid member's, readable or not."""
    return progress.commit is not None and _has_envelope(progress.commit)


def _has_envelope(commit: Commit) -> bool:
    return commit.kind in (MetadataKind.ENVELOPE, MetadataKind.DAMAGED, MetadataKind.UNSUPPORTED)


def _unseen(progress: PartitionProgress, now: Now) -> PartitionLag:
    """Returns the lag of a log whose end was never observed, from the envelope alone."""
    known = progress.commit.fields.oldest_ingested_at_ms if progress.commit else None
    if known is None or progress.commit is None:
        return PartitionLag(0, 0.0, Source.UNKNOWN, -1, False)
    unfinished = progress.commit.claims.gaps(progress.commit.fields.base, progress.commit.claims.end or 0)
    seconds = max(0.0, (now.wall_ms - known) / 1000)
    return PartitionLag(max(1, unfinished.count), seconds, Source.ENVELOPE, -1, True)


def _age(progress: PartitionProgress, ends: LogEnds, oldest: int, now: Now) -> tuple[float, Source, bool]:
    """Returns seconds, source, and whether reading the record would give nothing better."""
    commit, probe = progress.commit, progress.probe
    if probe is not None and probe.offset == oldest and probe.ingested_at_ms is not None:
        return (now.wall_ms - probe.ingested_at_ms) / 1000, Source.RECORD, True
    after, by = ends.written(oldest)
    plain = commit is not None and not _has_envelope(commit)
    if commit is None or plain:
        return _guess(ends, oldest, now, within=math.inf if plain else LAG_GUESS_SECONDS)
    fields = commit.fields  # where it is split, what was delivered last says nothing of what lies behind
    expired = ends.start > fields.base  # the log lost its start: what the envelope calls oldest may be gone
    if fields.oldest_ingested_at_ms is not None and not expired:
        return (now.wall_ms - fields.oldest_ingested_at_ms) / 1000, Source.ENVELOPE, True
    delivered_in_order = fields.head_ingested_at_ms is not None and fields.until is None
    if delivered_in_order and by is not None and by <= commit.heard_at:
        since_head = (now.wall_ms - (fields.head_ingested_at_ms or 0)) / 1000
        most = since_head if after is None else min(since_head, now.elapsed - after)
        return max(now.elapsed - by, most), Source.ENVELOPE, False
    return _guess(ends, oldest, now, within=LAG_GUESS_SECONDS)


def _guess(ends: LogEnds, oldest: int, now: Now, *, within: float) -> tuple[float, Source, bool]:
    """Guesses an age from the two looks between which a record was written; its least age where they are far apart.

    Args:
        ends: The log.
        oldest: The record's offset.
        now: This moment.
        within: Seconds between looks that are close enough.
    """
    after, by = ends.written(oldest)
    guessed = ends.guessed(oldest)
    if guessed is not None and after is not None and by is not None and by - after <= within:
        return now.elapsed - guessed, Source.ESTIMATE, False
    return now.elapsed - by if by is not None else 0.0, Source.UNKNOWN, False


def table_seconds(asked_seconds: float, took_seconds: float) -> float:
    """Returns how long a table of lag may be used, by how long it took to compute.

    A page of a long list would wait for a table of its own otherwise, and all time would go into tables.
    """
    return max(asked_seconds, took_seconds * LAG_TABLE_FACTOR)
