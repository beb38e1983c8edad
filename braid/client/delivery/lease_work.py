"""The work on one lease: its life, its cursors, and what of their progress is committed. No I/O.

Each cursor hands out its own records and settles them (`cursor`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from braid.client.delivery.cursor import Cursor
from braid.client.delivery.cursor_context import CursorContext
from braid.client.delivery.dead_letter_limit import LaneBrake
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.memory_bound import LaneMemory
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import LeaseLife, Settling, Stage
from braid.client.records.delivery import OwnedLease
from braid.client.records.intake_filter import IntakeFilter
from braid.client.records.record import Row
from braid.client.records.slices import Slice
from braid.client.records.where import Where, salt_of
from braid.client.telemetry.pathways.consuming import CursorPathways
from braid.kernel.ports import KnownLog
from braid.kernel.progress.fields import EnvelopeFields, LaneShare
from braid.kernel.progress.tracker import Progress
from braid.kernel.timing.busy_time import BusyTime

_UNKNOWN_LOG = KnownLog()


class Version(NamedTuple):
    """The state of the work on a lease at one moment; a new version means that there is something to commit.

    Attributes:
        changes: Of the lease itself: cursors that came or went, their share.
        cursors: By increasing offset, with the version of each.
    """

    changes: int
    cursors: tuple[tuple[Cursor, int], ...]


class LeaseWork:
    """Works on one lease under one epoch; a new grant makes a new one.

    Its cursors divide the log among them, by increasing offset. The last is at the head of the log; those behind it
    are backlog cursors, which a split leaves.
    """

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
        new_order: Callable[[], KeyOrder[Row, Slice[Cursor]]] | None = None,
        where: Where | None = None,
        pathways: Callable[[], CursorPathways] | None = None,
    ) -> None:
        """Begins with a lease that was granted.

        - `may_start` says whether a handler may start now, if the lease's deadline decides that (exclusive).
        - `brake` says whether records of its lane may be dead-lettered (None: always).
        - `new_order` makes the order of a cursor's records (None: all may be out at once).
        - `where` says which records are wanted (None: all).
        - `pathways` makes the pathways of a cursor (None: they are not followed).
        """
        lane = lease.id.channel.lane
        self.lease = lease
        self.cursors: tuple[Cursor, ...] = ()  # none before progress is restored
        self.backlog_permille = 0  # the backlogs' share of memory, turns and handlers
        self.committed_at = 0.0  # when the newest commit was acknowledged, as the clock's elapsed seconds; 0: none was
        self.memory = memory
        self.lane_share = LaneShare(lane, memory.share)
        self.busy = BusyTime()  # cursors share it
        self._life = LeaseLife()
        self._context = CursorContext(
            lease=lease,
            life=self._life,
            topic_id=bytes(16),
            ready=ready,
            settling=settling,
            memory=memory,
            may_start=may_start,
            brake=brake or LaneBrake(),
            intake=IntakeFilter(group, where, lane, salt_of(lease.id)),
            busy=self.busy,
            pathways=pathways,
        )
        self._new_order = new_order
        self._changes = 0
        self._committed: Version | None = None
        self._skipped = 0  # records skipped by cursors that were closed
        ready.open(lane)

    # --- what is known

    @property
    def topic_id(self) -> bytes:
        """Kafka's id of the topic; zeros until progress is restored."""
        return self._context.topic_id

    @property
    def stage(self) -> Stage:
        """The stage of the work."""
        return self._life.stage

    @property
    def restored(self) -> bool:
        """Whether committed progress was read."""
        return bool(self.cursors)

    @property
    def working(self) -> bool:
        """Whether records are fetched and handed out."""
        return self._life.stage is Stage.WORKING

    @property
    def ended(self) -> bool:
        """Whether the lease is gone."""
        return self._life.stage is Stage.ENDED

    @property
    def head(self) -> Cursor:
        """The cursor at the head of the log; only once restored."""
        return self.cursors[-1]

    @property
    def behind(self) -> Sequence[Cursor]:
        """The backlog cursors, by increasing offset."""
        return self.cursors[:-1]

    @property
    def handled(self) -> int:
        """Counts records that the application works on, even after the lease was lost."""
        return sum(each.out - each.unnoted - each.copying for each in self.cursors)

    @property
    def copying(self) -> int:
        """Counts records on their way to the dlq lane."""
        return sum(each.copying for each in self.cursors)

    @property
    def skipped(self) -> int:
        """Counts records that the filter rejected."""
        return self._skipped + sum(each.skipped for each in self.cursors)

    @property
    def oldest_unfinished_ms(self) -> int | None:
        """Ingestion time of the oldest record that is fetched and not done; None where there is none."""
        found = [each.progress.oldest_unfinished() for each in self.cursors]
        return min((oldest[1] for oldest in found if oldest), default=None)

    # --- life

    def begin(
        self,
        progress: Progress,
        topic_id: bytes,
        known_log: KnownLog = _UNKNOWN_LOG,
        behind: Sequence[tuple[Progress, int]] = (),
    ) -> None:
        """Starts working from restored progress, unless the lease was asked back or lost meanwhile.

        Args:
            progress: Of the cursor at the head.
            topic_id: Kafka's id of the topic.
            known_log: What is known to be done of the log.
            behind: Of each backlog cursor, by increasing offset, the progress and where its range ends; `fall_behind`
                has to be called for each.
        """
        if self.stage is not Stage.RESTORING:
            return
        self._context = self._context._replace(topic_id=topic_id)
        self._life.enter(Stage.WORKING)
        starts = [0, *(until for _, until in behind)]
        trackers = [*(older for older, _ in behind), progress]
        self.cursors = tuple(map(self._cursor, trackers, starts, [known_log] * len(starts)))

    def _cursor(self, progress: Progress, start: int, known_log: KnownLog) -> Cursor:
        order = self._new_order() if self._new_order is not None else None
        return Cursor(self._context, progress, start=start, known_log=known_log, order=order)

    def drain(self) -> None:
        """Hands out nothing more; `drained` returns once every record that is out was settled."""
        if self.stage in (Stage.RESTORING, Stage.WORKING):
            self._life.enter(Stage.DRAINING)
        for each in self._from_head():
            each.drain()

    async def drained(self) -> None:
        """Waits until no record is out."""
        for each in self._from_head():
            await each.drained()

    def end(self) -> None:
        """Ends the work on a lease that is gone: records settled from now on change nothing."""
        self._life.enter(Stage.ENDED)
        for each in self._from_head():
            each.end()

    def _from_head(self) -> Sequence[Cursor]:
        """Returns all cursors, the one at the head first."""
        return (*self.cursors[-1:], *self.cursors[:-1])

    def note_acked(self) -> None:
        """Notes the buffered acknowledgements, so that progress, counts and memory include them."""
        for each in self._from_head():
            each.note_acked()

    def take_load(self) -> tuple[int, int]:
        """Returns the records done and bytes fetched since the last call."""
        loads = [each.take_load() for each in self._from_head()]
        return sum(load[0] for load in loads), sum(load[1] for load in loads)

    # --- backlogs

    def split(self, offset: int, permille: int) -> Cursor:
        """Begins at an offset with a new cursor at the head; the one that is left below it has to `fall_behind`.

        Args:
            offset: Where the new cursor begins: nothing at or above it was fetched.
            permille: What backlog cursors may have of memory, turns and handlers.

        Returns:
            The one that is left below.
        """
        older = self.head
        self.cursors = (*self.cursors, self._cursor(Progress(offset), offset, _UNKNOWN_LOG))
        self.share(permille)
        return older

    def share(self, permille: int) -> None:
        """Sets the share of memory, turns and handlers that backlog cursors get."""
        self.backlog_permille = permille
        self._changes += 1

    def close_oldest(self) -> Cursor | None:
        """Drops and returns the lowest cursor if its range is done; the next one states what it still had to."""
        if len(self.cursors) < 2:
            return None
        oldest, *others = self.cursors
        if oldest.until is None or oldest.progress.base < oldest.until:
            return None
        self.cursors = tuple(others)
        self._skipped += oldest.skipped
        others[0].inherit(oldest)
        self.share(self.backlog_permille if self.behind else 0)
        return oldest

    # --- ranges of the log that somebody plans, and fetches elsewhere

    def pass_to(self, offset: int) -> None:
        """Counts every offset below this one as done or handed out."""
        self.head.progress.advance_fetched(offset)
        self._changes += 1

    def expire(self, log_start: int) -> None:
        """Marks offsets below the log's start as expired, unless they were passed."""
        progress = self.head.progress
        progress.expire(progress.fetched, log_start)
        self._changes += 1

    # --- commits

    @property
    def version(self) -> Version:
        """Returns the version of all cursors; buffered acknowledgements are not counted yet."""
        return Version(self._changes, tuple((each, each.version) for each in self.cursors))

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return self.restored and (any(each.unnoted for each in self.cursors) or self.version != self._committed)

    def committed(self, version: Version, stated: EnvelopeFields, now: float, *, again: bool) -> None:
        """Notes that a commit is stored.

        Args:
            version: Which one it was made of.
            stated: What it states.
            now: The clock's elapsed seconds.
            again: Whether it left something out that the next one can state.
        """
        for cursor, _ in version.cursors:
            cursor.progress.acknowledge(stated)
        self._committed = version
        self.committed_at = now
        if again:
            self._changes += 1
