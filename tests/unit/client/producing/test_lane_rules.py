"""Late data takes a lane of its own, unless its sender names one."""

import pytest

import braid
from braid.kernel.errors import Invalid, NotFound
from braid.testing import MemoryMesh

HOUR_MS = 3_600_000


@pytest.fixture
def mesh() -> MemoryMesh:
    made = MemoryMesh()
    made.create_stream("logs", {"live": 1, "bulk": 1})
    return made


async def test_late_records_go_to_the_lane_of_the_rule(mesh: MemoryMesh) -> None:
    now_ms = mesh.clock.now_ms()
    async with mesh.producer("logs", lane_rule=braid.Late(60, "bulk")) as producer:
        assert (await producer.send(b"now")).channel.lane == "live"
        assert (await producer.send(b"new", timestamp=now_ms - 1_000)).channel.lane == "live"
        assert (await producer.send(b"late", timestamp=now_ms - HOUR_MS)).channel.lane == "bulk"
        assert (await producer.send(b"named", timestamp=now_ms - HOUR_MS, lane="live")).channel.lane == "live"
        late = [braid.Outgoing(b"%d" % number, timestamp=now_ms - number * HOUR_MS) for number in range(3)]
        assert [each.channel.lane for each in await producer.send_many(late)] == ["live", "bulk", "bulk"]


async def test_a_rule_may_be_any_function(mesh: MemoryMesh) -> None:
    async with mesh.producer("logs", lane_rule=lambda record, now_ms: "bulk" if record.key else None) as producer:
        assert (await producer.send(b"v", key=b"k")).channel.lane == "bulk"
        assert (await producer.send(b"v")).channel.lane == "live"


async def test_a_rule_naming_no_lane_of_the_stream_refuses_the_record(mesh: MemoryMesh) -> None:
    async with mesh.producer("logs", lane_rule=braid.Late(60, "slow")) as producer:
        await producer.send(b"now")
        with pytest.raises(NotFound, match="slow"):
            await producer.send(b"late", timestamp=1)


@pytest.mark.parametrize(("seconds", "lane"), [(0, "bulk"), (float("nan"), "bulk"), (60, "No Such")])
def test_a_wrong_rule_is_refused(seconds: float, lane: str) -> None:
    with pytest.raises(Invalid, match=r"above 0|lower-case"):
        braid.Late(seconds, lane)
