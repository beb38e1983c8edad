"""A cluster that refuses one client: that client hears why at once, and nobody is told that the cluster is unwell."""

import asyncio

import pytest

from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import DENIED_AGAIN_SECONDS
from tests.support.scripted_control import ids, two_clusters, until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, member

SOON_SECONDS = 0.5


@virtual
async def test_a_refused_send_fails_at_once_and_raises_no_complaint() -> None:
    async with two_clusters() as (control, client, mesh):
        client.kafka.deny("east")
        async with mesh.producer("logs") as producer:
            for key in (None, b"k"):
                with pytest.raises(ClusterAccessDenied, match="east refuses this client") as refused:
                    await asyncio.wait_for(producer.send(b"hello", key=key), SOON_SECONDS)
                assert "security profile" in refused.value.remedy
            await asyncio.sleep(30.0)
            assert control.reports == []
            assert [answer.acknowledged_ms_ago for _, answer in await control.ask("east")] == [-1]
            assert control.reports == [], "nor when the registry asks"


@virtual
async def test_sends_succeed_once_the_cluster_lets_the_client_in() -> None:
    async with two_clusters() as (control, client, mesh):
        client.kafka.deny("east")
        async with mesh.producer("logs") as producer:
            with pytest.raises(ClusterAccessDenied):
                await producer.send(b"refused")
            client.kafka.allow("east")
            await asyncio.sleep(5.0)
            receipt = await producer.send(b"taken")
            assert ids(control, "logs/live/1") == [receipt.id]


@virtual
async def test_a_client_refused_later_hears_so_for_what_it_sends_then() -> None:
    async with two_clusters() as (control, client, mesh), mesh.producer("logs") as producer:
        await producer.send(b"taken")
        client.kafka.deny("east")
        with pytest.raises(ClusterAccessDenied):
            await asyncio.wait_for(producer.send(b"refused"), SOON_SECONDS)
        client.kafka.allow("east")
        await producer.send(b"taken")
        assert len(ids(control, "logs/live/1")) == 2
        assert control.reports == []


@virtual
async def test_a_letter_whose_lane_refuses_is_kept_and_written_later() -> None:
    async def hopeless(record: object) -> None:
        raise ValueError("never")

    async with bench() as at:  # its dlq lane is on west
        at.fill(1)
        async with member(at, "m", FIRST) as (consumer, client):
            client.kafka.deny("west")
            running = asyncio.ensure_future(consumer.run(hopeless))
            await asyncio.sleep(60.0)
            assert at.control.records("logs/dlq/1") == []
            assert at.watch.base(TOPIC) in (None, 0)
            [lease] = [each for each in consumer.explain() if each.lease == FIRST]
            assert any("refuses this client" in why for why in lease.blocked)
            client.kafka.allow("west")
            await until(lambda: at.watch.base(TOPIC) == 1, 30.0)
        await running
        assert len(at.control.records("logs/dlq/1")) == 1


@virtual
async def test_a_refused_consumer_says_so_and_complains_of_nothing() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, client):
        await until(lambda: len(at.control.witnesses) == 1)
        await asyncio.sleep(1.0)
        client.kafka.deny("east")
        await asyncio.sleep(20.0)
        assert at.control.witnesses[0].complaints == []
        await at.control.witnesses[0].ask("east")
        assert at.control.witnesses[0].complaints == []
        [lease] = [each for each in consumer.explain() if each.lease == FIRST]
        assert any(why.startswith("cluster east gives this client no access: ") for why in lease.blocked)


def test_a_refusal_of_a_consumer_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    @virtual
    async def scene() -> None:
        async with bench() as at, member(at, "m", FIRST) as (_, client):
            await asyncio.sleep(1.0)
            client.kafka.deny("east")
            await asyncio.sleep(2.5 * DENIED_AGAIN_SECONDS)

    scene()
    told = [each for each in caplog.messages if each.startswith("cluster east gives this client no access")]
    assert len(told) == 3
