"""A shared table: computed once for all calls, which do not wait for the next one while the last is good enough."""

import asyncio
from types import SimpleNamespace
from typing import cast

from braid.host.system import SystemTasks
from braid.kernel.limits.lagmon.sampling import (
    LAG_TABLE_FACTOR,
    LAG_TABLE_LATE_FACTOR,
    LAG_TABLE_LATE_SECONDS,
    LAG_TABLE_SECONDS,
    LAG_TABLE_SLOW_SECONDS,
)
from braid.kernel.ports import Host
from services.lagmon.reconciler.shared_table import SharedTable
from tests.support.metered_clock import MeteredClock


class Computed:
    """Tables that are numbers; each takes as long as the test lets it."""

    def __init__(self) -> None:
        self.clock = MeteredClock()
        host = SimpleNamespace(clock=self.clock, tasks=SystemTasks(None))
        self.table = SharedTable(cast("Host", host), self._compute)
        self.count = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def _compute(self) -> int:
        self.count += 1
        number = self.count
        await self.go_on.wait()
        return number


async def asked(work: "asyncio.Task[int]") -> None:
    """Starts a call, and lets it run until it waits."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not work.done()


def test_those_who_ask_within_a_moment_get_one_table() -> None:
    async def scenario() -> None:
        computed = Computed()
        assert await asyncio.gather(*(computed.table.present(LAG_TABLE_SECONDS) for _ in range(5))) == [1] * 5
        computed.clock.work(2 * LAG_TABLE_SECONDS)
        assert await computed.table.last() == 2, "it is computed at once, so that lists are not older than they must be"

    asyncio.run(scenario())


def test_a_table_that_takes_long_is_good_for_longer() -> None:
    async def scenario() -> None:
        computed = Computed()
        computed.go_on.clear()
        first = asyncio.create_task(computed.table.present(LAG_TABLE_SECONDS))
        await asked(first)
        computed.clock.work(1.0)
        computed.go_on.set()
        assert await first == 1
        computed.clock.work(LAG_TABLE_FACTOR - 1.1)
        assert await computed.table.present(LAG_TABLE_SECONDS) == 1
        computed.clock.work(0.2)
        assert await computed.table.present(LAG_TABLE_SECONDS) == 2

    asyncio.run(scenario())


def test_lists_get_the_last_table_while_another_is_computed() -> None:
    async def scenario() -> None:
        computed = Computed()
        computed.go_on.clear()
        first = asyncio.create_task(computed.table.last())
        await asked(first)
        computed.clock.work(2 * LAG_TABLE_SLOW_SECONDS)
        computed.go_on.set()
        assert await first == 1
        computed.clock.work(1.0)
        computed.go_on.clear()
        assert [await computed.table.last() for _ in range(3)] == [1, 1, 1]
        await asyncio.sleep(0)
        assert [await computed.table.last() for _ in range(3)] == [1, 1, 1]
        assert computed.count == 2, "one is computed, whoever asks"
        computed.clock.work(LAG_TABLE_LATE_SECONDS)
        late = asyncio.create_task(computed.table.last())
        await asked(late)
        computed.go_on.set()
        assert await late == 2, "the first was too old to answer"

    asyncio.run(scenario())


def test_a_table_that_takes_very_long_answers_for_longer() -> None:
    async def scenario() -> None:
        computed = Computed()
        computed.go_on.clear()
        first = asyncio.create_task(computed.table.last())
        await asked(first)
        computed.clock.work(LAG_TABLE_LATE_SECONDS)
        computed.go_on.set()
        assert await first == 1
        computed.go_on.clear()
        computed.clock.work((LAG_TABLE_LATE_FACTOR - 1) * LAG_TABLE_LATE_SECONDS - 0.1)
        assert await computed.table.last() == 1, "nobody waits as long again, while the next one is computed"
        computed.clock.work(0.2)
        late = asyncio.create_task(computed.table.last())
        await asked(late)
        computed.go_on.set()
        assert await late == 2

    asyncio.run(scenario())


def test_any_table_answers_while_the_next_one_is_computed() -> None:
    async def scenario() -> None:
        computed = Computed()
        assert await computed.table.any() == 1, "without a table it is waited for"
        computed.clock.work(100.0)
        assert await computed.table.any() == 2, "computing one takes no time, as it seems"
        computed.go_on.clear()
        computed.clock.work(100.0)
        first = asyncio.create_task(computed.table.any())
        await asked(first)
        assert await computed.table.any() == 2, "now it takes long"
        computed.clock.work(100.0)
        computed.go_on.set()
        assert await first == 3
        computed.clock.work(1_000.0)
        assert await computed.table.any() == 3, "however old it is"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await computed.table.any() == 4, "it was computed meanwhile"

    asyncio.run(scenario())
