"""Reports of a process's consumers on clusters: one stream, silent at rest, complaints while fetches are unanswered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

from braid.client.consuming.cluster_session import silent_seconds
from braid.kernel.limits.registry.health import UNKNOWN_CALL_TRIES
from braid.kernel.ports import Contact, DuplexCall
from braid.rpc.mesh_client import ServiceClient
from tests.support.scripted_control import Client, Control, until, virtual
from tests.support.scripted_streams import Witness
from tests.unit.client.scripted_member import FIRST, SECOND, Bench, bench, member

WEST = "logs/live/2"


@pytest.mark.parametrize(
    ("contact", "forgiven_seconds_ago", "silent"),
    [
        (Contact(0.0, 50.0), 99.0, 0.0),  # nothing is due
        (Contact(3.0, 50.0), 99.0, 3.0),
        (Contact(3.0, 0.2), 99.0, 0.2),  # another broker answered, or a commit was
        (Contact(3.0, 50.0), 0.5, 0.5),  # this process was late
    ],
)
def test_only_owed_unanswered_unforgiven_requests_are_silence(
    contact: Contact, forgiven_seconds_ago: float, silent: float
) -> None:
    assert silent_seconds(contact, forgiven_seconds_ago) == silent


@asynccontextmanager
async def reading(*leases: str) -> AsyncIterator[tuple[Bench, Witness, Client]]:
    """One member, which holds these leases and fetches."""
    async with bench() as at:
        at.control.add_channel(WEST, "west")
        async with member(at, "m", *leases) as (_, client):
            await until(lambda: len(at.control.witnesses) == 1)
            await asyncio.sleep(1.0)
            yield at, at.control.witnesses[0], client


@virtual
async def test_a_stream_lasts_from_the_first_consumer_to_the_last() -> None:
    async with bench() as at:
        client = at.control.client("m")
        async with client.mesh as mesh:
            await asyncio.sleep(1.0)
            assert at.control.witnesses == []
            for turn in (1, 2):
                async with mesh.consumer(["logs"], group="g"):
                    async with mesh.consumer(["logs"], group="h"):
                        await until(lambda turn=turn: len(at.control.witnesses) == turn)  # type: ignore[misc]
                        await asyncio.sleep(1.0)
                    await asyncio.sleep(1.0)
                    assert len(at.control.witnesses) == turn and not at.control.witnesses[-1].ended
                    assert at.control.witnesses[-1].hello.host == "m"
                await until(lambda: at.control.witnesses[-1].ended, 1.0)


@virtual
async def test_a_session_reports_its_read_clusters_only_on_change() -> None:
    async with reading(FIRST, SECOND) as (at, witness, _):
        told = len(witness.read)
        assert witness.read[-1] == ["east"] and told <= 2
        await at.control.grant(0, f"{WEST}/0")
        await asyncio.sleep(1.0)
        await at.control.revoke(0, FIRST, SECOND)
        await asyncio.sleep(60.0)
        assert witness.read[told:] == [["east", "west"], ["west"]]
        assert witness.complaints == [] and witness.answers == []


@virtual
async def test_unasked_complaints_about_a_silent_cluster_get_rarer() -> None:
    async with reading(FIRST, f"{WEST}/0") as (at, witness, _):
        at.control.clusters["east"].pause()
        await asyncio.sleep(0.7)
        assert witness.complaints == []
        for seconds, told in ((0.4, 1), (1.0, 2), (2.0, 3), (4.0, 4), (8.0, 5), (16.0, 6), (64.0, 10)):
            await asyncio.sleep(seconds)
            assert witness.complaints == ["east"] * told
        assert await witness.ask("east") > 90_000
        assert await witness.ask("east") > 90_000
        assert witness.complaints == ["east"] * 12
        assert 0 <= await witness.ask("west") < 500
        assert witness.complaints == ["east"] * 12
        at.control.clusters["east"].resume()
        await asyncio.sleep(1.0)
        told = len(witness.complaints)
        await asyncio.sleep(5.0)
        assert len(witness.complaints) == told
        assert 0 <= await witness.ask("east") < 500


@virtual
async def test_a_session_asked_of_an_unread_cluster_knows_no_answer() -> None:
    async with reading(FIRST) as (_, witness, _):
        assert await witness.ask("west") == -1
        assert await witness.ask("nowhere") == -1


@virtual
async def test_who_fetches_nothing_complains_of_nothing() -> None:
    async with bench() as at:
        at.fill(1_000)
        async with member(at, "m", FIRST, max_in_flight_bytes=100):
            await asyncio.sleep(2.0)  # nobody takes records: all is paused
            at.control.clusters["east"].pause()
            await asyncio.sleep(10.0)
            assert at.control.witnesses[0].complaints == []


@virtual
async def test_a_cluster_without_leaders_is_not_complained_of() -> None:
    async with reading(FIRST) as (at, witness, _):
        at.control.clusters["east"].stop_broker(1)
        await asyncio.sleep(10.0)
        assert witness.complaints == []


@virtual
async def test_a_process_that_was_stopped_forgives_first() -> None:
    async with reading(FIRST) as (at, witness, client):
        for seconds in (0.6, 1.5, 5.0):
            client.process.pause()
            await asyncio.sleep(seconds)
            client.process.resume()
            await asyncio.sleep(3.0)
        assert witness.complaints == []
        client.process.pause()
        at.control.clusters["east"].kill()
        await asyncio.sleep(5.0)
        client.process.resume()
        await asyncio.sleep(0.7)
        assert witness.complaints == []
        await asyncio.sleep(0.5)
        assert set(witness.complaints) == {"east"}


@virtual
async def test_a_session_reopens_after_its_registry_and_repeats_all() -> None:
    async with reading(FIRST) as (at, witness, _):
        at.control.network.kill("control")
        await asyncio.sleep(1.0)
        assert witness.ended
        await at.control.start()
        await until(lambda: len(at.control.witnesses) == 2)
        assert at.control.witnesses[1].read == [["east"]]


@virtual
async def test_a_registry_that_knows_no_such_stream_is_asked_no_more() -> None:
    async with bench() as at:
        at.control.knows_witnesses = False
        at.fill(10)
        async with member(at, "m", FIRST) as (consumer, client):
            assert await consumer.take(5.0) is not None
            await asyncio.sleep(60.0)
            assert at.control.refused_witnesses == UNKNOWN_CALL_TRIES
            async with client.mesh.consumer(["logs"], group="h"):
                await asyncio.sleep(60.0)
            assert at.control.refused_witnesses == UNKNOWN_CALL_TRIES


@virtual
async def test_a_session_refused_before_any_report_is_asked_no_more() -> None:
    duplex = ServiceClient.duplex

    async def late(self: ServiceClient, method: str, response_type: type, *, any_replica: bool = False) -> DuplexCall:
        call = await duplex(self, method, response_type, any_replica=any_replica)
        await asyncio.sleep(0.1)
        return call

    with patch.object(ServiceClient, "duplex", late):
        async with bench() as at:
            at.control.knows_witnesses = False
            async with member(at, "m", FIRST):
                await asyncio.sleep(60.0)
                assert at.control.refused_witnesses == UNKNOWN_CALL_TRIES


@virtual
async def test_a_stranger_on_the_registrys_port_is_no_older_registry() -> None:
    async with bench() as at:
        at.control.knows_witnesses = False
        async with member(at, "m", FIRST):
            await until(lambda: at.control.refused_witnesses == 2)
            at.control.knows_witnesses = True
            await until(lambda: len(at.control.witnesses) == 1, 5.0)


@virtual
async def test_a_process_that_is_killed_is_gone_at_once() -> None:
    control = await Control().start()
    control.add_channel("logs/live/1", "east")
    client = control.client("m")
    mesh = await client.mesh.__aenter__()
    await mesh.consumer(["logs"], group="g").__aenter__()
    await until(lambda: len(control.witnesses) == 1)
    client.kill()
    await asyncio.sleep(0.1)
    assert control.witnesses[0].ended
