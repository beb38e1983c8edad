"""An appender that writes down what it was told, a watcher that writes down what it saw, and checks of both."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from braid.kernel.errors import Conflict, OutcomeUnknown, StoreUnavailable
from braid.kernel.ports import EventBatch, EventStore, HistoryId, Leader
from tests.contract.event_store.harness import check_batches, eventually


@dataclass
class Ledger:
    """The answers that appenders got. Every attempt has its own name, so a name may be in the history at most once."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def check(self, events: Sequence[bytes]) -> None:
        """Compares with a whole history.

        Raises:
            AssertionError: an acknowledged event is not where it was said to be, a refused one is there, one is double.
        """
        names = [event.decode() for event in events]
        doubled = [name for name, count in Counter(names).items() if count > 1]
        assert not doubled, f"doubled: {doubled}"
        for name, sequence in self.acknowledged.items():
            assert names[sequence - 1 : sequence] == [name], f"{name} is not event {sequence}"
        assert not self.refused & set(names), f"refused, and there: {self.refused & set(names)}"
        assert set(names) <= self.acknowledged.keys() | self.unknown, "events nobody appended"


class Appender:
    """Appends one named event after the other to a history, by the rules, until it is told to stop."""

    def __init__(self, store: EventStore, history: HistoryId, leader: Leader, prefix: str = "") -> None:
        self.ledger = Ledger()
        self._stopping = False
        self._stopped = False
        self._store = store
        self._history = history
        self._leader = leader
        self._prefix = prefix
        self._sequence: int | None = None
        self._attempts = 0

    async def run(self) -> None:
        """Appends until `stop`."""
        while not self._stopping:
            await self.step()
        self._stopped = True

    async def stop(self) -> None:
        """Ends `run` once its last append was settled, so that ledger and history can be compared."""
        self._stopping = True
        await reached(lambda: self._stopped)

    async def step(self) -> None:
        """One attempt, and if need be one load before it."""
        if self._sequence is None:
            try:
                self._sequence = (await self._store.load(self._history)).sequence
            except StoreUnavailable:
                return
        self._attempts += 1
        name = f"{self._prefix}{self._attempts}"
        try:
            appended = await self._store.append(self._history, [name.encode()], self._sequence, self._leader.fence)
        except (OutcomeUnknown, Conflict, StoreUnavailable) as error:
            told = self.ledger.unknown if isinstance(error, OutcomeUnknown) else self.ledger.refused
            told.add(name)
            self._sequence = None
            return
        self.ledger.acknowledged[name] = appended.sequence
        self._sequence = appended.sequence

    async def acknowledged(self, more: int) -> None:
        """Waits until so many more were acknowledged."""
        wanted = len(self.ledger.acknowledged) + more
        await reached(lambda: len(self.ledger.acknowledged) >= wanted)


class Watcher:
    """Writes down every batch of a service."""

    def __init__(self, store: EventStore, service: str, after_revision: int = 0) -> None:
        self.batches: list[EventBatch] = []
        self._watching = store.watch(service, after_revision)

    async def run(self) -> None:
        """Watches until cancelled."""
        async for batch in self._watching:
            self.batches.append(batch)

    async def saw(self, events: Sequence[bytes]) -> None:
        """Waits until the last of these, a history's first events, was seen, and checks that all were, in order.

        Raises:
            AssertionError: some were missed, doubled or out of order.
        """
        await reached(lambda: events[-1] in self._events())
        check_batches(self.batches)
        assert self._events()[: len(events)] == list(events), "seen and appended differ"

    def _events(self) -> list[bytes]:
        return [event for batch in self.batches for event in batch.events]


async def reached(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits until a condition holds. Raises `TimeoutError`."""

    async def holds() -> bool:
        return condition()

    await eventually(holds, seconds)


class Running:
    """Tasks that run for the length of a block, and whose errors end it."""

    def __init__(self, *work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._tasks: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.ensure_future(work()) for work in self._work]

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
