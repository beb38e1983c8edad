"""A fetcher at its quota waits for as long as the broker says, and is owed no answer meanwhile."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from braid.kafka.fetching.request_line import RequestLine
from braid.kafka.protocol.wire import Wire
from braid.kernel.limits.kafka import KAFKA_THROTTLE_SECONDS_MAX
from tests.support.virtual_time import run_virtual, running_loop


@pytest.mark.parametrize(("throttle_ms", "seconds"), [(0, 0.0), (4_000, 4.0), (2**31 - 1, KAFKA_THROTTLE_SECONDS_MAX)])
def test_a_broker_that_holds_a_fetcher_back_owes_nothing(throttle_ms: int, seconds: float) -> None:
    async def scenario() -> None:
        line = RequestLine(cast("Wire", None), wait_ms=250)
        answered = asyncio.Event()

        async def request() -> None:
            await asyncio.sleep(1.0)
            answered.set()
            await line.hold(7, SimpleNamespace(throttle_time_ms=throttle_ms))
            line.end(7)

        line.begin(7, request(), running_loop().time())
        assert line.due() == [0.25]
        await answered.wait()
        await asyncio.sleep(0)
        assert list(line.due()) == ([1.0 + seconds + 0.25] if seconds else [])
        await asyncio.gather(*line.tasks)
        assert line.is_free(7) and running_loop().time() == 1.0 + seconds

    run_virtual(scenario())
