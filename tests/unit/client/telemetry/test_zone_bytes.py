"""Bytes by direction and zone: what is counted, what crosses, how it is read, and where counting is bounded."""

from collections.abc import Iterator

import pytest
from opentelemetry.metrics import CallbackOptions

import braid
from braid.client.telemetry import zone_bytes
from braid.client.telemetry.zone_bytes import FETCHED, OTHERS, SENT, ZoneBytes, tally
from tests.support.scripted_control import Control, until, virtual
from tests.unit.client.scripted_member import FIRST, bench, take


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    """Counts are the process's: each test begins with none, and leaves none."""
    zone_bytes._tallies.clear()
    yield
    zone_bytes._tallies.clear()


@pytest.mark.parametrize(
    ("cluster_zone", "client_zone", "crosses"),
    [("a", "b", True), ("a", "a", False), ("", "b", False), ("a", "", False), ("", "", False)],
)
def test_what_crosses_zones(cluster_zone: str, client_zone: str, crosses: bool) -> None:
    assert ZoneBytes(SENT, "east", cluster_zone, client_zone, 1).cross_zone is crosses


def test_counts_of_the_same_way_add_up() -> None:
    tally(SENT, "east", "a", "b").bytes += 5
    tally(SENT, "east", "a", "b").bytes += 2
    tally(FETCHED, "east", "a", "b").bytes += 1
    assert braid.zone_bytes() == [ZoneBytes(FETCHED, "east", "a", "b", 1), ZoneBytes(SENT, "east", "a", "b", 7)]


def test_ways_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_bytes, "ZONE_TALLIES_MAX", 2)
    for number in range(5):
        tally(SENT, f"cluster-{number}", "a", "b").bytes += 1
    assert [(each.cluster, each.bytes) for each in braid.zone_bytes()] == [
        (OTHERS, 3),
        ("cluster-0", 1),
        ("cluster-1", 1),
    ]


def test_what_a_reader_of_metrics_gets() -> None:
    tally(FETCHED, "west", "b", "a").bytes += 9
    (observation,) = zone_bytes._observed(CallbackOptions())
    assert observation.value == 9
    assert observation.attributes == {
        "braid.direction": "fetched",
        "braid.cluster": "west",
        "braid.cluster.zone": "b",
        "braid.client.zone": "a",
        "braid.cross_zone": True,
    }


@virtual
async def test_a_producer_counts_what_is_acknowledged_on_each_cluster() -> None:
    control = await Control().start()
    control.add_channel("logs/live/1", "east")
    control.add_channel("logs/live/2", "west")
    await control.move("logs/live/1")
    client = control.client("web", zone="b")
    async with client.mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"hello", key=b"k", headers={"h": b"v"})
        [record] = control.records("logs/live/1")
        size = len(b"hello") + len(b"k") + sum(len(name) + len(value) for name, value in record.headers)
        assert braid.zone_bytes() == [ZoneBytes(SENT, "east", "a", "b", size)]
        revision = await control.move("logs/live/2", dropped={"logs/live/1": True})
        await until(lambda: (producer.id, revision) in control.acknowledged, 5.0)
        await producer.send_many([braid.Outgoing(b"there")] * 10)
    east, west = braid.zone_bytes()
    assert (east.bytes, east.cross_zone) == (size, True)
    assert (west.cluster, west.cross_zone) == ("west", False)
    assert west.bytes > 10 * len(b"there")


@virtual
async def test_a_consumer_counts_what_it_fetches() -> None:
    async with bench() as at:
        at.fill(100)
        client = at.control.client("one", zone="b")
        async with client.mesh, client.mesh.consumer(["logs"], group="g") as consumer:
            await at.control.grant(-1, FIRST)
            records = await take(consumer, 100)
            for record in records:
                at.sunk(record)
                record.ack()
        size = sum(len(record.value or b"") + len(record.key or b"") for record in records)
        assert braid.zone_bytes() == [ZoneBytes(FETCHED, "east", "a", "b", size)]
