"""The right to resume a lane: the application lifts every stop, an operator only those of the consumer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import Circuit, DeadLetterLimits, Retry
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, Bench, bench, member

COUNT: Final = 100
BRAKE: Final = Retry(max_attempts=1, dead_letters=DeadLetterLimits(in_a_row=2))
CIRCUIT: Final = Retry(
    retryable=(OSError,), backoff_seconds=(0.1, 0.5), circuit=Circuit(0.5, 3, 0.2, probe_seconds=(600.0, 600.0))
)
BOTH: Final = pytest.mark.parametrize("retry", [BRAKE, CIRCUIT])


@asynccontextmanager
async def stopped_and_mended(retry: Retry) -> AsyncIterator[tuple[Bench, Consumer]]:
    """A consumer that stopped with its lane, and whose handler fails no more."""
    away = True

    async def handle(record: Record) -> None:
        if away:
            raise ConnectionError("the store is away")
        at.sunk(record)

    async with bench() as at:
        at.fill(COUNT)
        async with member(at, "m", FIRST, retry=retry, concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: bool(consumer.stopped()))
            away = False
            at.sink.clear()
            for offset in range(COUNT):  # a copy in the dlq lane is as good
                at.watch.done("east", "braid.logs.live.1", 0, offset)
            yield at, consumer
        await running


async def operator_resumes(at: Bench, lane: str) -> None:
    """Somebody at the command line wants a lane to go on: the assigner says so to the member."""
    resume = join_pb2.ResumeLane(lane=lane)
    await at.control.members[-1].call.send(join_pb2.JoinResponse(resume=resume))


@BOTH
def test_who_resumes_in_the_application_lifts_its_pause_too(retry: Retry) -> None:
    async def play() -> None:
        async with stopped_and_mended(retry) as (at, consumer):
            consumer.pause("live")
            consumer.resume("live")
            assert not consumer.stopped()
            await until(lambda: len(at.sink) > COUNT // 2)

    virtual(play)()


@BOTH
def test_an_operator_who_resumes_a_stopped_lane_lets_it_go_on(retry: Retry) -> None:
    async def play() -> None:
        async with stopped_and_mended(retry) as (at, consumer):
            await operator_resumes(at, "live")
            await until(lambda: not consumer.stopped())
            await until(lambda: len(at.sink) > COUNT // 2)

    virtual(play)()


@BOTH
def test_an_operator_lifts_no_pause_of_a_lane_that_goes(retry: Retry) -> None:
    async def play() -> None:
        async with stopped_and_mended(retry) as (at, consumer):
            consumer.resume("live")
            consumer.pause("live")
            await operator_resumes(at, "live")
            await asyncio.sleep(1.0)
            before = len(at.sink)
            await asyncio.sleep(5.0)
            assert len(at.sink) == before < COUNT // 2

    virtual(play)()


@BOTH
def test_an_operators_resume_lifts_no_pause_of_the_application(retry: Retry) -> None:
    async def play() -> None:
        async with stopped_and_mended(retry) as (at, consumer):
            consumer.pause("live")
            await operator_resumes(at, "live")
            await until(lambda: not consumer.stopped())  # what the consumer stopped for is over
            await asyncio.sleep(5.0)
            assert at.sink == []
            assert "lane live is paused" in str(consumer.explain()[0])
            consumer.resume("live")
            await until(lambda: len(at.sink) > COUNT // 2)

    virtual(play)()
