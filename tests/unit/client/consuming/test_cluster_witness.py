"""A producer's answers about clusters, and its behaviour towards partitions without a leader."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from braid.api.registry.v1.route_pb2 import ReachAnswer
from braid.client.producing.routes import NOTHING_GONE, STICKY_BYTES, ActiveChannel, StickyChoice
from braid.client.records.outgoing import Receipt
from braid.kernel.ids import ChannelId
from tests.support.scripted_control import Control, virtual


def answer(cluster: str, ago_ms: int, in_flight: int) -> ReachAnswer:
    return ReachAnswer(cluster=cluster, acknowledged_ms_ago=ago_ms, in_flight=in_flight)


async def with_channels(brokers: int = 1) -> Control:
    """A channel of three partitions on each cluster; the route names the one on east."""
    control = await Control(brokers=brokers).start()
    control.add_channel("logs/live/1", "east", partitions=3)
    control.add_channel("logs/live/2", "west", partitions=3)
    await control.move("logs/live/1")
    return control


@virtual
async def test_an_asked_producer_says_when_it_was_last_acknowledged() -> None:
    control = await with_channels()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        assert await control.ask("east") == [("web", answer("east", -1, 0))]
        await producer.send(b"x")
        await asyncio.sleep(0.5)
        assert await control.ask("east") == [("web", answer("east", 500, 0))]
        assert await control.ask("west") == [("web", answer("west", -1, 0))]
        control.clusters["east"].pause()
        sending = asyncio.ensure_future(producer.send(b"y"))
        await asyncio.sleep(1.0)
        [(_, told)] = await control.ask("east")
        assert 1_490 <= told.acknowledged_ms_ago <= 1_520 and told.in_flight == 1
        control.clusters["east"].resume()
        await sending
        [(_, told)] = await control.ask("east")
        assert told.acknowledged_ms_ago < 1_000 and told.in_flight == 0


@virtual
async def test_a_process_that_was_stopped_complains_of_no_cluster() -> None:
    control = await with_channels()
    control.latency = lambda: 0.05
    client = control.client("web")
    async with client.mesh as mesh, mesh.producer("logs") as producer:
        for seconds in (0.9, 1.5, 3.0):
            sending = asyncio.ensure_future(producer.send(b"x"))
            await asyncio.sleep(0.02)
            client.process.tasks.pause()
            await asyncio.sleep(seconds)
            client.process.tasks.resume()
            await sending
        assert not control.reports
        control.clusters["east"].pause()
        sending = asyncio.ensure_future(producer.send(b"y"))
        await asyncio.sleep(1.0)
        assert control.reports
        control.clusters["east"].resume()
        await sending


@virtual
async def test_keyless_records_leave_a_leaderless_partition_keyed_wait() -> None:
    control = await with_channels(brokers=3)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        before = await producer.send(b"0")
        control.clusters["east"].stop_broker(1 + before.partition)  # it leads this partition, and no other
        held = [asyncio.ensure_future(producer.send(b"early")) for _ in range(3)]
        await asyncio.sleep(0.3)
        others: list[Receipt] = []
        for number in range(100):
            others.append(await asyncio.wait_for(producer.send(b"%d" % number), 0.5))
        assert before.partition not in {each.partition for each in others}
        assert not any(each.done() for each in held)
        keyed = [asyncio.ensure_future(producer.send(b"k", key=b"%d" % number)) for number in range(20)]
        await asyncio.sleep(2.0)
        assert {each.result().partition for each in keyed if each.done()} == {0, 1, 2} - {before.partition}
        assert not all(each.done() for each in keyed)
        control.clusters["east"].start_broker(1 + before.partition)
        receipts = await asyncio.gather(*held, *keyed)
        assert {each.partition for each in receipts} == {0, 1, 2}


@virtual
async def test_records_waiting_only_for_leaders_are_no_complaint() -> None:
    control = await with_channels(brokers=3)
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        receipts = [await producer.send(b"k", key=b"%d" % number) for number in range(20)]
        control.clusters["east"].stop_broker(1)
        await asyncio.sleep(0.5)
        keys = {each.partition: b"%d" % number for number, each in enumerate(receipts)}
        held = asyncio.ensure_future(producer.send(b"held", key=keys[0]))
        await asyncio.sleep(5.0)
        assert not held.done()
        assert not control.reports
        control.clusters["east"].pause()
        other = asyncio.ensure_future(producer.send(b"other", key=keys[1]))
        await asyncio.sleep(2.0)
        assert control.reports
        control.clusters["east"].resume()
        control.clusters["east"].start_broker(1)
        await asyncio.gather(held, other)


def channel(generation: int, partitions: int, weight: float = 1.0) -> ActiveChannel:
    return ActiveChannel(ChannelId("logs", "live", generation), "east", f"t{generation}", partitions, weight)


def chosen(
    choice: StickyChoice,
    channels: Sequence[ActiveChannel],
    gone: Mapping[ChannelId, Collection[int]] = NOTHING_GONE,
    size: int = STICKY_BYTES,
) -> list[tuple[ActiveChannel, int]]:
    """Where fifty records of a size go."""
    found: list[tuple[ActiveChannel, int]] = []
    for _ in range(50):
        found.append(choice.choose(channels, gone))
        choice.went(size)
    return found


def test_the_sticky_choice_avoids_lost_partitions_while_lost() -> None:
    one, choice = channel(1, 4), StickyChoice(0)
    gone = {one.id: [0, 1, 3]}
    assert {partition for _, partition in chosen(choice, [one], gone, 10)} == {2}
    assert {partition for _, partition in chosen(choice, [one], size=10)} == {0}  # all are there again


def test_a_wholly_lost_channel_leaves_its_records_to_the_others() -> None:
    one, other, choice = channel(1, 2, 99.0), channel(2, 2), StickyChoice(0)
    assert {each.id for each, _ in chosen(choice, [one, other], {one.id: [0, 1]})} == {other.id}


def test_with_everything_lost_records_wait_in_their_order() -> None:
    one = channel(1, 3)
    assert chosen(StickyChoice(5), [one], {one.id: [0, 1, 2]}) == chosen(StickyChoice(5), [one])
