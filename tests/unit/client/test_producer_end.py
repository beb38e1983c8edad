"""How a producer ends: by `close`, or by an error of its own. Whoever waits for it hears of that."""

import asyncio

import pytest

from braid.client.channel_moves import ChannelMoves
from braid.client.channel_sender import ChannelSender
from braid.client.routing import RouteTable
from braid.kafka.memory.producer import MemoryProducer
from braid.kernel.errors import BraidError, DeliveryUnknown, Unavailable
from tests.support.scripted_control import Control, settled, virtual
from tests.support.virtual_time import run_virtual


async def on_one_cluster() -> Control:
    """A route that names one channel of lane `live`, on east."""
    control = await Control().start()
    control.add_channel("logs/live/1", "east")
    await control.move("logs/live/1")
    return control


@virtual
async def test_a_send_that_waits_for_room_ends_when_the_producer_is_closed() -> None:
    control = await on_one_cluster()
    async with control.client("web").mesh as mesh:
        async with mesh.producer("logs", max_buffer_bytes=200) as producer:
            control.clusters["east"].kill()
            sending = [asyncio.ensure_future(producer.send(bytes(100))) for _ in range(3)]
            await asyncio.sleep(1.0)
        async with asyncio.timeout(1.0):
            outcomes = await settled(sending)
    assert [type(outcome) for outcome in outcomes] == [DeliveryUnknown, Unavailable, Unavailable]


@virtual
async def test_a_send_that_waits_for_room_is_sent_when_close_leaves_it_time() -> None:
    control = await on_one_cluster()
    control.latency = lambda: 0.1
    async with control.client("web").mesh as mesh:
        async with mesh.producer("logs", max_buffer_bytes=200) as producer:
            sending = [asyncio.ensure_future(producer.send(b"%d" % n * 100)) for n in range(5)]
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
    assert len(control.records("logs/live/1")) == 5


def test_a_change_of_route_that_dies_ends_every_send(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: ChannelMoves, sender: ChannelSender, route: RouteTable) -> bool:
        raise RuntimeError("unexpected")

    async def run() -> list[BaseException]:
        control = await on_one_cluster()
        control.add_channel("logs/live/2", "west")
        client = control.client("web")
        deaths: list[BaseException] = []
        client.process.tasks._on_failure = deaths.append
        async with client.mesh as mesh, mesh.producer("logs") as producer:
            await producer.send(b"before")
            control.clusters["east"].pause()
            waiting = asyncio.ensure_future(producer.send(b"waits"))
            await asyncio.sleep(0.1)
            monkeypatch.setattr(ChannelMoves, "_leave", broken)
            await control.move("logs/live/2", dropped={"logs/live/1": False})
            with pytest.raises(DeliveryUnknown, match="unexpected"):
                await waiting
            with pytest.raises(BraidError, match="unexpected"):
                await producer.send(b"after")
            producer._closed = True
        return deaths

    assert [str(death) for death in run_virtual(run())] == ["unexpected"]


def test_a_client_that_cannot_start_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = MemoryProducer.start, [RuntimeError("unexpected")]

    async def start_later(self: MemoryProducer) -> None:
        if failures:
            raise failures.pop()
        await start(self)

    async def run() -> str:
        control = await on_one_cluster()
        async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
            return (await producer.send(b"x")).cluster

    monkeypatch.setattr(MemoryProducer, "start", start_later)
    assert run_virtual(run()) == "east"
