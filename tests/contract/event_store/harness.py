"""The parts of an adapter that the contract needs, and the list of the contract's tests.

A body is `async def name(harness)`, decorated with `@contract`. Bodies use nothing of asyncio that a virtual loop
lacks, and wait for conditions with `eventually`. To hold another adapter to the contract, write its harness and add it
to `ADAPTERS` in `conftest.py`; for a real server in the integration tier, run `BODIES` over it there.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, TypeVar, cast

from braid.kernel.ports import Clock, Endpoint, EventBatch, EventStore, HistoryId, Leader, Session

T = TypeVar("T")


class EventStoreHarness(Protocol):
    """One store under test, fresh and empty, and what may befall it.

    Attributes:
        clock: What deadlines are measured on.
        ttl_seconds: The session time tests use: short, but granted as asked.
    """

    ttl_seconds: float

    @property
    def clock(self) -> Clock: ...

    async def open(self) -> EventStore:
        """A further client of the same store, as another process would have it; closed with the harness."""
        ...

    async def compact(self) -> None:
        """Forgets what a watch from before now would need."""
        ...

    async def restore(self) -> None:
        """Restores the store from a backup of this moment."""
        ...

    async def silence(self, store: EventStore) -> None:
        """From now on no keep-alive of this client arrives."""
        ...

    async def interrupt(self, store: EventStore) -> None:
        """Cuts the client's connections."""
        ...

    async def mend(self, store: EventStore) -> None:
        """Ends `interrupt`: the client can connect again."""
        ...

    async def lose_answer(self, store: EventStore, *, happens: bool) -> None:
        """The client's next append gets no answer, and takes effect in the store or not."""
        ...

    async def lose_batch(self, history: HistoryId, sequence: int) -> None:
        """Damages the store: the batch that holds an event vanishes."""
        ...


Body = Callable[[EventStoreHarness], Awaitable[None]]
BODIES: list[Body] = []


class Adapter(Protocol):
    """Runs one body over a fresh store, on whatever loop suits the adapter."""

    def __call__(self, body: Body, directory: Path) -> None: ...


def contract(body: Body) -> Body:
    """Registers a body."""
    BODIES.append(body)
    return body


def body_name(body: Body) -> str:
    """For test ids."""
    return cast("str", getattr(body, "__name__", "body"))


# --- what bodies share

LOGS = HistoryId("registry", "stream", "logs")
METRICS = HistoryId("registry", "stream", "metrics")
INDEXER = HistoryId("assigner", "group", "indexer")


def replica(instance: str, service: str = "registry") -> Endpoint:
    """An endpoint of that name."""
    return Endpoint(service, instance, f"{instance}:7401")


async def lead(
    harness: EventStoreHarness, store: EventStore, instance: str = "a", service: str = "registry"
) -> tuple[Leader, Session]:
    """Opens a session and leads the service with it."""
    session = await store.open_session(harness.ttl_seconds)
    return await within(store.campaign(replica(instance, service), session)), session


async def append_each(store: EventStore, history: HistoryId, leader: Leader, names: Sequence[str]) -> int:
    """Appends one event a name, one batch each; returns the last revision."""
    sequence = (await store.load(history)).sequence
    revision = 0
    for name in names:
        appended = await store.append(history, [name.encode()], sequence, leader.fence)
        sequence, revision = appended.sequence, appended.revision
    return revision


async def texts(store: EventStore, history: HistoryId) -> list[str]:
    """The events of a history without snapshot, decoded."""
    return [event.decode() for event in (await store.load(history)).events]


async def take(batches: AsyncIterator[EventBatch], count: int, seconds: float = 10.0) -> list[EventBatch]:
    """The next `count` batches. Raises `TimeoutError`."""
    taken: list[EventBatch] = []
    async with asyncio.timeout(seconds):
        while len(taken) < count:
            taken.append(await anext(batches))
    return taken


async def watch_some(store: EventStore, service: str, after_revision: int, count: int) -> list[EventBatch]:
    """The first `count` batches of a fresh watch, which is then closed."""
    watching = cast("AsyncGenerator[EventBatch, None]", store.watch(service, after_revision))
    async with aclosing(watching):
        return await take(watching, count)


def check_batches(batches: Sequence[EventBatch], after_revision: int = 0) -> None:
    """A watch is ordered and unique by revision, and each history's part of it is without gaps.

    Raises:
        AssertionError: it is not.
    """
    revisions = [batch.revision for batch in batches]
    assert revisions == sorted(set(revisions)), f"out of order or doubled: {revisions}"
    assert not revisions or revisions[0] > after_revision, f"{revisions[0]} is not after {after_revision}"
    following: dict[HistoryId, int] = {}
    for batch in batches:
        assert following.get(batch.history, batch.first) == batch.first, f"gap before {batch}"
        following[batch.history] = batch.first + len(batch.events)


async def within(work: Awaitable[T], seconds: float = 10.0) -> T:
    """Awaits work for so long at most. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        return await work


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Waits until a condition holds. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        holds = await condition()
        while not holds:
            await asyncio.sleep(0.01)
            holds = await condition()
