"""A planned move of a producer: a key waits for its own records on the old channel, nothing else waits for anything."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest

from braid.client.producing import dispatcher
from braid.client.producing.dispatcher import Dispatcher
from braid.client.producing.key_handover import KeyHandover
from braid.client.producing.outbox import Pending
from braid.client.producing.producer import Producer
from braid.client.producing.routes import RouteTable
from braid.client.records.outgoing import Receipt
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import DeliveryUnknown
from braid.kernel.limits.client import PLANNED_MOVE_SILENCE_SECONDS, PLANNED_MOVE_WAIT_SECONDS
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import Control, until, virtual
from tests.support.virtual_time import run_virtual

Sending = asyncio.Future[Receipt]


async def three_channels(control: Control) -> None:
    """One on each cluster, and a third on the first one; the route names the first."""
    await control.start()
    for generation, cluster in enumerate(("east", "west", "east"), 1):
        control.add_channel(f"logs/live/{generation}", cluster)
    await control.move("logs/live/1")


def values(control: Control, channel: str, key: bytes | None) -> list[bytes | None]:
    """Values of one key, in the order of its partition."""
    return [record.value for record in control.records(channel) if record.key == key]


def sent(producer: Producer, value: bytes, key: bytes | None) -> Sending:
    """A record that is being sent."""
    return asyncio.ensure_future(producer.send(value, key=key))


async def pause_and_wait(keys: int) -> tuple[float, float]:
    """The longest time between two acknowledgements, and of a record until its own; in seconds.

    One record each 5 ms, every message 50 ms under way, as many requests under way as there are partitions.
    """
    control = Control(latency=lambda: 0.05)
    await three_channels(control)
    loop, moments, waits = asyncio.get_running_loop(), list[float](), list[float]()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:

        async def send(number: int) -> Receipt:
            began = loop.time()
            receipt = await producer.send(b"%d" % number, key=b"%d" % (number % keys))
            moments.append(loop.time())
            waits.append(loop.time() - began)
            return receipt

        sending = list[Sending]()
        for number in range(400):
            sending.append(asyncio.ensure_future(send(number)))
            await asyncio.sleep(0.005)
            if number == 100:
                await control.move("logs/live/2", dropped={"logs/live/1": True})
        assert {receipt.cluster for receipt in await asyncio.gather(*sending)} == {"east", "west"}
        assert sum(len(control.records(f"logs/live/{each}")) for each in (1, 2)) == 400, "nothing is repeated"
    return max(after - before for before, after in pairwise(moments[10:])), max(waits[100:])


def test_a_producer_of_many_keys_goes_on_as_without_a_move() -> None:
    pause, wait = run_virtual(pause_and_wait(200))
    assert pause < 0.12
    assert wait < 0.21, "one request is under way, the next one is the record's own"


def test_a_move_in_which_every_key_waits_for_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def close_the_lane(self: Dispatcher, left: set[object]) -> None:
        for gate in self._gates.values():
            gate.clear()

    monkeypatch.setattr(Dispatcher, "_cross", close_the_lane)
    assert run_virtual(pause_and_wait(200))[1] > 0.22


async def beside_a_frozen_cluster(control: Control, producer: Producer) -> tuple[Sending, Sending]:
    """One record of key `k` in flight to a frozen cluster, and one behind it, while the stream moves elsewhere."""
    await asyncio.gather(producer.send(b"before", key=b"k"), producer.send(b"before"))
    control.clusters["east"].pause()
    first = sent(producer, b"first", b"k")
    await asyncio.sleep(0.5)
    await control.move("logs/live/2", dropped={"logs/live/1": True})
    await asyncio.sleep(0.5)
    second = sent(producer, b"second", b"k")
    await asyncio.sleep(0.5)
    return first, second


@virtual
async def test_a_record_waits_for_those_of_its_key_and_for_no_other() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        assert (await producer.send(b"other", key=b"m")).cluster == "west"
        assert (await producer.send(b"keyless")).cluster == "west"
        assert not first.done()
        assert not second.done()
        control.clusters["east"].resume()
        assert [(await each).cluster for each in (first, second)] == ["east", "west"]
        assert values(control, "logs/live/2", b"k") == [b"second"]


@virtual
async def test_a_channel_of_the_same_name_elsewhere_is_another_one() -> None:
    """After a restore of the store a name may be given to a channel on another cluster."""
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        assert (await producer.send(b"before", key=b"k")).cluster == "east"
        control.add_channel("logs/live/1", "west")
        await control.move("logs/live/1")
        await asyncio.sleep(1.0)
        assert (await producer.send(b"after", key=b"k")).cluster == "west"
        assert [(each.channel, each.cluster) for each in control.channels_left] == [("logs/live/1", "east")]


@virtual
async def test_unacknowledged_records_are_resent_before_waiting_ones() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        await asyncio.sleep(PLANNED_MOVE_WAIT_SECONDS)
        third = sent(producer, b"third", b"k")
        assert {(await each).cluster for each in (first, second, third)} == {"west"}
        assert values(control, "logs/live/2", b"k") == [b"first", b"second", b"third"]


@virtual
async def test_a_silent_old_channel_is_not_awaited_to_the_end() -> None:
    control, loop = Control(), asyncio.get_running_loop()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        began = loop.time()
        first, second = await beside_a_frozen_cluster(control, producer)
        await asyncio.gather(first, second)
        assert PLANNED_MOVE_SILENCE_SECONDS <= loop.time() - began < PLANNED_MOVE_SILENCE_SECONDS + 1.0


@virtual
async def test_nobody_else_waits_for_what_is_about_to_be_sent_again() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        await until(lambda: len(control.acknowledged) == 2)
        assert (await producer.send(b"other", key=b"m")).cluster == "west"
        assert not first.done(), "it is given a moment to arrive yet"
        assert {(await each).cluster for each in (first, second)} == {"west"}


@virtual
async def test_a_revision_is_acknowledged_once_the_old_channel_is_done() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        assert (await producer.send(b"other", key=b"m")).cluster == "west"
        assert len(control.acknowledged) == 1
        control.clusters["east"].resume()
        await asyncio.gather(first, second)
        await until(lambda: len(control.acknowledged) == 2)


@virtual
async def test_a_waiting_record_whose_caller_gave_up_is_not_sent() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        third = sent(producer, b"third", b"k")
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.sleep(0.1)
        control.clusters["east"].resume()
        await asyncio.gather(first, third)
        assert values(control, "logs/live/2", b"k") == [b"third"]
        assert producer.buffered_bytes == 0


def test_a_record_that_waits_too_long_is_unknown_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "PLANNED_MOVE_SILENCE_SECONDS", PLANNED_MOVE_WAIT_SECONDS)
    run_virtual(waiting_too_long())


async def waiting_too_long() -> None:
    """Two records run out of time in a planned move."""
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs", delivery_timeout_seconds=2.0) as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        for each in (first, second):
            with pytest.raises(DeliveryUnknown):
                await each
        assert producer.buffered_bytes == 0
        control.clusters["east"].resume()
        assert (await producer.send(b"after", key=b"k")).cluster == "west"
        assert values(control, "logs/live/2", b"k") == [b"after"]


async def overtaken_by(newest: str) -> list[bytes | None]:
    """The records of one key, in log order, that waited in a move when a newer route came."""
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        await control.move(newest, dropped={f"logs/live/{each}": True for each in (1, 2) if newest[-1] != f"{each}"})
        await asyncio.sleep(0.5)
        third = sent(producer, b"third", b"k")
        await asyncio.sleep(0.5)
        control.clusters["east"].resume()
        await asyncio.gather(first, second, third)
        return [value for each in (1, 2, 3) for value in values(control, f"logs/live/{each}", b"k")]


@pytest.mark.parametrize("newest", ["logs/live/1", "logs/live/3"])
def test_a_newer_route_keeps_the_order_of_who_waits(newest: str) -> None:
    assert run_virtual(overtaken_by(newest)) == [b"before", b"first", b"second", b"third"]


@virtual
async def test_an_old_channel_that_breaks_is_left_and_order_is_kept() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first, second = await beside_a_frozen_cluster(control, producer)
        control.clusters["east"].kill()
        revision = await control.move("logs/live/2", dropped={"logs/live/1": False})
        third = sent(producer, b"third", b"k")
        assert {(await each).cluster for each in (first, second, third)} == {"west"}
        assert values(control, "logs/live/2", b"k") == [b"first", b"second", b"third"]
        await until(lambda: (producer.id, revision) in control.acknowledged)


@virtual
async def test_closing_with_waiting_records_answers_every_sender() -> None:
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh:
        async with mesh.producer("logs") as producer:
            first, second = await beside_a_frozen_cluster(control, producer)
        for each in (first, second):
            assert isinstance(each.exception(), DeliveryUnknown) or (await each).cluster == "west"


async def keys_out_of_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Planned moves to and fro under load, some routes overtaken by newer ones. Counts records written too early."""
    control = Control(seed=seed)
    await three_channels(control)
    dice = control.process.host.randomness
    control.latency = lambda: dice.uniform(0.0, 0.05)
    written, generation, sending = defaultdict[bytes, list[int]](list), 1, list[Sending]()
    append = MemoryCluster.append

    def noted(self: MemoryCluster, where: TopicPartition, records: Sequence[NewRecord], *whose: int) -> int:
        offset = append(self, where, records, *whose)
        for record in records:
            written[record.key or b""].append(int(record.value or b""))
        return offset

    monkeypatch.setattr(MemoryCluster, "append", noted)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        for step in range(15):
            for number in range(20):
                sending.append(sent(producer, b"%d" % (20 * step + number), b"%d" % int(dice.uniform(0, 8))))
                await asyncio.sleep(dice.uniform(0.0, 0.01))
            generation += 1
            control.add_channel(f"logs/live/{generation + 3}", ("east", "west")[generation % 2])
            before = [f"logs/live/{each + 3}" for each in range(2, generation)]
            await control.move(f"logs/live/{generation + 3}", dropped=dict.fromkeys(["logs/live/1", *before], True))
            await asyncio.sleep(dice.uniform(0.0, 0.1))
        await asyncio.gather(*sending)
        everything = [record for channel in control.channels for record in control.records(channel)]
        assert len(everything) == 300, "nothing is lost or repeated"
    return sum(after < before for numbers in written.values() for before, after in pairwise(numbers))


