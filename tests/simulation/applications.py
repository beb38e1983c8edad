"""The applications of a run: members with a sink, producers with a ledger. They use the SDK as anybody would."""

import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol

from braid.client.consumer_settings import Circuit, Retry, RetryBudget
from braid.client.consuming.consumer import Consumer
from braid.client.mesh import Mesh
from braid.client.producing.producer import Producer
from braid.client.records.record import Record
from braid.kernel.errors import BraidError, Retryable
from testbed.checkers import facts
from tests.simulation.journal import Journal
from tests.support.virtual_time import VirtualProcess

GROUP: Final = "indexer"
STREAM: Final = "logs"
RETRY: Final = Retry(
    max_attempts=3,
    circuit=Circuit(failures=5, seconds=1.0, probe_seconds=(0.2, 2.0)),
    budget=RetryBudget(per_second=5.0),
)
HANDLER_TIMEOUT_SECONDS: Final = 1.0  # far above what handlers take, and below what processes are stopped for
SENDS_AT_ONCE_MAX: Final = 50
BULK_EVERY: Final = 4  # one of so many records


class Settings(Protocol):
    """The settings of a run that applications need."""

    @property
    def exclusive(self) -> bool: ...
    @property
    def lease_seconds(self) -> float: ...
    @property
    def send_interval_seconds(self) -> float: ...
    @property
    def handling_seconds(self) -> float: ...
    @property
    def bulk_seconds(self) -> float: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def backoff_seconds(self) -> tuple[float, float]: ...
    @property
    def poison_percent(self) -> int: ...


class PoisonedError(Exception):
    """The error that a handler raises for a poison record."""


class Member:
    """One life of a member process: joins, handles records, writes them to its sink. It may be several members."""

    def __init__(
        self,
        process: VirtualProcess,
        mesh: Mesh,
        journal: Journal,
        settings: Settings,
        mates: int = 0,
        name: str = "",
        group: str = GROUP,
    ) -> None:
        """`mates` are further members of the same process and mesh; they have names of their own."""
        names = [f"{process.name}/{number + 1}" for number in range(mates)]
        self.mates = [Member(process, mesh, journal, settings, name=each) for each in names]
        self.name = name or process.name
        self.consumer: Consumer | None = None
        self.leaving = False
        self._group = group
        self._process = process
        self._mesh = mesh
        self._journal = journal
        self._settings = settings
        self._handlers = 0

    async def run(self) -> None:
        """Consumes until told to leave."""
        async with _entered(self._mesh, self._process):
            tasks = [self._process.tasks.spawn(mate.work(), mate.name) for mate in self.mates]
            await self.work()
            for task in tasks:
                await task.ended()

    async def work(self) -> None:
        """Consumes in an entered mesh, until told to leave."""
        while not self.leaving:
            try:
                await self._consume()
            except BraidError as error:
                self._journal.say(f"{self.name} consumer ended: {error}")
                await self._process.host.clock.sleep(0.5)

    async def leave(self) -> None:
        """Closes the consumer, as a process told to stop does."""
        self.leaving = True
        if self.consumer is not None:
            await self.consumer.close()
        for mate in self.mates:
            await mate.leave()

    def holds(self) -> list[str]:
        """Names of the leases it and its mates work on."""
        if not self._process.alive:
            return []
        own = self.consumer.leases() if self.consumer is not None else []
        working = [lease.name for lease in own if lease.stage == "working"]
        return [*working, *(name for mate in self.mates for name in mate.holds())]

    async def _consume(self) -> None:
        async with self._mesh.consumer(
            [STREAM],
            group=self._group,
            concurrency=self._settings.concurrency,
            retry=replace(RETRY, backoff_seconds=self._settings.backoff_seconds),
            ownership="exclusive" if self._settings.exclusive else "at_least_once",
            lease_seconds=self._settings.lease_seconds,
            handler_timeout_seconds=HANDLER_TIMEOUT_SECONDS,
        ) as consumer:
            self.consumer = consumer
            await consumer.run(self._handle)
        self.consumer = None

    async def _handle(self, record: Record) -> None:
        self._handlers += 1
        name, handler, host = self.name, self._handlers, self._process.host
        place = facts.Place(record.cluster, record.topic, record.partition, record.offset)
        value = record.value or b""
        self._journal.note(facts.HandlerStarted(self._group, name, place.log, handler, place.offset))
        try:
            await host.clock.sleep(host.randomness.uniform(*self._seconds(record.lane)))
            self._digest(record, value, place)
        except BaseException:
            if self._process.alive:
                self._journal.note(facts.Failed(value, self._group, place))
            raise
        finally:
            if self._process.alive:
                self._journal.note(facts.HandlerEnded(name, handler))

    def _seconds(self, lane: str) -> tuple[float, float]:
        """The shortest and longest time that a handler takes."""
        longest = self._settings.bulk_seconds if lane == "bulk" else 0.0
        return (longest / 2, longest) if longest else (0.0, self._settings.handling_seconds)

    def _digest(self, record: Record, value: bytes, place: facts.Place) -> None:
        """Writes to the sink, refuses, or raises."""
        if self._journal.away:
            raise Retryable("the sink is away")
        fate = fate_of(value, self._settings.poison_percent)
        if (fate == "poison" and not self._journal.mended) or (fate == "flaky" and record.attempt == 1):
            raise PoisonedError(value.decode())
        if fate == "refused":
            self._journal.note(facts.Rejected(value, self._group, place))
            record.reject("not ours")
        else:
            self._journal.note(facts.Processed(value, self._group, place, record.epoch))


