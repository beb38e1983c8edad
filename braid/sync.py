"""The SDK without asyncio: the same producer and consumer, on an event loop in a thread of their own.

    with braid.sync.connect() as mesh, mesh.producer("logs") as producer:
        producer.send(b"hello", key=b"host-1")

Every object may be used from any thread. Here is delegation only; what happens is the asynchronous SDK's business.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar, cast

import braid
from braid.client.consumer_settings import Start
from braid.client.mesh import MeshOfStreams
from braid.client.records.handled import ThreadRecord
from braid.kernel.limits.assigner.leases import LEASE_MS_DEFAULT
from braid.kernel.limits.client import (
    COMMIT_INTERVAL_SECONDS,
    DELIVERY_TIMEOUT_SECONDS,
    DETACHED_SECONDS_MAX,
    FETCH_RECORDS_MAX,
    IN_FLIGHT_BYTES_MAX,
    PRODUCER_BUFFER_BYTES,
)

T = TypeVar("T")
P = ParamSpec("P")

_AT_ONCE: Final = 256  # records brought over from the loop's thread together
_CANCEL_SECONDS: Final = 5.0  # for tasks that are cancelled when the loop ends
_POLL_SECONDS: Final = 1.0  # how often a waiting iteration looks whether its consumer was closed


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="braid", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[object, object, T]) -> T:
        """Runs a coroutine there and returns its result; interrupted here, it is cancelled there."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def tell(self, function: Callable[[], None]) -> None:
        """Runs a function there, some time soon."""
        self.loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """Ends the thread. Tasks that are left, such as connections that hang up, are cancelled first."""
        try:
            self.call(_cancel_others())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


async def _cancel_others() -> None:
    """Cancels all other tasks of this loop and waits for them, as `asyncio.run` does, but not for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CANCEL_SECONDS)


Record = ThreadRecord


class Producer:
    """`braid.Producer`, waiting instead of awaited."""

    def __init__(self, make: Callable[[], braid.Producer], thread: LoopThread) -> None:
        self._make = make
        self._thread = thread

    def __enter__(self) -> Self:
        self._thread.call(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        lane: str | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp: int | None = None,
        id: str | None = None,
    ) -> braid.Receipt:
        """See `braid.Producer.send`."""
        return self._thread.call(
            self._producer.send(value, key=key, lane=lane, headers=headers, timestamp=timestamp, id=id)
        )

    def send_many(self, records: Iterable[braid.Outgoing]) -> list[braid.Receipt]:
        """See `braid.Producer.send_many`."""
        return self._thread.call(self._producer.send_many(records))

    def flush(self) -> None:
        """See `braid.Producer.flush`."""
        self._thread.call(self._producer.flush())

    def close(self) -> None:
        """See `braid.Producer.close`."""
        self._thread.call(self._producer.close())

    async def _open(self) -> None:
        self._producer = self._make()
        await self._producer.__aenter__()


class Consumer:
    """`braid.Consumer`, waiting instead of awaited. Iterate over it, or give `run` an ordinary function."""

    def __init__(self, make: Callable[[], braid.Consumer], thread: LoopThread) -> None:
        self._make = make
        self._thread = thread

    def __enter__(self) -> Self:
        self._thread.call(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, until the consumer is closed."""
        while not self._consumer.closed:
            yield from self.take_many(_AT_ONCE, _POLL_SECONDS)

    def take(self, timeout_seconds: float) -> Record | None:
        """See `braid.Consumer.take`."""
        taken = self.take_many(1, timeout_seconds)
        return taken[0] if taken else None

    def take_many(self, max_records: int, timeout_seconds: float) -> list[Record]:
        """See `braid.Consumer.take_many`."""
        taken = self._thread.call(self._consumer.take_many(max_records, timeout_seconds))
        return [Record(record, self._thread.tell) for record in taken]

    def processing(self, item: Record) -> AbstractContextManager[None]:
        """See `braid.Consumer.processing`."""
        return self._consumer.processing(item)

    def run(self, handler: Callable[[Record], object]) -> None:
        """See `braid.Consumer.run`: `handler` is called in `concurrency` threads, until the consumer is closed."""
        self._thread.call(self._consumer.run(cast("Callable[[braid.Record], object]", handler)))

    def run_batches(self, handler: Callable[[braid.Batch], object], *, max_records: int = FETCH_RECORDS_MAX) -> None:
        """See `braid.Consumer.run_batches`: `handler` is called in `concurrency` threads."""
        self._thread.call(self._consumer.run_batches(handler, max_records=max_records))

    def leases(self) -> list[braid.Lease]:
        """See `braid.Consumer.leases`."""
        return self._here(self._consumer.leases)

    def lag(self) -> dict[str, float]:
        """See `braid.Consumer.lag`."""
        return self._here(self._consumer.lag)

    def pause(self, lane: str) -> None:
        """See `braid.Consumer.pause`."""
        self._here(lambda: self._consumer.pause(lane))

    def resume(self, lane: str) -> None:
        """See `braid.Consumer.resume`."""
        self._here(lambda: self._consumer.resume(lane))

    def stopped(self) -> Mapping[str, str]:
        """See `braid.Consumer.stopped`."""
        return self._here(self._consumer.stopped)

    def explain(self) -> list[braid.Explained]:
        """See `braid.Consumer.explain`."""
        return self._here(self._consumer.explain)

    def commit(self) -> None:
        """See `braid.Consumer.commit`."""
        self._thread.call(self._consumer.commit())

    def close(self) -> None:
        """See `braid.Consumer.close`."""
        self._thread.call(self._consumer.close())

    def _here(self, function: Callable[[], T]) -> T:
        async def asked() -> T:
            return function()

        return self._thread.call(asked())

    async def _open(self) -> None:
        self._consumer = self._make()
        await self._consumer.__aenter__()


