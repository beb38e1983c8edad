"""Sends one producer's records to one channel: a Kafka producer of its own, reopened when it breaks.

One Kafka producer per channel, so that leaving a channel fails that channel's sends and no others.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf

from braid.client.producing.outbox import Pending
from braid.client.producing.receipts import Receipts
from braid.client.producing.routes import ActiveChannel
from braid.client.telemetry.zone_bytes import Tally
from braid.kernel.errors import BraidError, ClusterUnavailable, Withdrawn
from braid.kernel.ports import Host, KafkaProducer, Task, TopicPartition, Written

Settled = Callable[["ChannelSender", Pending, Written | BraidError], None]


@dataclass(eq=False, slots=True)
class _Turn:
    """A record that waits for earlier ones; `taken` is set once the line hands it over."""

    record: Pending
    over: "asyncio.Future[None]"
    taken: bool = False


@dataclass(eq=False, slots=True)
class _Line:
    """The order of one partition's records before Kafka's client has them."""

    where: TopicPartition
    waiting: deque[_Turn] = field(default_factory=deque)
    moving: bool = False


class ChannelSender:
    """Hands records to Kafka and reports the fate of each to `settled`, unless the channel was left before."""

    def __init__(
        self,
        host: Host,
        channel: ActiveChannel,
        producer: KafkaProducer,
        settled: Settled,
        acknowledged: Tally | None = None,
        receipts: Receipts | None = None,
    ) -> None:
        """`acknowledged` counts the bytes of acknowledged records; `receipts` are those of the whole channel."""
        self.channel = channel
        self._acknowledged = acknowledged or Tally()
        self._host = host
        self._settled = settled
        self._producer = producer
        self._started = asyncio.Event()
        self._prepared = asyncio.Event()
        self._failure = ""
        self._starting: Task = host.tasks.spawn(self._start(), f"start-producer-{channel.id}")
        self._left = False
        self._ending: Task | None = None
        self._lines: dict[int, _Line] = {}
        self._count = 0
        self._quiet_since = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self._receipts = receipts or Receipts()
        self._number = self._receipts.new_sender()
        self._acknowledged_at: float | None = None

    @property
    def receipts(self) -> Mapping[int, int]:
        """By partition, the offset after the last acknowledged record, over all senders of the channel."""
        return self._receipts.next_offsets

    @property
    def in_flight(self) -> int:
        """Records that were handed over and whose fate is not known."""
        return self._count

    @property
    def left(self) -> bool:
        """Whether the channel was left: this sender reports nothing any more."""
        return self._left

    def reached_at(self, now: float) -> float | None:
        """When the cluster last acknowledged a record or held this client back, at `now`; None when it never did."""
        held = now + min(0.0, self._producer.throttled_seconds())
        return self._acknowledged_at if held == -inf else max(held, self._acknowledged_at or held)

    def silent_seconds(self, now: float) -> float:
        """How long the channel has owed an acknowledgement; 0 when it owes none. `now` is `Clock.elapsed`.

        While brokers hold this client back for its quota, none is owed.
        """
        since = max(self._quiet_since, now + min(0.0, self._producer.throttled_seconds()))
        return now - since if self._count else 0.0

    def leaderless(self) -> Collection[int]:
        """Returns partitions that accept nothing now, as the client heard last."""
        return self._producer.leaderless(self.channel.topic)

    def withdraw(self, partitions: Collection[int]) -> None:
        """Takes back records without a key that wait for these partitions and were in no request: `Withdrawn`."""
        for line in [line for partition, line in self._lines.items() if partition in partitions]:
            found = [turn for turn in line.waiting if turn.record.key is None and not turn.over.done()]
            if found:
                line.waiting = deque(turn for turn in line.waiting if turn.record.key is not None or turn.over.done())
            for turn in found:
                turn.taken, quiet_since = True, self._quiet_since
                self._one_less()
                self._quiet_since = quiet_since  # nobody heard from the cluster
                turn.over.set_exception(Withdrawn(f"channel {self.channel.id} was never sent the record"))
            self._producer.withdraw(line.where)

    def cluster_id(self) -> str:
        """The cluster's own id, as the client heard last; empty before it did."""
        return self._producer.cluster_id()

    def forgive(self, now: float) -> None:
        """Counts the channel's silence anew from `now`, on `Clock.elapsed`."""
        self._quiet_since = now

    def offer(self, record: Pending, partition: int) -> bool:
        """Queues a record unless it would have to wait: for others of its partition, for room, for the cluster.

        Raises:
            RecordTooLarge: no batch holds it.
        """
        if self._left or self._failure or not self._started.is_set():
            return False
        line = self._line(partition)
        if line.moving or not self._producer.offer(line.where, record, self._finish):
            return False
        self._one_more()
        return True

    async def send(self, record: Pending, partition: int) -> None:
        """Queues a record; waits while the client's own buffer is full or the cluster was never reached yet.

        Records of one partition are queued in the order of these calls.

        Raises:
            ClusterUnavailable: the channel was left meanwhile, or the client cannot start.
        """
        self._one_more()
        line = self._line(partition)
        if line.moving:
            await self._queue(line, record)
        else:
            await self._go_first(line, record)

    def enqueue(self, record: Pending, partition: int) -> None:
        """Queues a record now, behind those of its partition that wait; a refusal that comes later is its fate.

        Raises:
            RecordTooLarge: no batch holds it.
        """
        if self.offer(record, partition):
            return
        self._one_more()
        line = self._line(partition)
        turn = _Turn(record, asyncio.get_running_loop().create_future())
        turn.over.add_done_callback(partial(self._over, record))
        line.waiting.append(turn)
        if not line.moving:
            line.moving = True
            self._host.tasks.spawn(self._move(line), f"line-{self.channel.id}/{partition}")

    async def prepared(self) -> None:
        """Waits until the first record need not wait for connections, or until that can never be."""
        await self._prepared.wait()

    async def idle(self) -> None:
        """Waits until nothing is in flight."""
        await self._idle.wait()

    async def leave(self) -> None:
        """Leaves the channel: nothing in flight is reported as success any more, and nothing more is sent.

        This does not wait for the client to end, which takes long while its cluster is frozen: see `ended`.
        """
        self._left = True
        self._started.set()
        self._prepared.set()
        self._starting.cancel()
        await self._starting.ended()
        if self._ending is None:
            self._ending = self._host.tasks.spawn(self._producer.abandon(), f"abandon-producer-{self.channel.id}")
            await asyncio.sleep(0)  # what the client holds fails at once

    async def ended(self) -> None:
        """Waits until the client of a channel that was left has ended."""
        if self._ending is not None:
            await self._ending.ended()

    def _line(self, partition: int) -> _Line:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = _Line(TopicPartition(self.channel.topic, partition))
        return line

    async def _queue(self, line: _Line, record: Pending) -> None:
        """Waits until the line has handed the record over."""
        turn = _Turn(record, asyncio.get_running_loop().create_future())
        line.waiting.append(turn)
        try:
            await turn.over
        except BaseException:
            if not turn.taken:
                self._one_less()
            raise

    async def _go_first(self, line: _Line, record: Pending) -> None:
        """Hands over at once, because no record waits; a line that forms meanwhile gets a task of its own."""
        line.moving = True
        try:
            await self._hand_over(record, line.where)
        finally:
            line.moving = bool(line.waiting)
            if line.moving:
                self._host.tasks.spawn(self._move(line), f"line-{self.channel.id}/{line.where.partition}")

    async def _move(self, line: _Line) -> None:
        """Hands a line over, in each turn of the event loop as many records as the client has room for."""
        try:
            while line.waiting:
                turn = line.waiting.popleft()
                if not turn.over.done():
                    await self._take(turn, line.where)
        finally:
            line.moving = False
            for left in line.waiting:  # only when the process ends
                left.over.cancel()

    async def _take(self, turn: _Turn, where: TopicPartition) -> None:
        turn.taken = True
        try:
            await self._hand_over(turn.record, where)
        except BraidError as error:
            if not turn.over.done():
                turn.over.set_exception(error)
        else:
            if not turn.over.done():
                turn.over.set_result(None)

    async def _hand_over(self, record: Pending, where: TopicPartition) -> None:
        """Hands over a record that may have to wait."""
        try:
            if self._left or self._failure or not self._started.is_set():
                await self._start_awaited()
            acknowledgement = await self._producer.send(
                where, record.value, record.key, record.headers, record.stamp_ms
            )
        except BaseException:
            self._one_less()
            raise
        asyncio.ensure_future(acknowledgement).add_done_callback(lambda done: self._finish(record, _result(done)))

    async def _start_awaited(self) -> None:
        await self._started.wait()
        if self._left:
            raise ClusterUnavailable(f"channel {self.channel.id} was left")
        if self._failure:
            raise ClusterUnavailable(self._failure)

    async def _start(self) -> None:
        try:
            await self._producer.start()
            self._started.set()
            await self._producer.prepare(self.channel.topic)
        except Exception as error:  # noqa: BLE001 - a client library may raise anything; sends must not wait for ever
            self._failure = f"the Kafka client failed to start: {type(error).__name__}: {error}"
            self._started.set()
        self._prepared.set()

    def _finish(self, record: Pending, result: Written | BraidError) -> None:
        quiet_since = self._quiet_since
        self._one_less()
        if self._left:  # received, and no longer needed
            return
        if isinstance(result, Written):
            self._acknowledged_at = self._quiet_since  # the failure of just now
            self._acknowledged.bytes += record.size
            self._receipts.take(self._number, result)
        elif isinstance(result, Withdrawn):  # which is no answer of the cluster
            self._quiet_since = quiet_since
        self._settled(self, record, result)

    def _over(self, record: Pending, over: "asyncio.Future[None]") -> None:
        """Counts out a record without a waiting caller that was handed over, or refused."""
        error = None if over.cancelled() else over.exception()
        if isinstance(error, BraidError) and not self._left:
            self._settled(self, record, error)

    def _one_more(self) -> None:
        self._count += 1
        if self._count == 1:
            self._idle.clear()
            self._quiet_since = self._host.clock.elapsed()

    def _one_less(self) -> None:
        self._count -= 1
        self._quiet_since = self._host.clock.elapsed()
        if not self._count:
            self._idle.set()


def _result(done: "asyncio.Future[Written]") -> Written | BraidError:
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is None:
        return done.result()
    if isinstance(error, BraidError):
        return error
    return ClusterUnavailable(f"the Kafka client failed: {type(error).__name__}: {error}")
