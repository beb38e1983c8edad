"""How a producer ends: by `close`, or by an error of its own. Whoever waits for it hears of that."""

import asyncio

import pytest

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.dispatcher import Dispatcher
from braid.client.producing.route_session import RouteSession
from braid.client.producing.routes import RouteTable
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
async def test_a_send_waiting_for_room_ends_when_its_producer_closes() -> None:
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
async def test_a_send_waiting_for_room_goes_when_close_leaves_time() -> None:
    control = await on_one_cluster()
    control.latency = lambda: 0.1
    async with control.client("web").mesh as mesh:
        async with mesh.producer("logs", max_buffer_bytes=200) as producer:
            sending = [asyncio.ensure_future(producer.send(b"%d" % n * 100)) for n in range(5)]
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
    assert len(control.records("logs/live/1")) == 5


def test_a_change_of_route_that_dies_ends_every_send(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Dispatcher, sender: ChannelSender, route: RouteTable) -> bool:
        raise RuntimeError("unexpected")

    async def run() -> list[BaseException]:
        control = await on_one_cluster()
        control.add_channel("logs/live/2", "west")
        deaths: list[BaseException] = []
        client = control.client("web", on_failure=deaths.append)
        async with client.mesh as mesh, mesh.producer("logs") as producer:
            await producer.send(b"before")
            control.clusters["east"].pause()
            waiting = asyncio.ensure_future(producer.send(b"waits"))
            await asyncio.sleep(0.1)
            monkeypatch.setattr(Dispatcher, "_leave", broken)
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


async def written_on_both(control: Control, *, before_close: float = 0.0) -> dict[str, dict[int, int]]:
    """A producer that sends, is moved by the death of a cluster, sends, and closes at once; what it told by channel."""
    control.add_channel("logs/live/2", "west")
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        receipts = [await producer.send(b"%d" % n, key=b"k%d" % n) for n in range(10)]
        control.clusters["east"].kill()
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        receipts.append(await producer.send(b"after"))
        await asyncio.sleep(before_close)
    wanted: dict[str, dict[int, int]] = {}
    for each in receipts:
        ends = wanted.setdefault(str(each.channel), {})
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    assert set(wanted) == {"logs/live/1", "logs/live/2"}
    return wanted


def told(control: Control) -> dict[str, dict[int, int]]:
    """The registry's last receipts of each channel."""
    return {left.channel: dict(left.next_offsets) for left in control.channels_left}


@virtual
async def test_closing_right_after_a_failover_reports_its_receipts() -> None:
    control = await on_one_cluster()
    assert await written_on_both(control) == told(control)


@virtual
async def test_a_change_of_route_that_was_not_heard_of_is_covered() -> None:
    control = await on_one_cluster()
    control.add_channel("logs/live/2", "west")
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        receipt = await producer.send(b"x")
        await control.move("logs/live/2", dropped={"logs/live/1": False}, push=False)
    assert told(control) == {"logs/live/1": {receipt.partition: receipt.offset + 1}}


async def closed_while_the_registry_changes() -> tuple[object, object]:
    """A producer's receipt, and the receipts of the next registry; the old one is gone when the producer closes."""
    control = await on_one_cluster()
    control.add_channel("logs/live/2", "west")
    async with control.client("web").mesh as mesh:
        async with mesh.producer("logs") as producer:
            receipt = await producer.send(b"x")
            control.hangs_up = True
            await control.move("logs/live/2", dropped={"logs/live/1": False})
            await producer.send(b"elsewhere")
            asyncio.get_running_loop().call_later(0.3, setattr, control, "hangs_up", False)
        await asyncio.sleep(5.0)
    heard = {left.channel: dict(left.next_offsets) for hello in control.producers for left in hello.left}
    return {"logs/live/1": {receipt.partition: receipt.offset + 1}}, {
        channel: ends for channel, ends in heard.items() if channel == "logs/live/1"
    }


@virtual
async def test_a_close_is_reported_to_the_next_registry_in_time() -> None:
    wanted, heard = await closed_while_the_registry_changes()
    assert heard == wanted


def test_a_close_that_does_not_wait_does_not_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it is the wait that lets it be told."""

    async def at_once(self: RouteSession) -> None:
        return

    monkeypatch.setattr(RouteSession, "told", at_once)
    wanted, heard = run_virtual(closed_while_the_registry_changes())
    assert (wanted != {}, heard) == (True, {})


@virtual
async def test_without_a_registry_closing_waits_a_second_at_most() -> None:
    control = await on_one_cluster()
    client = control.client("web")
    loop = asyncio.get_running_loop()
    async with client.mesh as mesh:
        async with mesh.producer("logs") as producer:
            await producer.send(b"x")
            client.network.cut("web", "control")
            began = loop.time()
        assert loop.time() - began <= 3.5  # hanging up takes the rest
    assert told(control) == {}
