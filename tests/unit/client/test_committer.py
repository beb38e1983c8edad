"""Commits that a broker refuses: held while that lasts, and made when it ends."""

import asyncio

from tests.support.scripted_control import until, virtual
from tests.unit.client.consuming import FIRST, TOPIC, bench, member


@virtual
async def test_commits_are_held_while_a_stray_member_occupies_the_group() -> None:
    async with bench() as at:
        groups = at.control.clusters["east"].groups
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: at.watch.base(TOPIC) == 10)
            groups.join("g", "another tool")
            at.fill(10)
            await until(lambda: len(at.sink) == 20)
            await asyncio.sleep(5.0)
            assert (at.watch.base(TOPIC), running.done()) == (10, False)
            groups.leave("g")
            await until(lambda: at.watch.base(TOPIC) == 20)
        await running
