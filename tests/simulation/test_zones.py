"""Three zones: bytes keep to them, and one that is lost stops no other and loses nothing."""

from typing import Final

import pytest

from braid.api.registry.v1 import stream_pb2
from braid.client.producing import routes
from tests.simulation.zoned import PARTITIONS, ZonedMesh, crossed
from tests.support.virtual_time import run_virtual

pytestmark = pytest.mark.slow

CUT_MIN: Final = 0.9
PAUSE_SECONDS_MAX: Final = 1.0  # of producers in other zones; a failover takes longer
HANDLED_SECONDS_MAX: Final = 5.0
MEASURED_SECONDS: Final = 3.0
CLUSTERS: Final = (
    "kafka-a",
    "kafka-b",
    "kafka-c",
)  # in order of preference: the first carries a lane that is not spread
ALONE: Final = stream_pb2.LaneSpec(partitions=PARTITIONS)
ZONED: Final = stream_pb2.LaneSpec(partitions=PARTITIONS, spread=stream_pb2.LANE_SPREAD_ZONES, keys_by_zone=True)


async def crossing(mesh: ZonedMesh, stream: str, lane: stream_pb2.LaneSpec, *, prefer: bool) -> float:
    """The part of a stream's bytes that cross zones, once its members have settled."""
    await mesh.create(stream, lane, CLUSTERS)
    group = f"{stream}-readers"
    await mesh.consume(stream, group, prefer=prefer)
    mesh.produce(stream)
    await mesh.clock.sleep(1.0)
    before = crossed()
    await mesh.clock.sleep(MEASURED_SECONDS)
    after = crossed()
    await mesh.silence()
    assert after[1] - before[1] > 1_000_000, "bytes flowed"
    return (after[0] - before[0]) / (after[1] - before[1])


def check_bytes_keep_to_zones(lane: stream_pb2.LaneSpec = ZONED, *, prefer: bool = True) -> None:
    """A stream over zones beside one on a single cluster, in the same run."""

    async def scenario() -> tuple[float, float]:
        mesh = ZonedMesh(1)
        await mesh.start()
        plain = await crossing(mesh, "plain", ALONE, prefer=False)
        return plain, await crossing(mesh, "zoned", lane, prefer=prefer)

    plain, zoned = run_virtual(scenario())
    assert plain > 0.5
    assert zoned <= (1 - CUT_MIN) * plain, f"{zoned:.2f} of the bytes cross zones, {plain:.2f} without"


def check_a_lost_zone_stops_no_other(lane: stream_pb2.LaneSpec = ZONED) -> None:
    """Kills a zone under load; producers and members of the others go on, and everything is handled in the end."""

    async def scenario() -> None:
        mesh = ZonedMesh(2)
        await mesh.start()
        await mesh.create("logs", lane, CLUSTERS)
        await mesh.consume("logs", "readers", prefer=bool(lane.spread))
        mesh.produce("logs")
        await mesh.clock.sleep(3.0)
        ledger, began = mesh.ledger, mesh.clock.elapsed()
        ledger.watch(began)
        mesh.lose("a")
        await mesh.clock.sleep(10.0)
        now = mesh.clock.elapsed()
        ledger.stop(now)
        pauses = {name: pause for name, pause in ledger.pauses.items() if not name.endswith(".a")}
        assert len(pauses) == 4
        late = ledger.latest(began, now - HANDLED_SECONDS_MAX, ledger.carried.get("kafka-a", ()))
        assert max(pauses.values()) <= PAUSE_SECONDS_MAX, f"producers of other zones paused: {pauses}"
        assert late <= HANDLED_SECONDS_MAX
        mesh.kafka.named("kafka-a").start()
        await mesh.silence()
        assert await mesh.until(lambda: not ledger.missing(), 60.0), f"{len(ledger.missing())} records are lost"

    run_virtual(scenario())


def test_bytes_between_zones_are_cut_by_most() -> None:
    check_bytes_keep_to_zones()


def test_keys_that_hash_over_all_zones_are_caught() -> None:
    spread = stream_pb2.LaneSpec(partitions=PARTITIONS, spread=stream_pb2.LANE_SPREAD_ZONES)
    with pytest.raises(AssertionError, match="of the bytes cross zones"):
        check_bytes_keep_to_zones(spread)


def test_members_that_prefer_no_zone_are_caught() -> None:
    with pytest.raises(AssertionError, match="of the bytes cross zones"):
        check_bytes_keep_to_zones(prefer=False)


def test_producers_that_prefer_no_zone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "near", lambda channels, chosen, zone: (chosen,))
    with pytest.raises(AssertionError, match="of the bytes cross zones"):
        check_bytes_keep_to_zones()


def test_a_lost_zone_stops_no_other_and_loses_nothing() -> None:
    check_a_lost_zone_stops_no_other()


def test_a_lane_with_one_channel_is_stopped_by_its_zone() -> None:
    with pytest.raises(AssertionError, match="producers of other zones paused"):
        check_a_lost_zone_stops_no_other(ALONE)
