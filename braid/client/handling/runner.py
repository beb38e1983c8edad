"""Runs an application's handler over records or batches, and applies the retry policy to errors and time-outs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, cast

from braid.client.consumer_settings import ConsumerSettings
from braid.client.handling.cpu_samples import CpuSamples
from braid.client.handling.error_kinds import ErrorKind, ErrorKinds
from braid.client.records.handled import Handled, X
from braid.client.records.record import Record
from braid.client.tasks import Run
from braid.client.telemetry.consumer_observer import Observer
from braid.client.telemetry.pathways.consuming import ReceivedPathways
from braid.kernel.error_texts import text_of
from braid.kernel.errors import BraidError, HandlerTimeout, Retryable, checked_wait
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import HANDLER_CANCEL_SECONDS, HANDLER_TIME_TICK_SECONDS, RETRY_AFTER_SECONDS_MAX
from braid.kernel.ports import Host, Task
from braid.kernel.timing.busy_time import BusyTime

if TYPE_CHECKING:
    from braid.client.records.batch import Batch

_log = logging.getLogger("braid.consumer")


class Supply(NamedTuple, Generic[X]):
    """The source of the records or batches that one handler takes.

    Attributes:
        take_quickly: The next, or None when `take` has to see to it.
        take: The next, waiting for it; None once closed. Raises `BraidError` when nothing will come any more.
    """

    take_quickly: Callable[[], X | None]
    take: Callable[[], Awaitable[X | None]]


class Trouble(Protocol):
    """Hears of handlers' errors, and may make the next record a probe: `Circuits` and `Retries` of a consumer."""

    @property
    def probes(self) -> Mapping[str, object]:
        """By lane, what is tried of lanes that were stopped; while there is none nobody asks `took` or `ended`."""
        ...

    def took(self, item: Handled) -> None:
        """Notes that an item is about to be handled."""
        ...

    def ended(self, item: Handled, *, well: bool) -> None:
        """Notes that an item was handled."""
        ...

    def failed(self, lane: str, error: BaseException, *, retryable: bool) -> None:
        """Notes that a handler raised over a record."""
        ...


class Again(Protocol):
    """Brings a record back whose handler failed: `Retries.again`."""

    def __call__(self, record: Record, delay_seconds: float, *, counts: bool) -> None:
        """After so many seconds at least; `counts` if that was one of its attempts."""
        ...