class Mesh:
    """`braid.Mesh`, waiting instead of awaited; use it as a context."""

    def __init__(self, make: Callable[[], MeshOfStreams]) -> None:
        """`make` is called in the loop's thread."""
        self._make = make

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._thread.call(self._open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._mesh, braid.Mesh):
            self._thread.call(self._mesh.__aexit__(None, None, None))
        self._thread.stop()

    def producer(
        self,
        stream: str,
        *,
        max_buffer_bytes: int = PRODUCER_BUFFER_BYTES,
        delivery_timeout_seconds: float = DELIVERY_TIMEOUT_SECONDS,
        compression: str | None = None,
        linger_ms: int = 5,
        lane_rule: braid.LaneRule | None = None,
    ) -> Producer:
        """See `braid.Mesh.producer`."""
        return Producer(
            lambda: self._mesh.producer(
                stream,
                max_buffer_bytes=max_buffer_bytes,
                delivery_timeout_seconds=delivery_timeout_seconds,
                compression=compression,
                linger_ms=linger_ms,
                lane_rule=lane_rule,
            ),
            self._thread,
        )

    def consumer(
        self,
        streams: Sequence[str],
        *,
        group: str,
        start: Start = "earliest",
        lanes: Mapping[str, int] | None = None,
        ordering: str = "none",
        concurrency: int | Mapping[str, int] = 64,
        retry: braid.Retry | None = None,
        ownership: str = "at_least_once",
        fencing: str | None = None,
        lease_seconds: float = LEASE_MS_DEFAULT / 1000,
        commit_interval_seconds: float = COMMIT_INTERVAL_SECONDS,
        quarantine_bytes: int = 0,
        dead_letter_tracebacks: str | None = None,
        max_in_flight_bytes: int = IN_FLIGHT_BYTES_MAX,
        detached_seconds_max: float = DETACHED_SECONDS_MAX,
        on_assigned: Callable[[list[str]], None] | None = None,
        on_revoked: Callable[[list[str]], None] | None = None,
        where: braid.Where | None = None,
        handler_timeout_seconds: float | None = None,
        cancel_at_loss: bool = False,
        backlog: braid.Backlog | None = None,
        max_concurrency: int | None = None,
    ) -> Consumer:
        """See `braid.Mesh.consumer`; the callbacks are called in the loop's thread."""
        return self._consuming(
            self._mesh.consumer,
            streams,
            group=group,
            start=start,
            lanes=lanes,
            ordering=ordering,
            concurrency=concurrency,
            retry=retry,
            ownership=ownership,
            fencing=fencing,
            lease_seconds=lease_seconds,
            commit_interval_seconds=commit_interval_seconds,
            quarantine_bytes=quarantine_bytes,
            dead_letter_tracebacks=dead_letter_tracebacks,
            max_in_flight_bytes=max_in_flight_bytes,
            detached_seconds_max=detached_seconds_max,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            where=where,
            handler_timeout_seconds=handler_timeout_seconds,
            cancel_at_loss=cancel_at_loss, backlog=backlog, max_concurrency=max_concurrency,
        )  # fmt: skip

    def _consuming(self, open: Callable[P, braid.Consumer], *args: P.args, **settings: P.kwargs) -> Consumer:
        return Consumer(lambda: open(*args, **settings), self._thread)

    async def _open(self) -> None:
        self._mesh = self._make()
        if isinstance(self._mesh, braid.Mesh):
            await self._mesh.__aenter__()


def connect(
    endpoint: str | None = None,
    *,
    client_id: str = "",
    zone: str = "",
    tls: braid.Tls | None = None,
    token: str | braid.Token | None = None,
    token_file: str | Path | None = None,
    pathways: str = "",
) -> Mesh:
    """See `braid.connect`; entering the context raises what that does."""
    named = {"client_id": client_id, "zone": zone, "pathways": pathways}
    return Mesh(lambda: braid.connect(endpoint, **named, tls=tls, token=token, token_file=token_file))