@pytest.mark.parametrize("seed", range(12))
def test_a_key_keeps_its_order_over_planned_moves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_virtual(keys_out_of_order(seed, monkeypatch)) == 0


def test_a_key_that_does_not_wait_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_for_nobody(self: KeyHandover, record: Pending) -> bool:
        return False

    monkeypatch.setattr(KeyHandover, "takes", wait_for_nobody)
    assert run_virtual(keys_out_of_order(0, monkeypatch)) > 0


async def overtaken_at_the_gate() -> list[bytes | None]:
    """An unplanned move to a cluster that is frozen at first; as the lane opens, somebody has his turn before all."""
    control = Control()
    await three_channels(control)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        for cluster in control.clusters.values():
            cluster.pause()
        sending = [sent(producer, b"sent again", b"k")]
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        await asyncio.sleep(0.5)  # beyond the grace

        class Gate(asyncio.Event):
            """An event whose opening first lets a new sender run, before those that it wakes."""

            def set(self) -> None:
                sending.append(sent(producer, b"last", b"k"))
                super().set()

        gate = producer._moves._gates["live"] = Gate()
        sending.append(sent(producer, b"meanwhile", b"k"))
        await asyncio.sleep(0.1)
        control.clusters["west"].resume()
        await until(gate.is_set)
        await asyncio.gather(*sending)
        return values(control, "logs/live/2", b"k")


ORDER = [b"sent again", b"meanwhile", b"last"]


def test_nobody_passes_senders_who_came_during_a_resend() -> None:
    assert run_virtual(overtaken_at_the_gate()) == ORDER


def test_a_lane_opened_before_those_who_came_meanwhile_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send_those_there_were(self: Dispatcher, route: RouteTable) -> None:
        closed = [lane for lane, gate in self._gates.items() if not gate.is_set() and route.lanes.get(lane)]
        for record in [record for record in self._outbox if record.channel is None and record.lane in closed]:
            await self._send(record)
        for lane in closed:
            self._gate(lane).set()

    monkeypatch.setattr(Dispatcher, "_resend", send_those_there_were)
    assert run_virtual(overtaken_at_the_gate()) != ORDER
