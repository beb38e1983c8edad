"""Runs an application's handler over records: many at once, and what follows when it raises."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from braid.client.ready import Ready
from braid.client.record import Record
from braid.client.routing import DLQ_LANE
from braid.client.settings import ConsumerSettings
from braid.client.tracing import process_span, tracer
from braid.client.verdicts import Verdict, Verdicts
from braid.client.watched import Run
from braid.kernel.errors import BraidError, Retryable
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Host, Task


class Handling:
    """One call of `Consumer.run`."""

    def __init__(
        self,
        host: Host,
        ready: Ready,
        settings: ConsumerSettings,
        handler: Callable[[Record], Awaitable[object]],
        watch: Callable[[Run, str], Task],
    ) -> None:
        """`watch` runs what the consumer cannot live without."""
        self._host = host
        self._elapsed = host.clock.elapsed
        self._ready = ready
        self._group = settings.group
        self._retry = settings.retry
        self._verdicts = Verdicts(settings.retry)
        self._concurrency = settings.concurrency
        self._handler = handler
        self._watch = watch
        self._tracer = tracer()
        self._current: dict[int, Record] = {}
        self._slots: list[Task] = []
        self._cancelled: dict[int, None] = {}  # slots whose record's lease ended
        self._ending = False

    async def run(self) -> None:
        """Handles records until the consumer closes or refuses to go on."""
        self._slots = [
            self._watch(partial(self._slot, number), f"handler-{number}") for number in range(self._concurrency)
        ]
        try:
            for slot in self._slots:
                await slot.ended()
        finally:
            self._ending = True
            for slot in self._slots:
                slot.cancel()
            for slot in self._slots:
                await slot.ended()

    @property
    def running(self) -> bool:
        """Whether any handler runs."""
        return bool(self._current)

    def cancel(self, lease: LeaseId) -> None:
        """Cancels, once, the handlers of a lease's records (exclusive groups)."""
        for number, record in list(self._current.items()):
            if record.work.lease.id == lease and number not in self._cancelled:
                self._cancelled[number] = None
                self._slots[number].cancel()

    async def _slot(self, number: int) -> None:
        current, elapsed, take_quickly = self._current, self._elapsed, self._ready.take_quickly
        now = elapsed()
        while True:
            record = take_quickly()
            if record is None:
                record = await self._next()
                if record is None:
                    return
                now = elapsed()
            current[number] = record
            busy = record.work.busy
            busy.began(now)
            try:
                await self._handle(record)
            except asyncio.CancelledError as cancelled:
                self._ended(number, record, cancelled)
            else:
                if self._cancelled:
                    self._forgive(number)  # a handler may have swallowed it
            finally:
                now = elapsed()
                busy.ended(now)
                del current[number]

    async def _next(self) -> Record | None:
        try:
            return await self._ready.take()
        except BraidError:
            return None  # `Consumer.run` raises it

    async def _handle(self, record: Record) -> None:
        try:
            if self._tracer is None:
                await self._handler(record)
            else:
                with process_span(self._tracer, self._group, record):
                    await self._handler(record)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything, and its record takes the consequence
            self._failed(record, error)
        else:
            record.ack()

    def _forgive(self, number: int) -> bool:
        """Takes back the cancellation of a slot whose record's lease ended; False when that was not cancelled."""
        if number not in self._cancelled:
            return False
        del self._cancelled[number]
        task = asyncio.current_task()
        assert task is not None, "slots are tasks"
        task.uncancel()
        return True

    def _ended(self, number: int, record: Record, cancelled: asyncio.CancelledError) -> None:
        """A slot was cancelled because all end, or because its record's lease did; else the handler did it itself."""
        task = asyncio.current_task()
        assert task is not None, "slots are tasks"
        if not task.cancelling():
            self._failed(record, cancelled)
            return
        record.abandon()
        if not self._forgive(number) or self._ending or task.cancelling():
            raise cancelled

    def _failed(self, record: Record, error: BaseException) -> None:
        if record.settled:
            return
        attempt, verdict = record.attempt, self._verdicts.of(error)
        if verdict is Verdict.REJECTED:
            record.reject(str(error))
            return
        record.work.failed(record.offset, self._host.clock.now_ms())
        another = verdict is Verdict.ANOTHER_ATTEMPT and attempt < self._retry.max_attempts
        if verdict is Verdict.NOT_ITS_FAULT or another:
            record.retry(self._wait_seconds(attempt, error))
        elif record.lane == DLQ_LANE:
            record.reject(f"failed {attempt} times: {error}")
        else:
            record.dead_letter(error)

    def _wait_seconds(self, attempt: int, error: BaseException) -> float:
        if isinstance(error, Retryable) and error.after_seconds is not None:
            return error.after_seconds
        return self._retry.delay_seconds(attempt, self._host.randomness.uniform(0, 1))