class ProducerApplication:
    """One life of a producer process: sends records of its own and notes which were acknowledged.

    Attributes:
        voices: How many producers it has.
        waiting: Records whose fate is not known.
    """

    def __init__(
        self, process: VirtualProcess, mesh: Mesh, journal: Journal, settings: Settings, quiet: Callable[[], bool]
    ) -> None:
        """`quiet` tells whether nothing more is to be sent."""
        self.voices = 1
        self.waiting = 0
        self._process = process
        self._mesh = mesh
        self._journal = journal
        self._settings = settings
        self._quiet = quiet
        self._count = 0

    async def run(self) -> None:
        """Sends until told to be quiet."""
        async with _entered(self._mesh, self._process):
            others = [self._process.tasks.spawn(self._speak(), f"voice-{at}") for at in range(1, self.voices)]
            await self._speak()
            for other in others:
                await other.ended()

    async def _speak(self) -> None:
        """One producer after the other."""
        while not self._quiet():
            try:
                async with self._mesh.producer(STREAM, delivery_timeout_seconds=30.0) as producer:
                    await self._produce(producer)
            except BraidError as error:
                self._journal.say(f"{self._process.name} producer ended: {error}")
                await self._process.host.clock.sleep(0.5)

    async def _produce(self, producer: Producer) -> None:
        host = self._process.host
        while not self._quiet():
            await host.clock.sleep(host.randomness.uniform(0.0, 2 * self._interval_seconds()))
            if self.waiting < SENDS_AT_ONCE_MAX:
                self._count += 1
                host.tasks.spawn(self._send(producer, self._count), f"send-{self._count}")
        while self.waiting:
            await host.clock.sleep(0.05)

    def _interval_seconds(self) -> float:
        """Mean time between two records of a voice."""
        return self._settings.send_interval_seconds

    def _lane(self, dice: int) -> str:
        """The lane of a record."""
        return "bulk" if dice % BULK_EVERY == 0 else "live"

    async def _send(self, producer: Producer, number: int) -> None:
        value = f"{self._process.name}:{number}".encode()
        dice = zlib.crc32(value)
        key = f"key-{dice % 13}".encode() if dice % 3 else None
        self._journal.note(facts.Sent(value))
        self.waiting += 1
        try:
            receipt = await producer.send(value, key=key, lane=self._lane(dice))
        except BraidError as error:
            self._journal.say(f"{self._process.name} does not know of {value.decode()}: {error.code.name}")
        else:
            place = facts.Place(receipt.cluster, receipt.topic, receipt.partition, receipt.offset)
            self._journal.note(facts.Acknowledged(value, place))
        finally:
            self.waiting -= 1


def fate_of(value: bytes, poison_percent: int) -> str:
    """The fate of a record in the handler, decided by its value: most succeed."""
    dice = zlib.crc32(value[::-1]) % 100 - poison_percent
    return "poison" if dice < 0 else "refused" if dice < 2 else "flaky" if dice < 6 else "fine"


@asynccontextmanager
async def _entered(mesh: Mesh, process: VirtualProcess) -> AsyncIterator[None]:
    """Enters a mesh, however long no replica answers."""
    while True:
        try:
            await mesh.__aenter__()
            break
        except BraidError:
            await process.host.clock.sleep(0.5)
    try:
        yield
    finally:
        await mesh.__aexit__(None, None, None)
