"""Reports the fate of each record of a producer to its caller once: acknowledged, refused, or given up as unknown."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.outbox import Outbox, Pending
from braid.client.records.outgoing import Receipt
from braid.client.telemetry.metrics import instruments, operation
from braid.kernel.errors import BraidError, DeliveryUnknown
from braid.kernel.ports import Clock, Written


class Outcomes:
    """Takes records out of the outbox, answers their callers, and measures how long each took."""

    def __init__(self, clock: Clock, outbox: Outbox, stream: str, timeout_seconds: float) -> None:
        """A record's deadline is `timeout_seconds` after it was sent."""
        self._clock = clock
        self._outbox = outbox
        self._stream = stream
        self._timeout_seconds = timeout_seconds
        self._submitting: dict[int, asyncio.Task[object]] = {}
        self._instruments = instruments()

    def settled(self, sender: ChannelSender, record: Pending, result: Written | BraidError) -> None:
        """Settles a record that Kafka acknowledged, or refused for good."""
        if not self._outbox.remove(record) or record.future.done():
            return
        channel = sender.channel
        if self._instruments is not None:  # every record passes here
            self._measure(channel.topic, channel.cluster, record, result)
        if isinstance(result, BraidError):
            record.future.set_exception(result)
            return
        record.future.set_result(
            Receipt(
                channel.cluster,
                result.topic,
                result.partition,
                result.offset,
                record.id,
                channel.id,
                result.timestamp_ms,
            )
        )

    async def submit(self, record: Pending, submit: Callable[[Pending], Awaitable[None]]) -> None:
        """Runs `submit`, which hands a record to its channel; cancels it when the record is given up."""
        task = asyncio.current_task()
        assert task is not None, "coroutines run in tasks"
        self._submitting[record.sequence] = task
        try:
            await submit(record)
        except asyncio.CancelledError:
            given_up = record.future.done() and not record.future.cancelled()
            if given_up and not task.uncancel():
                return
            self._outbox.remove(record)
            raise
        finally:
            del self._submitting[record.sequence]

    def give_up_overdue(self, now: float) -> None:
        """Gives up records whose deadline has passed (`Clock.elapsed`)."""
        while (oldest := self._outbox.oldest()) is not None and oldest.deadline <= now:
            self._give_up(oldest, f"not acknowledged in {self._timeout_seconds:g} s")

    def give_up_all(self, why: str) -> None:
        """Gives up every record in the outbox."""
        for record in list(self._outbox):
            self._give_up(record, why)

    def _give_up(self, record: Pending, why: str) -> None:
        self._outbox.remove(record)
        if not record.future.done():
            if self._instruments is not None:
                self._measure(self._stream, "", record, None)
            record.future.set_exception(
                DeliveryUnknown(
                    f"the fate of record {record.id} is unknown: {why}",
                    remedy="it may have arrived or still arrive; send it again only if a repeat does no harm",
                )
            )
            record.future.exception()  # nobody may be waiting any more
            if record.sequence in self._submitting:
                self._submitting[record.sequence].cancel()

    def _measure(self, topic: str, cluster: str, record: Pending, result: Written | BraidError | None) -> None:
        """Measures one record whose fate is known, or that was given up (None)."""
        assert self._instruments is not None, "somebody measures"
        error = "" if isinstance(result, Written) else type(result).__name__ if result else DeliveryUnknown.__name__
        attributes = operation("send", "send", topic, cluster, error=error)
        seconds = self._clock.elapsed() - (record.deadline - self._timeout_seconds)
        self._instruments.operation.record(seconds, attributes)
        self._instruments.sent.add(1, attributes)


def outcome_of(settled: asyncio.Future[Receipt]) -> Receipt | BraidError:
    """Returns a settled record's receipt, or its error; raises an error that is not Braid's."""
    error = settled.exception()
    if error is None:
        return settled.result()
    if isinstance(error, BraidError):
        return error
    raise error


async def all_settled(futures: Sequence[asyncio.Future[Receipt]]) -> None:
    """Waits until every future is done, without a callback for each: most are done after the first wait."""
    try:
        for future in futures:
            if not future.done():
                await asyncio.wait((future,))
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise
    finally:
        for future in futures:  # a failure that is not the first is not raised, yet was heard
            _ = not future.done() or future.cancelled() or future.exception()
