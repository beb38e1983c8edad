"""A producer whose channel is sealed, by a drain or since a backup: it waits until somebody takes records."""

import asyncio

from tests.support.scripted_control import Control, two_clusters, virtual


def values(control: Control, channel: str) -> list[bytes | None]:
    """In the order of the one partition that the tests' key has."""
    return [record.value for record in control.records(channel)]


@virtual
async def test_a_sealed_topic_sends_by_the_newest_route() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.seal("logs/live/1")
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(5)]
        await asyncio.sleep(1.0)
        assert not any(each.done() for each in sending)
        await control.move("logs/live/2", dropped={"logs/live/1": True})
        assert {receipt.cluster for receipt in await asyncio.gather(*sending)} == {"west"}
        assert values(control, "logs/live/2") == [b"%d" % n for n in range(5)]


@virtual
async def test_an_unsealed_topic_is_tried_again_without_a_new_route() -> None:
    """After a restore of the store the route leads to a channel that is sealed for a while yet."""
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.seal("logs/live/1")
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(5)]
        await asyncio.sleep(5.0)
        assert not any(each.done() for each in sending)
        control.unseal("logs/live/1")
        async with asyncio.timeout(5.0):
            assert {receipt.cluster for receipt in await asyncio.gather(*sending)} == {"east"}
            await producer.send(b"after", key=b"k")
        assert values(control, "logs/live/1") == [b"before", *(b"%d" % n for n in range(5)), b"after"]
