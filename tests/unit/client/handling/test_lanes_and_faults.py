"""Lanes and threads whose handlers fail with errors that have no text."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from braid.client.consumer_settings import Circuit, Retry
from braid.client.consuming.consumer import Consumer
from braid.client.handling.threads import InThreads
from braid.client.records.handled import Tell
from braid.client.records.record import Record
from braid.host.system import system_host
from braid.kernel.error_texts import text_of
from tests.support.scripted_control import until, virtual
from tests.unit.client.handling.wordless import DLQ, QUICK, Aside, Raising, Wordless
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, member

# --- lanes


async def stopped(consumer: Consumer) -> str:
    await until(lambda: "live" in consumer.stopped())
    return consumer.stopped()["live"]


@pytest.mark.parametrize(("make", "text"), [(Raising, "Raising"), (lambda: Aside("\udc80"), "?")])
def test_a_lane_is_stopped_by_errors_without_a_text_and_goes_on(make: Callable[[], BaseException], text: str) -> None:
    @virtual
    async def scenario() -> None:
        away = True

        async def handle(record: Record) -> None:
            await asyncio.sleep(0.01)
            if away:
                raise make()
            at.sunk(record)

        async with bench() as at:
            at.fill(100)
            circuit = Circuit(failures=10, seconds=2.0, probe_seconds=(1.0, 4.0))
            retry = Retry(backoff_seconds=(0.1, 0.5), retryable=(Raising, Aside), circuit=circuit)
            async with member(at, "m", FIRST, retry=retry, concurrency=4) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                assert f"the last by {type(make()).__name__}: {text};" in await stopped(consumer)
                await asyncio.sleep(5.0)
                away = False
                await until(lambda: at.watch.base(TOPIC) == 100)
                assert not running.done()
            await running

    scenario()


@virtual
async def test_a_dlq_record_that_fails_without_a_text_is_skipped() -> None:
    seen: list[int] = []

    async def handle(record: Record) -> None:
        seen.append(record.attempt)
        raise Raising

    async with bench() as at:
        at.fill(1, channel=DLQ)
        at.watch.done("west", "braid.logs.dlq.1", 0, 0)
        settings = {"lanes": {"dlq": 1}, "retry": QUICK}
        async with member(at, "m", f"{DLQ}/0", **settings) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base("braid.logs.dlq.1") == 1 or running.done())
            assert not running.done()
        await running
        assert seen == [1, 2]


@virtual
async def test_a_dlq_record_given_up_by_hand_without_text_is_skipped() -> None:
    async def handle(record: Record) -> None:
        record.dead_letter(Raising())

    async with bench() as at:
        at.fill(3, channel=DLQ)
        for offset in range(3):
            at.watch.done("west", "braid.logs.dlq.1", 0, offset)
        async with member(at, "m", f"{DLQ}/0", lanes={"dlq": 1}, retry=QUICK) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base("braid.logs.dlq.1") == 3 or running.done(), seconds=60.0)
            assert not running.done()
        await running
        assert len(at.control.records(DLQ)) == 3


def test_a_text_is_always_there() -> None:
    assert text_of(Wordless()) == "Wordless"
    assert text_of(ValueError()) == "ValueError"
    assert text_of(ValueError("what")) == text_of("what") == "what"
    assert text_of(ValueError("a\udc80b")) == "a?b"


# --- threads


class Finished(StopIteration):
    """An application's own subclass of StopIteration."""


@pytest.mark.parametrize("kind", [StopIteration, Finished])
def test_what_ends_iterations_ends_a_handler_in_a_thread(kind: type[StopIteration]) -> None:
    def handle(record: object) -> None:
        raise kind("nothing follows")

    def as_it_is(record: object, tell: Tell) -> object:
        return record

    async def run() -> None:
        threads = system_host().tasks.threads(1, "handler")
        call: Any = InThreads(handle, as_it_is, threads)
        called = asyncio.ensure_future(call("record"))
        done, _ = await asyncio.wait([called], timeout=5.0)
        threads.close()
        assert done, "it never ended"
        error = called.exception()
        assert isinstance(error, RuntimeError) and isinstance(error.__cause__, kind)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
