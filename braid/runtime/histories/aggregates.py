"""The aggregate loop: load → decide → append → evolve → notify → answer; and following what other leaders append.

Rules are in deciders, bytes in codecs, storage behind the event-store port. This file knows no service's domain.

Commands of one service run one after another (`_writer`): appends reach the store in the order in which their changes
reach subscribers. So a revision always means "everything up to here", for watchers and readers alike.
"""

import asyncio
import sys
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeVar, cast

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Compacted, Conflict, CorruptHistory, Fenced, NotLeader, Unavailable
from braid.kernel.limits.rpc import DECIDE_RETRIES_MAX
from braid.kernel.ports import EventBatch, EventStore, HistoryId, Host, Loaded
from braid.kernel.timing.backoff import Backoff
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Shelf
from braid.runtime.archive.writer import SnapshotWriter
from braid.runtime.histories.decision_spans import decision_spans
from braid.runtime.histories.decisions import Decision, decide_all, encoded_batches
from braid.runtime.histories.fold import Fold, state_hash
from braid.runtime.histories.kinds import (
    AnyKind,
    Asked,
    Authority,
    Change,
    Kind,
    Leadership,
    Outcome,
    RecordedEvent,
    Reloaded,
    within,
)
from braid.runtime.histories.loading import load_ahead, load_all
from braid.runtime.histories.ordered import OrderedHistories
from braid.runtime.histories.past import Listed, Past, PastReader, Verified
from braid.runtime.telemetry import Metrics, logger

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


