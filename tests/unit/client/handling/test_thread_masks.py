"""A mask given in a handler's thread: what it said then counts, whatever the handler writes to it afterwards."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from braid.client.records.batch import Batch, ThreadBatch
from braid.kernel.errors import Invalid
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import ProcessTasks
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, killed, member

T = TypeVar("T")
COUNT = 10
EVEN = range(0, COUNT, 2)
ODD = range(1, COUNT, 2)
Made = tuple[Sequence[bool] | pa.Array, Callable[[], None]]  # a mask of even rows, and what makes it one of the others


class LaterThreads:
    """Threads that are on the loop: a function runs when the loop has the time, so the loop hears of what it told."""

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Begins."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def end() -> None:
            try:
                future.set_result(function())
            except ConnectionError as error:
                future.set_exception(error)

        loop.call_soon(end)
        return future

    def close(self) -> None:
        """See `Threads`."""


def in_a_list() -> Made:
    mask = [row in EVEN for row in range(COUNT)]

    def turn() -> None:
        mask[:] = [not named for named in mask]

    return mask, turn


def in_numpy() -> Made:
    mask: Any = np.isin(np.arange(COUNT), EVEN)

    def turn() -> None:
        mask[:] = ~mask

    return mask, turn


def in_arrow() -> Made:
    """Null, not false, where a row is not named; and the values beneath are the handler's own memory."""
    named = np.packbits(np.isin(np.arange(COUNT), EVEN), bitorder="little")
    values = np.full_like(named, 0xFF)
    mask = pa.Array.from_buffers(pa.bool_(), COUNT, [pa.py_buffer(named), pa.py_buffer(values)])

    def turn() -> None:
        named[:] = ~named

    return mask, turn


@pytest.mark.parametrize("make", [in_a_list, in_numpy, in_arrow])
def test_a_mask_that_is_written_to_again_counts_as_it_was(
    make: Callable[[], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessTasks, "threads", lambda self, count, name: LaterThreads())

    async def play() -> None:
        again: list[int] = []
        async with bench() as at:
            at.fill(COUNT)

            def handle(batch: Batch) -> None:
                offsets = batch.records["offset"].to_pylist()
                for offset in EVEN if len(offsets) == COUNT else offsets:
                    at.watch.done("east", TOPIC, 0, offset)
                if len(offsets) == COUNT:
                    mask, turn = make()
                    batch.ack(mask)
                    turn()
                    raise ConnectionError("the others could not be stored")
                again.extend(offsets)

            async with member(at, "m", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run_batches(handle))
                await until(lambda: at.watch.base(TOPIC) == COUNT)
            await running
        assert sorted(again) == list(ODD)

    virtual(play)()


@pytest.mark.parametrize(
    "mask", [[True], np.ones(COUNT + 1, np.bool_), np.ones((COUNT, 1), np.bool_), pa.array([None])]
)
def test_a_mask_of_another_shape_is_refused_where_it_is_given(mask: Sequence[bool] | pa.Array) -> None:
    async def play() -> None:
        told: list[Callable[[], None]] = []  # what the loop is to do
        async with bench() as at:
            at.fill(COUNT)
            async with member(at, "m", FIRST) as (consumer, _):
                async for batch in consumer.batches(max_records=COUNT):
                    given = ThreadBatch(batch, told.append)
                    with pytest.raises(Invalid, match="mask"):
                        given.ack(mask)
                    assert told == [] and len(batch.unsettled()) == COUNT
                    break
                killed(consumer)

    virtual(play)()


@virtual
async def test_an_impossible_wait_is_refused_and_settles_nothing() -> None:
    told: list[Callable[[], None]] = []
    async with bench() as at:
        at.fill(COUNT)
        async with member(at, "m", FIRST) as (consumer, _):
            async for batch in consumer.batches(max_records=COUNT):
                for given in (ThreadBatch(batch, told.append), batch):
                    with pytest.raises(Invalid, match="number of seconds"):
                        given.retry(float("nan"))
                assert told == [] and len(batch.unsettled()) == COUNT
                break
            killed(consumer)