class HandlerRunner(Generic[X]):
    """Runs the handlers of one call of `Consumer.run` or `run_batches`."""

    def __init__(
        self,
        host: Host,
        supplies: Sequence[Supply[X]],
        settings: ConsumerSettings,
        handler: Callable[[X], Awaitable[object]],
        watch: Callable[[Run, str], Task],
        *,
        in_threads: bool,
        trouble: Trouble,
        again: Again,
        overdue_changed: Callable[[], None],
        observer: Observer | None = None,
        pathways: ReceivedPathways | None = None,
        samples: CpuSamples | None = None,
    ) -> None:
        """`supplies` has one for each handler; what runs `in_threads` does not end when cancelled.

        `watch` runs what the consumer cannot live without, `trouble` hears of errors, `again` brings back a record
        whose handler failed, `samples` measures CPU time.
        """
        self._host, self._elapsed = host, host.clock.elapsed
        self._supplies = supplies
        self._retry = settings.retry
        self._error_kinds = ErrorKinds(settings.retry)
        self._timeout_seconds = settings.handler_timeout_seconds
        self._grace_seconds = 0.0 if in_threads else HANDLER_CANCEL_SECONDS
        self.in_threads = in_threads
        self._samples = None if in_threads else samples
        # Where an order or exclusive ownership is promised, nobody gets a record while a handler still has it.
        self._settles_late = settings.ordering != "none" or settings.ownership == "exclusive"
        self._handler = handler
        self._watch = watch
        self._trouble = trouble
        self._probes = trouble.probes
        self._again = again
        self._overdue_changed = overdue_changed
        self._observer = observer
        self._pathways = pathways
        self._current: dict[int, X] = {}
        self._since: dict[int, float] = {}  # by slot, when its handler began
        self._slots: list[Task] = []
        self._lost: dict[int, None] = {}  # slots that were cancelled: the lease of what they handle ended
        self._late: dict[int, None] = {}  # slots that were cancelled: they ran out of time
        self._overdue: dict[int, None] = {}  # slots whose handler did not end when its time was over
        self._count = len(supplies)
        self._open: set[int] = set()  # slots that handle items, or wait for them
        self._running = self._ending = False

    async def run(self) -> None:
        """Handles records until the consumer closes or refuses to go on."""
        self._running = True
        self._open_slots()
        overseer = None if self._timeout_seconds is None else self._watch(self._oversee, "handler-time")
        try:
            for slot in self._slots:  # more may be added meanwhile
                await slot.ended()
        finally:
            self._ending = True
            for slot in self._slots:
                slot.cancel()
            for slot in self._slots:
                await slot.ended()
            if overseer is not None:
                overseer.cancel()

    def resize(self, count: int) -> None:
        """Handles so many items at once from now on; the supplies of those that are too many end."""
        self._count = min(count, len(self._supplies))
        if self._running and not self._ending:
            self._open_slots()

    def _open_slots(self) -> None:
        for number in range(self._count):
            if number in self._open:
                continue
            self._open.add(number)
            slot = self._watch(partial(self._slot, number), f"handler-{number}")
            self._slots[number : number + 1] = [slot]  # in place of one that ended, or at the end

    @property
    def running(self) -> bool:
        """Whether any handler runs."""
        return bool(self._current)

    def overdue(self, lease: LeaseId | None = None) -> int:
        """Counts handlers, of one lease or of all, that still run after their time-out."""
        return sum(lease is None or self._current[number].work.lease.id == lease for number in self._overdue)

    def cancel(self, lease: LeaseId | None = None) -> None:
        """Cancels, once, the handlers of one lease, or all."""
        for number, item in list(self._current.items()):
            if number not in self._lost and (lease is None or item.work.lease.id == lease):
                self._lost[number] = None
                self._slots[number].cancel()

    async def _slot(self, number: int) -> None:
        """Handles items one after another. Each record passes here, so shared work is done outside the loop."""
        current, elapsed, probes, take_quickly = self._current, self._elapsed, self._probes, self._supplies[number][0]
        lost, late, overdue, timed = self._lost, self._late, self._overdue, self._timeout_seconds is not None
        handler = self._handler if self._observer is None else partial(self._observed, number)
        task = asyncio.current_task()
        assert task is not None, "slots are tasks"
        if self._pathways is not None:
            self._pathways.handling(partial(current.get, number))
        samples, due = self._samples, [] if self._samples is None else self._samples.due
        busy: BusyTime | None = None  # runs on while records of one lease follow each other
        try:
            while True:
                item = take_quickly()
                if item is None:
                    self._idle(number, busy)
                    busy = None
                    if (item := await self._next(number)) is None:
                        return
                if probes:
                    self._trouble.took(item)
                current[number] = item
                if timed or item.work.busy is not busy:
                    now = elapsed()
                    self._since[number] = now
                    busy = _busy_with(item, busy, now)
                try:
                    await (samples.measured(handler, item) if due and samples else handler(item))
                except asyncio.CancelledError as cancelled:
                    self._ended(number, item, cancelled)
                    continue
                except (KeyboardInterrupt, SystemExit, GeneratorExit):
                    raise  # the process ends, or this coroutine
                except BaseException as error:  # noqa: BLE001 - whatever it raises, its record takes the consequence
                    self._failed(item, error)
                else:
                    item.ack()
                    if probes:
                        self._trouble.ended(item, well=True)
                finally:
                    if overdue:
                        self._in_time_again(number)
                if lost or late:
                    self._forgive(number)  # a handler may have swallowed it
                if self.in_threads and task.cancelling():
                    return  # all end; a thread was waited for
        finally:
            self._idle(number, busy, ended=True)

    def _idle(self, number: int, busy: BusyTime | None, *, ended: bool = False) -> None:
        """Marks a slot as idle or as ended, and stops its busy time."""
        if ended:
            self._open.discard(number)
        if busy is not None:
            busy.ended(self._elapsed())
            del self._current[number]
            if self._overdue:
                self._in_time_again(number)

    async def _next(self, number: int) -> X | None:
        try:
            return await self._supplies[number].take()
        except BraidError:
            return None  # `Consumer.run` raises it

    async def _observed(self, number: int, item: X) -> None:
        """Calls the handler and reports it; a time-out is reported as one, though the record is settled as usual."""
        assert self._observer is not None, "asked for only then"
        raised: BaseException | None = None
        try:
            with self._observer.processing(item):
                try:
                    await self._handler(item)
                except BaseException as error:  # noqa: BLE001 - raised again, below
                    raised = error
                self._raise_told(number, raised)
        except HandlerTimeout:
            pass
        except BaseException:
            if raised is None:
                raise
        if raised is not None:
            raise raised  # not an error of the report itself

    def _raise_told(self, number: int, raised: BaseException | None) -> None:
        """Raises the error to report for a handler, if it failed."""
        if self._ran_out_of_time(number, raised):
            raise self._timed_out()
        if raised is not None:
            raise raised

    def _ran_out_of_time(self, number: int, raised: BaseException | None) -> bool:
        """Whether the record of this slot, whose handler has ended so, timed out now or before."""
        if number in self._overdue and not self._settles_late:
            return True
        return isinstance(raised, asyncio.CancelledError) and self._only_late(number)

    def _only_late(self, number: int) -> bool:
        """Whether a slot was cancelled because its time was over while its lease continues."""
        return number in self._late and number not in self._lost

    # --- time

    async def _oversee(self) -> None:
        """Ends handlers that ran out of time: checks all when the oldest one is due."""
        assert self._timeout_seconds is not None, "somebody named a time"
        while True:
            now = self._elapsed()
            nearest = now + self._timeout_seconds  # a handler that starts later is due later
            for number in list(self._current):
                due = self._due(number)
                if due is not None and due <= now:
                    self._time_is_over(number)
                    due = self._due(number)
                nearest = min(nearest, due or nearest)
            await self._host.clock.sleep(max(nearest - now, HANDLER_TIME_TICK_SECONDS))

    def _due(self, number: int) -> float | None:
        """Returns when a slot's handler needs action; None when everything possible was done."""
        assert self._timeout_seconds is not None, "somebody named a time"
        if number in self._overdue:
            return None
        began = self._since[number] + self._timeout_seconds
        return began + self._grace_seconds if number in self._late else began

    def _time_is_over(self, number: int) -> None:
        if not self.in_threads and number not in self._late:
            self._late[number] = None
            self._slots[number].cancel()
            return
        item = self._current[number]
        self._overdue[number] = None
        self._overdue_changed()
        _log.warning(
            "a handler of %s still runs after its %g s: it cannot be ended, and keeps its slot",
            item.work.lease.id,
            self._timeout_seconds,
        )
        if not self._settles_late:
            self._failed(item, self._timed_out())

    def _in_time_again(self, number: int) -> None:
        if number in self._overdue:
            del self._overdue[number]
            self._overdue_changed()

    def _timed_out(self) -> HandlerTimeout:
        return HandlerTimeout(
            f"the handler did not end in {self._timeout_seconds:g} s",
            remedy="raise handler_timeout_seconds, or set a shorter time-out on what the handler waits for",
        )

    # --- how a slot's handler ended

    def _forgive(self, number: int) -> bool:
        """Withdraws the cancellations of a slot; False if it was not cancelled here."""
        task = asyncio.current_task()
        assert task is not None, "slots are tasks"
        found = False
        for cancelled in (self._lost, self._late):
            if number in cancelled:
                del cancelled[number]
                task.uncancel()
                found = True
        return found

    def _ended(self, number: int, item: X, cancelled: asyncio.CancelledError) -> None:
        """Decides why a slot was cancelled: all handlers end, its lease or its time is over, or the handler did it."""
        task = asyncio.current_task()
        assert task is not None, "slots are tasks"
        if not task.cancelling():
            self._failed(item, cancelled)
            return
        late = self._only_late(number)
        forgiven = self._forgive(number)
        if late and not task.cancelling():
            self._failed(item, self._timed_out())
            return
        item.abandon()
        self._trouble.ended(item, well=False)
        if not forgiven or self._ending or task.cancelling():
            raise cancelled

    def _failed(self, item: X, error: BaseException) -> None:
        kind = self._error_kinds.of(error)
        for record in _unsettled(item):
            self._record_failed(record, error, kind)
        if self._probes:  # a handler that faults the record was able to read it
            self._trouble.ended(item, well=kind in (ErrorKind.PERMANENT, ErrorKind.REJECTED))

    def _record_failed(self, record: Record, error: BaseException, kind: ErrorKind) -> None:
        attempt = record.attempt
        self._trouble.failed(record.lane, error, retryable=kind is ErrorKind.NOT_ITS_FAULT)
        if kind is ErrorKind.REJECTED:
            record.reject(text_of(error))
            return
        times = record.work.failed(record.offset, self._host.clock.now_ms()).times
        if kind is ErrorKind.NOT_ITS_FAULT:
            self._again(record, self._wait_seconds(times, error), counts=False)
        elif kind is ErrorKind.ANOTHER_ATTEMPT and attempt < self._retry.max_attempts:
            self._again(record, self._wait_seconds(attempt, error), counts=True)
        else:
            record.dead_letter(error)

    def _wait_seconds(self, times: int, error: BaseException) -> float:
        """Returns the wait until the next attempt, after so many that failed."""
        try:
            if isinstance(error, Retryable) and error.after_seconds is not None:
                return checked_wait(error.after_seconds)
        except Exception:  # noqa: BLE001 - a class derived from it may hold anything, or raise when asked
            _log.warning("a %s has no valid after_seconds: the usual wait is used", type(error).__name__)
        return min(self._retry.delay_seconds(times, self._host.randomness.uniform(0, 1)), RETRY_AFTER_SECONDS_MAX)


def _busy_with(item: Handled, before: BusyTime | None, now: float) -> BusyTime:
    """Returns the counter for the time of a slot that takes this item next."""
    busy = item.work.busy
    if busy is not before:
        if before is not None:
            before.ended(now)
        busy.began(now)
    return busy


def _unsettled(item: Handled) -> Sequence[Record]:
    if isinstance(item, Record):
        return () if item.settled else (item,)
    return cast("Batch", item).unsettled()
