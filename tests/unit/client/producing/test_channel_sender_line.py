"""Records that wait for one partition go on in order and together; a cluster that holds them back is not silent."""

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from math import inf

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.outbox import Pending
from braid.client.producing.routes import ActiveChannel
from braid.kernel.errors import BraidError
from braid.kernel.ids import ChannelId
from braid.kernel.ports import TopicPartition, Written
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

CHANNEL = ActiveChannel(ChannelId("logs", "live", 1), "east", "braid.logs.live.1", 4, 1.0)
RECORDS = 500


class FullAtFirst:
    """A Kafka client whose buffer is full until `room` is set."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.throttled = -inf
        self.taken: list[bytes | None] = []
        self.all_taken = asyncio.Event()
        self.acknowledgements: list[asyncio.Future[Written]] = []

    async def start(self) -> None:
        """Is connected at once."""

    async def prepare(self, topic: str) -> None:
        """Is connected to everybody."""

    async def send(
        self,
        partition: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        timestamp_ms: int,
    ) -> Awaitable[Written]:
        """Takes a record once there is room."""
        await self.room.wait()
        self.taken.append(value)
        if len(self.taken) == RECORDS:
            self.all_taken.set()
        future: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self.acknowledgements.append(future)
        return future

    def offer(self, partition: TopicPartition, record: object, settle: object) -> bool:
        """There is no room that one need not wait for."""
        return False

    def throttled_seconds(self) -> float:
        """Returns what the test has set."""
        return self.throttled

    def leaderless(self, topic: str) -> Collection[int]:
        """Every partition has a leader."""
        return ()

    def withdraw(self, partition: TopicPartition) -> None:
        """Does nothing: it has taken no record that was in no request."""

    def cluster_id(self) -> str:
        """Empty: the cluster reported none."""
        return ""

    async def abandon(self) -> None:
        """Nothing more is written."""
        self.room.set()

    async def close(self, timeout_seconds: float) -> None:
        """Nothing to wait for."""


def record(number: int) -> Pending:
    """A keyless record."""
    value = b"%d" % number
    return Pending(number, "live", None, value, (), 0, len(value), id=str(number), deadline=1e9)


def settled(sender: ChannelSender, record: Pending, result: Written | BraidError) -> None:
    """Nobody asks."""


async def sender_with(producer: FullAtFirst) -> tuple[ChannelSender, list[asyncio.Task[None]]]:
    """A sender with a line of records before a full buffer."""
    sender = ChannelSender(virtual_host(running_loop(), 1), CHANNEL, producer, settled)
    sends = [asyncio.ensure_future(sender.send(record(number), 0)) for number in range(RECORDS)]
    await asyncio.sleep(1)
    assert producer.taken == []
    return sender, sends


def test_a_line_moves_together_and_in_order() -> None:
    async def scenario() -> int:
        producer = FullAtFirst()
        sender, sends = await sender_with(producer)
        producer.room.set()
        turns = 0
        while not producer.all_taken.is_set():
            turns += 1
            await asyncio.sleep(0)
        await asyncio.gather(*sends)
        assert producer.taken == [b"%d" % number for number in range(RECORDS)]
        assert sender.in_flight == RECORDS
        return turns

    assert run_virtual(scenario()) < RECORDS / 10


def test_a_cancelled_wait_leaves_the_line_whole() -> None:
    async def scenario() -> None:
        producer = FullAtFirst()
        sender, sends = await sender_with(producer)
        sends[0].cancel()
        sends[100].cancel()
        await asyncio.sleep(1)
        producer.room.set()
        await asyncio.wait(sends)
        assert producer.taken == [b"%d" % number for number in range(RECORDS) if number not in (0, 100)]
        assert sender.in_flight == RECORDS - 2

    run_virtual(scenario())


def test_leaving_fails_the_whole_line() -> None:
    async def scenario() -> None:
        producer = FullAtFirst()
        sender, sends = await sender_with(producer)
        await sender.leave()
        done, _ = await asyncio.wait(sends)
        failed = [task for task in done if isinstance(task.exception(), BraidError)]
        assert len(failed) >= RECORDS - 1
        assert sender.in_flight <= 1

    run_virtual(scenario())


def test_a_cluster_that_holds_records_back_owes_no_answer() -> None:
    async def scenario() -> None:
        producer, host = FullAtFirst(), virtual_host(running_loop(), 1)
        producer.room.set()
        sender = ChannelSender(host, CHANNEL, producer, settled)
        await sender.send(record(0), 0)
        await asyncio.sleep(5)
        now = host.clock.elapsed()
        assert sender.silent_seconds(now) == 5.0 and sender.reached_at(now) is None
        producer.throttled = 3.0
        assert sender.silent_seconds(now) == 0.0 and sender.reached_at(now) == now
        producer.throttled = -0.5
        assert sender.silent_seconds(now) == 0.5 and sender.reached_at(now) == now - 0.5
        producer.throttled = -60.0
        assert sender.silent_seconds(now) == 5.0

    run_virtual(scenario())