class Aggregates:
    """All histories of one service, folded in memory; every replica follows them, the leader appends."""

    def __init__(
        self,
        store: EventStore,
        kinds: Mapping[str, AnyKind],
        host: Host,
        service: str,
        authority: Authority,
        metrics: Metrics,
        shelf: Shelf | None = None,
    ) -> None:
        """Creates an empty view; `follow` fills it. Keys of `kinds` are the kinds' names; `shelf` is the archive."""
        self._store = store
        self._kinds = {name: kind.erased() for name, kind in kinds.items()}
        self._host = host
        self._service = service
        self._authority = authority
        self._metrics = metrics
        self._spans = decision_spans()
        self._log = logger(service)
        self.archive_log = ArchiveLog(store, service, host.clock)
        self.pasts = PastReader(store, shelf, self.archive_log, lambda history: self._folds.get(history))
        self.snapshots = SnapshotWriter(
            store, host, service, metrics, shelf, self.archive_log, lambda: self._incarnation
        )
        self._writer = asyncio.Lock()
        self._folds: dict[HistoryId, Fold] = {}
        self._ordered = OrderedHistories()
        self._uncertain: set[HistoryId] = set()
        self._subscribers: list[Callable[[Change | Reloaded], None]] = []
        self._revision = 0
        self._position = 0
        self._incarnation = 0
        self._loaded = asyncio.Event()
        self._corrupt: CorruptHistory | None = None

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The store's revision up to which this view includes every history of the service."""
        return self._revision

    @property
    def incarnation(self) -> int:
        """The store's incarnation these histories were read from; 0 before the first load."""
        return self._incarnation

    @property
    def corrupt(self) -> CorruptHistory | None:
        """The error of a history that this replica cannot read, because of which it may not decide until it ends."""
        return self._corrupt

    def state(self, kind: Kind[S, C, E], id: str) -> S:
        """The state of a history; the decider's initial state if nothing was appended to it."""
        fold = self._folds.get(HistoryId(self._service, kind.name, id))
        return kind.decider.initial(id) if fold is None else cast("S", fold.state)

    def states(self, kind: Kind[S, C, E]) -> Mapping[str, S]:
        """The states of all histories of a kind by id, sorted by id."""
        return {each.id: cast("S", self._folds[each].state) for each in self._ordered.of(self._folds, kind.name)}

    def states_after(self, kind: Kind[S, C, E], id: str) -> Iterator[S]:
        """Yields the states whose ids are greater, in order: a page costs only what it holds."""
        folds = self._folds  # of this moment: a reload does not end a page that is under way
        found = self._ordered.of(folds, kind.name)
        later = islice(found, bisect_right(found, id, key=attrgetter("id")), None)
        return (cast("S", folds[each].state) for each in later)

    def sequence(self, kind: Kind[S, C, E], id: str) -> int:
        """Sequence of a history's last event (etags are made of it); 0 if nothing was appended to it."""
        fold = self._folds.get(HistoryId(self._service, kind.name, id))
        return 0 if fold is None else fold.sequence

    def state_hash(self, kind: Kind[S, C, E], id: str) -> str:
        """SHA-256 of the state's canonical bytes."""
        return state_hash(kind.erased(), self.state(kind, id))

    def histories(self, prefix: str = "") -> Sequence[HistoryId]:
        """Known histories, sorted, under `<kind>/<id>`, `<kind>`, or '' for all."""
        return sorted(history for history in self._folds if within(history, prefix))

    def subscribe(self, callback: Callable[[Change | Reloaded], None]) -> Callable[[], None]:
        """Registers a callback, called synchronously after every evolve, in order of revision, leading or following.
        Returns a function that ends the subscription.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def events(self, history: HistoryId, from_sequence: int = 1) -> Sequence[RecordedEvent]:
        """Reads all of a history's events that are kept; their `revision` is 0 (not kept). Raises `CorruptHistory`."""
        return (await self.listed(history, from_sequence, sys.maxsize)).events

    async def listed(self, history: HistoryId, first: int, most: int, *, until_ms: int = 0, latest: int = 0) -> Listed:
        """A part of a history and its gaps: see `PastReader.listed`."""
        return await self.pasts.listed(history, self._kind_of(history), first, most, until_ms, latest)

    async def past(self, kind: Kind[S, C, E], id: str, at_ms: int = 0) -> Past[S]:
        """A history as it was at a moment, or is now if `at_ms` is 0: see `past`. Raises `HistoryHole`."""
        return await self.pasts.at(HistoryId(self._service, kind.name, id), kind, at_ms)

    async def verified(self, history: HistoryId, names_only: bool) -> Verified:
        """Missing and changed archived events of a history: see `PastReader.verified`."""
        return await self.pasts.verified(history, self._kind_of(history), names_only)

    def sequences(self) -> Mapping[HistoryId, int]:
        """The last sequence of every history."""
        return {history: fold.sequence for history, fold in self._folds.items()}

    async def watch_events(self, prefix: str, after_revision: int) -> AsyncIterator[RecordedEvent]:
        """Yields events under a prefix (see `histories`) appended after a revision, in order, without gaps, forever.

        Raises `Compacted` where some of them are gone: list, then watch again.
        """
        async for batch in self._store.watch(self._service, after_revision):
            if not within(batch.history, prefix):
                continue
            codec = self._kind_of(batch.history).codec
            for sequence, data in enumerate(batch.events, batch.first):
                yield RecordedEvent(batch.history, sequence, batch.revision, *codec.decode(data), data)

    # --- deciding --------------------------------------------------------------------------------------------------

    async def execute(
        self,
        kind: Kind[S, C, E],
        id: str,
        command: C,
        *,
        actor: str,
        tenant: str = "default",
        request_id: str = "",
        cause: str = "",
    ) -> Outcome[S]:
        """Decides a command on one history; returns once its events are appended and this replica still leads.

        A `request_id` this history has recorded is not decided again. Several commands of one request on the same
        history need different ids (`f"{request_id}/2"`).

        Raises:
            NotLeader: this replica does not lead, or its authority ended before the answer.
            BraidError: whatever the decider refuses with.
            OutcomeUnknown: the store did not answer; the history is read back before it is used again.
            CorruptHistory: this replica cannot read its histories.
        """
        asked = Asked(command, actor, tenant, request_id, cause)
        (outcome,) = await self.execute_together(kind, id, [asked])
        if isinstance(outcome, BraidError):
            raise outcome
        return outcome

    async def execute_together(
        self, kind: Kind[S, C, E], id: str, asked: Sequence[Asked[C]]
    ) -> Sequence[Outcome[S] | BraidError]:
        """Executes several commands on one history, one after the other, with as few appends as possible.

        Returns:
            In order, each command's outcome or its refusal; a refusal affects no other command. All outcomes have the
            state after the last.

        Raises:
            As `execute` does, except what deciders refuse with.
        """
        history = HistoryId(self._service, kind.name, id)
        async with self._writer:
            for _ in range(DECIDE_RETRIES_MAX):
                leadership = self._require_leader()
                fold = await self._current(history)
                decided = decide_all(fold, asked, self._host.clock.now_ms(), leadership.epoch, self._decide)
                events = [(event, each.context) for each in decided for event in each.events]
                try:
                    recorded = iter(await self._append(fold, events, leadership))
                except Conflict:
                    self._metrics.conflicts.labels(kind.name).inc()
                    continue
                self._require_leader()
                return [each.outcome(fold, tuple(islice(recorded, len(each.events)))) for each in decided]
        raise Conflict(f"{history} changed under {DECIDE_RETRIES_MAX} decisions", remedy="try again")

    def _require_leader(self) -> Leadership:
        if self._corrupt is not None:
            raise self._corrupt
        return self._authority.require_leader()

    def _decide(self, fold: Fold, state: object, command: object, context: Context) -> Decision:
        started, decide = self._host.clock.elapsed(), fold.kind.decider.decide
        if self._spans is None:
            events = decide(state, command, context)
        else:
            events, context = self._spans.decide(fold.history, decide, state, command, context)
        self._metrics.decide_seconds.labels(fold.kind.name).observe(self._host.clock.elapsed() - started)
        return events, context

    async def _current(self, history: HistoryId) -> Fold:
        if history in self._uncertain:
            self._absorb(history, await self._store.load(history))
            self._uncertain.discard(history)
        return self._folds.get(history) or Fold(history, self._kind_of(history))

    async def _append(
        self, fold: Fold, events: Sequence[tuple[object, Context]], leadership: Leadership
    ) -> Sequence[RecordedEvent]:
        """Appends in as few batches as the store's request limit allows."""
        recorded: list[RecordedEvent] = []
        # Until an append is known to have happened and was folded, the history is not trusted: whatever interrupts this
        # (no answer, cancellation, a conflict), the next command reads it again first.
        for chunk in encoded_batches(fold, events):
            self._uncertain.add(fold.history)
            started = self._host.clock.elapsed()
            try:
                appended = await self._store.append(fold.history, chunk, fold.sequence, leadership.leader.fence)
            except Fenced as error:
                self._authority.step_down("the store refused an append by its fence")
                raise NotLeader("another replica leads now", remedy="ask the leader") from error
            seconds = self._host.clock.elapsed() - started
            self._metrics.append_seconds.labels(fold.kind.name).observe(seconds)
            if self._spans is not None:
                self._spans.appended(fold.history, [context for _, context in events], len(chunk), seconds)
            recorded += self._apply(fold, appended.sequence - len(chunk) + 1, chunk, appended.revision)
            self._uncertain.discard(fold.history)
            self._end_interval(fold, leadership)
        return recorded

    def _end_interval(self, fold: Fold, leadership: Leadership | None) -> None:
        """At the end of an interval, archives its events and saves the snapshot that is due."""
        if not fold.interval_ended or (leadership is None and not self.snapshots.follows()):
            return
        pinned, fold.due, fold.interval_ended = fold.due, None, False
        work = self.snapshots.interval_ended(fold.history, fold.kind, pinned, leadership)
        self._host.tasks.spawn(work, f"snapshot {fold.history}")

    # --- following -------------------------------------------------------------------------------------------------

    async def loaded(self) -> None:
        """Waits until every history was read once."""
        await self._loaded.wait()

    async def follow(self) -> None:
        """Loads all histories, then follows every append until cancelled. Returns only if a history cannot be read."""
        backoff = Backoff(self._host)
        while self._corrupt is None:
            try:
                if not self._loaded.is_set():
                    await self._reload()
                async for batch in self._store.watch(self._service, self._position):
                    self._take(batch)
                    backoff.reset()
            except Compacted as error:
                self._log.warning("histories are read again", service=self._service, error=str(error))
                self._loaded.clear()
            except Unavailable as error:
                self._log.warning("event store unavailable", service=self._service, error=str(error))
                await backoff.wait()
            except CorruptHistory as error:
                self._refuse(error)

    async def catch_up(self) -> None:
        """Reads every history to its head, as a new leader must before its first append.

        Raises:
            CorruptHistory: a history cannot be read; this replica may not lead.
        """
        async with self._writer:
            try:
                ahead, revision = await load_ahead(self._store, self._service, self.sequences())
                for history, loaded in ahead:  # without a turn for others: the view shows all of them at once
                    self._absorb(history, loaded)
            except CorruptHistory as error:
                self._refuse(error)
                raise
            self._uncertain.clear()
            self._revision = max(self._revision, revision)

    async def _reload(self) -> None:
        """Replaces the whole view by the store's present content."""
        async with self._writer:
            incarnation = await self._store.incarnation()
            folds: dict[HistoryId, Fold] = {}  # the view stays as it was until all of them are read

            def restore(history: HistoryId, loaded: Loaded) -> None:
                folds[history] = Fold(history, self._kind_of(history))
                folds[history].restore(loaded)

            revision = await load_all(self._store, self._service, self._host.clock, restore)
            self._folds = folds
            self._uncertain.clear()
            self._revision = self._position = revision
        if self._incarnation not in (0, incarnation):
            self._authority.step_down("the store was restored from a backup")
        self._incarnation = incarnation
        self._loaded.set()
        self._notify(Reloaded(revision))

    def _take(self, batch: EventBatch) -> None:
        """Folds a watched batch; this replica's own appends were folded before, and are skipped."""
        fold = self._folds.get(batch.history) or Fold(batch.history, self._kind_of(batch.history))
        recorded = self._apply(fold, batch.first, batch.events, batch.revision)
        self._position = batch.revision
        if recorded:
            self._end_interval(fold, None)
            age_ms = self._host.clock.now_ms() - recorded[-1].context.now_ms
            self._metrics.watch_lag_seconds.observe(max(0.0, age_ms / 1000))

    def _absorb(self, history: HistoryId, loaded: Loaded) -> None:
        """Updates one history to the state just read."""
        fold = self._folds.get(history) or Fold(history, self._kind_of(history))
        if loaded.sequence and loaded.first <= fold.sequence + 1:
            self._apply(fold, loaded.first, loaded.events, loaded.revision)
        elif loaded.sequence > fold.sequence:
            fresh = Fold(history, fold.kind)
            fresh.restore(loaded)
            self._folds[history] = fresh
            self._revision = max(self._revision, loaded.revision)
            self._notify(Reloaded(self._revision))

    def _apply(self, fold: Fold, first: int, events: Sequence[bytes], revision: int) -> Sequence[RecordedEvent]:
        recorded = fold.apply(first, events, revision)
        self._revision = max(self._revision, revision)
        if recorded:
            self._folds[fold.history] = fold
            self._metrics.events.labels(fold.kind.name).inc(len(recorded))
            self._notify(Change(fold.history, fold.state, recorded, self._revision))
        return recorded

    def _notify(self, change: Change | Reloaded) -> None:
        for callback in tuple(self._subscribers):
            callback(change)

    def _kind_of(self, history: HistoryId) -> Kind[object, object, object]:
        kind = self._kinds.get(history.kind)
        if kind is None:
            facts = {"history": str(history)}
            raise CorruptHistory(f"{history} is of an unknown kind", remedy="run a newer release", metadata=facts)
        return kind

    def _refuse(self, error: CorruptHistory) -> None:
        self._corrupt = error
        self._loaded.set()
        self._log.error(
            "history cannot be read: this replica will not lead",
            error=error.message,
            **{**error.metadata, "remedy": error.remedy},
        )
        self._authority.step_down(error.message)
