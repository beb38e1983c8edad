"""Clients that tell receipts they cannot have, as wire messages by hand: they hold no drain, and no loss is told."""

import pytest

from braid.api.registry.v1.route_pb2 import ChannelLeft, LogResumed, Resumption, WatchRoutesRequest
from braid.kernel.errors import Invalid
from braid.kernel.limits.assigner.leases import PRODUCER_SESSION_SECONDS
from tests.unit.registry.mesh import DRAINED, Mesh, Producer, open_producer, two_clusters
from tests.unit.registry.scenarios.returning_without import CHANNEL, TOPIC, is_lost, lost, play

ABSURD = 1 << 62


async def honest(mesh: Mesh) -> Producer:
    """Ten records on east, all of them done, and their producer."""
    await two_clusters(mesh)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.commit("east", "indexer", TOPIC, 10)
    producer = await open_producer(mesh, "honest")
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    await producer.acknowledge(producer.routes[-1].revision)
    return producer


async def drained_without_loss(mesh: Mesh, producer: Producer) -> None:
    await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
    left = ChannelLeft(channel=CHANNEL, next_offsets={0: 10})
    await producer.call.send(WatchRoutesRequest(channel_left=left))
    await producer.acknowledge(producer.routes[-1].revision)
    seconds = 2 * PRODUCER_SESSION_SECONDS
    await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED or is_lost(channel), seconds)
    assert (await mesh.channel(CHANNEL)).state == DRAINED
    assert await lost(mesh) == []


async def refused(mesh: Mesh, liar: Producer, field: str) -> None:
    await mesh.until(lambda: liar.ended, 2, "its stream goes on")
    assert isinstance(liar.error, Invalid), liar.error
    assert liar.error.field == field and liar.error.remedy


LEFT = ChannelLeft(channel=CHANNEL, next_offsets={0: ABSURD})
LIES = {
    "channel_left.next_offsets": WatchRoutesRequest(channel_left=LEFT),
    "log_resumed.resumptions": WatchRoutesRequest(
        log_resumed=LogResumed(
            channel=CHANNEL, resumptions=[Resumption(partition=0, first_offset=1, next_offset=ABSURD - 1)]
        )
    ),
}


@pytest.mark.parametrize("field", LIES)
def test_impossible_offsets_end_the_stream_and_hold_no_drain(field: str) -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        liar = await open_producer(mesh, "liar")
        await mesh.until(lambda: bool(liar.routes), 2, "no route")
        await liar.call.send(LIES[field])
        await refused(mesh, liar, field)
        await mesh.move(to_cluster="west")
        await drained_without_loss(mesh, producer)

    play(scene)


@pytest.mark.parametrize(
    ("lie", "field"),
    [
        (ChannelLeft(channel=CHANNEL, next_offsets={1: 3, 0: ABSURD}), "hello.left.next_offsets"),
        (
            LogResumed(channel=CHANNEL, resumptions=[Resumption(next_offset=5, resumed_offset=ABSURD)]),
            "hello.resumed.resumptions",
        ),
    ],
    ids=["left", "resumed"],
)
def test_a_hello_with_offsets_no_log_can_have_opens_no_session(lie: ChannelLeft | LogResumed, field: str) -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        left, resumed = ([lie], []) if isinstance(lie, ChannelLeft) else ([], [lie])
        for _ in range(3):
            liar = await open_producer(mesh, "liar", left=left, resumed=resumed)
            await refused(mesh, liar, field)
        await mesh.move(to_cluster="west")
        await drained_without_loss(mesh, producer)

    play(scene)


def test_a_report_on_a_lane_the_client_does_not_write_is_ignored() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        liar = await open_producer(mesh, "liar", lanes=["dlq"])
        await mesh.until(lambda: bool(liar.routes), 2, "no route")
        await liar.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 15})))
        await mesh.move(to_cluster="west")
        await drained_without_loss(mesh, producer)

    play(scene)


def test_limit_a_possible_receipt_is_believed_from_anybody() -> None:
    """The rest of a log does not refute that it was longer: a person decides, as with any loss."""

    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        liar = await open_producer(mesh, "liar")
        await mesh.until(lambda: bool(liar.routes), 2, "no route")
        await liar.call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 15})))
        await liar.acknowledge(liar.routes[-1].revision + 1)
        await mesh.move(to_cluster="west")
        with pytest.raises(AssertionError):
            await drained_without_loss(mesh, producer)
        assert await lost(mesh) == [((0, 10, 14),)]

    play(scene)
