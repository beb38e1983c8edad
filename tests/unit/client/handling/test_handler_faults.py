"""Handlers may raise or pass anything: the record takes the consequence, the others are done and the consumer lives."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.kernel.errors import BraidError, Invalid, Reject, Retryable
from braid.kernel.limits.client import RETRY_AFTER_SECONDS_MAX
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import ProcessTasks
from tests.unit.client.handling.wordless import DLQ, QUICK, Aside, Raising, Wordless
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, killed, member, take

T = TypeVar("T")


BAD: Final = 5  # the offset of the one that is at fault


NO_WAITS: Final = (
    float("inf"),
    float("nan"),
    -1.0,
    10**400,
    RETRY_AFTER_SECONDS_MAX * 1.01,
    "30",
    timedelta(seconds=1),
)


class Untold(Exception):
    """An error of which no traceback can be formatted."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # what somebody may write
        raise LookupError("no notes")


def unborn(kind: type[BraidError]) -> Callable[[], BraidError]:
    """Errors as classes make them that derive from ours and do not call its `__init__`: they have no text, and no time.

    They are none of these classes, for ours are counted.
    """
    return lambda: kind.__new__(kind)


def later(after_seconds: Any) -> Callable[[], Retryable]:
    """Errors that say a time once they are made."""

    def make() -> Retryable:
        error = Retryable("later")
        error.after_seconds = after_seconds
        return error

    return make


class Words:
    """A reason that is not a text."""

    def __str__(self) -> str:
        raise LookupError("no text")


class AtOnce:
    """Threads that are none: what a function tells the loop comes before its end, as from a thread."""

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """See `Threads`."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def end() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - whoever awaits the future raises it
                future.set_exception(error)

        asyncio.get_running_loop().call_soon(end)
        return future

    def close(self) -> None:
        """See `Threads`."""


async def letters_of(fault: Callable[[Record], object], *, asynchronous: bool = True) -> tuple[list[int], list[Any]]:
    """Runs a handler in which one of a hundred records fails; returns that record's attempts and the dead letters."""
    attempts: list[int] = []

    def handle(record: Record) -> None:
        if record.offset == BAD:
            attempts.append(record.attempt)
            fault(record)
            return
        at.sunk(record)

    async def handle_here(record: Record) -> None:
        handle(record)

    async with bench() as at:
        at.fill(100)
        at.watch.done("east", TOPIC, 0, BAD)
        async with member(at, "m", FIRST, retry=QUICK, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle_here if asynchronous else handle))
            await until(lambda: at.watch.base(TOPIC) == 100 or running.done())
            if running.done():
                killed(consumer)
            assert not running.done()
        await running
        assert sorted(at.offsets()) == [offset for offset in range(100) if offset != BAD]
        headers = [dict(letter.headers) for letter in at.control.records(DLQ)]
    return attempts, [(each["braid-dl-error-class"], each["braid-dl-error-message"]) for each in headers]


def raising(make: Callable[[], BaseException]) -> Callable[[Record], object]:
    def fault(record: Record) -> None:
        raise make()

    return fault


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Wordless, b"Wordless"),
        (Raising, b"Raising"),
        (unborn(BraidError), b"BraidError"),
        (lambda: Aside("x"), b"x"),
        (lambda: ValueError("\udc80"), b"?"),
        (ValueError, b"ValueError"),
    ],
)
def test_what_has_no_text_is_an_error_like_any_other(make: Callable[[], BaseException], text: bytes) -> None:
    @virtual
    async def scenario() -> None:
        attempts, letters = await letters_of(raising(make))
        assert (attempts, letters) == ([1, 2], [(type(make()).__name__.encode(), text)])

    scenario()


@virtual
async def test_a_rejection_without_a_text_rejects() -> None:
    assert await letters_of(raising(unborn(Reject))) == ([1], [])


def test_spans_do_not_put_their_own_trouble_in_an_errors_place(spans: InMemorySpanExporter) -> None:
    @virtual
    async def scenario() -> None:
        assert await letters_of(raising(unborn(Reject))) == ([1], [])
        assert await letters_of(raising(Raising)) == ([1, 2], [(b"Raising", b"Raising")])

    scenario()


