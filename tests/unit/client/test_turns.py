"""A producer that has much to send again does it in turns."""

import asyncio

import pytest

from braid.client import tasks
from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.outbox import Pending
from braid.kernel.limits.client import RECORDS_BETWEEN_YIELDS
from tests.support.scripted_control import two_clusters
from tests.support.virtual_time import run_virtual


def test_what_is_sent_again_leaves_everything_else_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A great many records: the first are on their way, and heartbeats are sent, before the last were looked at."""
    turns, seen = list[None](), list[int]()
    offer = ChannelSender.offer

    def offered(self: ChannelSender, record: Pending, partition: int) -> bool:
        seen.append(len(turns))
        asyncio.get_running_loop().call_soon(turns.append, None)
        return offer(self, record, partition)

    async def scenario() -> None:
        async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
            await producer.send(b"before")
            control.clusters["east"].kill()
            sending = asyncio.gather(*(producer.send(b"%d" % n) for n in range(1_000)))
            await asyncio.sleep(1.0)
            monkeypatch.setattr(ChannelSender, "offer", offered)
            await control.move("logs/live/2", dropped={"logs/live/1": False})
            await sending

    monkeypatch.setattr(tasks, "YIELD_SECONDS", 0.0)  # virtual time stands still while it works
    run_virtual(scenario())
    assert len(seen) >= 1_000 and len(set(seen)) >= 1_000 // RECORDS_BETWEEN_YIELDS
