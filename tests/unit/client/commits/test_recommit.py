"""A holder repeats its claim from time to time: nothing else would correct a foreign commit."""

import asyncio

from braid.kernel.limits.client import RECOMMIT_SECONDS
from braid.kernel.ports import Committed, TopicPartition
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import bench, member

FIRST = "logs/live/1/0"
PARTITION = TopicPartition("braid.logs.live.1", 0)


@virtual
async def test_idle_progress_a_zombie_overwrote_is_soon_recommitted() -> None:
    async with bench() as at:
        at.fill(5)
        groups = at.control.clusters["east"].groups

        def base() -> int:
            return groups.committed("g", [PARTITION])[PARTITION].offset

        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: base() == 5)
            groups.commit("g", {PARTITION: Committed(2, "")}, None)
            assert base() == 2
            await until(lambda: base() == 5, seconds=RECOMMIT_SECONDS + 2.0)
            running.cancel()
        assert RECOMMIT_SECONDS <= 60.0  # a drain may wait for it