@pytest.mark.parametrize("wait", NO_WAITS, ids="{!s:.12}".format)
def test_no_wait_can_be_raised(wait: Any) -> None:
    with pytest.raises(Invalid) as refused:
        Retryable("away", after_seconds=wait)
    assert refused.value.field == "after_seconds"

    @virtual
    async def scenario() -> None:
        attempts, letters = await letters_of(raising(lambda: Retryable("away", after_seconds=wait)))
        assert (attempts, [error for error, _ in letters]) == ([1, 2], [b"Invalid"])

    scenario()


@pytest.mark.parametrize("wait", [0, 0.0, 1, 2.5, RETRY_AFTER_SECONDS_MAX])
def test_a_wait_can(wait: float) -> None:
    assert Retryable("away", after_seconds=wait).after_seconds == wait
    assert Retryable("away").after_seconds is None


@pytest.mark.parametrize("make", [unborn(Retryable), *map(later, NO_WAITS)])
def test_where_an_error_says_no_time_the_usual_one_counts(make: Callable[[], BaseException]) -> None:
    @virtual
    async def scenario() -> None:
        began: list[float] = []

        async def handle(record: Record) -> None:
            if record.offset == BAD:
                began.append(asyncio.get_running_loop().time())
                if len(began) < 4:
                    raise make()
            at.sunk(record)

        async with bench() as at:
            at.fill(100)
            async with member(at, "m", FIRST, retry=QUICK, concurrency=4) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: at.watch.base(TOPIC) == 100 or running.done())
                if running.done():
                    killed(consumer)
                assert not running.done()
            await running
            assert len(began) == 4 and began[3] - began[0] < 3.0
            assert at.control.records(DLQ) == []

    scenario()


@virtual
async def test_longest_waits_are_as_long_as_may_be() -> None:
    async def handle(record: Record) -> None:
        if record.offset == BAD:
            raise ValueError
        at.sunk(record)

    async with bench() as at:
        at.fill(100)
        retry = Retry(max_attempts=2, backoff_seconds=(float("inf"), float("inf")))
        async with member(at, "m", FIRST, retry=retry, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 99 or running.done())
            await asyncio.sleep(1.0)
            assert not running.done()
            assert consumer.explain()[0].parked == 1
        await running


# --- what a handler passes


SETTLING: Final[dict[str, Callable[[Record, Any], None]]] = {
    "retry": lambda record, wait: record.retry(wait),
    "postpone": lambda record, wait: record.postpone(wait),
}


@pytest.mark.parametrize("how", SETTLING)
@pytest.mark.parametrize("wait", NO_WAITS, ids="{!s:.12}".format)
def test_no_wait_can_be_passed_and_nothing_is_settled_by_one(how: str, wait: Any) -> None:
    @virtual
    async def scenario() -> None:
        async with bench() as at:
            at.fill(3)
            async with member(at, "m", FIRST) as (consumer, _):
                for record in await take(consumer, 3):
                    with pytest.raises(Invalid) as refused:
                        SETTLING[how](record, wait)
                    assert (refused.value.field, record.settled, record.attempt) == ("after_seconds", False, 1)
                    at.sunk(record)
                    record.ack()
                await until(lambda: at.watch.base(TOPIC) == 3)

    scenario()


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("how", SETTLING)
def test_a_handler_that_passes_no_wait_has_failed(
    how: str, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessTasks, "threads", lambda *_: AtOnce())

    @virtual
    async def scenario() -> None:
        attempts, letters = await letters_of(lambda record: SETTLING[how](record, "30"), asynchronous=asynchronous)
        assert (attempts, [error for error, _ in letters]) == ([1, 2], [b"Invalid"])

    scenario()


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize(
    ("why", "told"),
    [
        (Raising("x"), (b"Raising", b"Raising")),
        (Untold("x"), (b"Untold", b"x")),
        (Words(), (b"str", b"Words")),
        (None, (b"str", b"None")),
    ],
)
def test_a_fate_is_a_fate_whatever_is_given_as_its_why(
    why: Any, told: tuple[bytes, bytes], asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessTasks, "threads", lambda *_: AtOnce())

    @virtual
    async def scenario() -> None:
        assert await letters_of(lambda record: record.dead_letter(why), asynchronous=asynchronous) == ([1], [told])
        assert await letters_of(lambda record: record.reject(why), asynchronous=asynchronous) == ([1], [])

    scenario()
