"""Real services whose wall clocks step by eight days: no idle group is given up, no drained topic is deleted.

The clocks step by an offset behind the clock port, in all processes alike, so that no comparison could tell.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.limits.assigner.leases import IDLE_CHECK_SECONDS
from braid.kernel.ports import TopicPartition
from braid.rpc.mesh_client import ServiceClient
from testbed.brokers import running_broker
from testbed.patience import in_time
from tests.integration.test_registry_processes import CALL_SECONDS, House, channel, create_cluster, create_stream, is_in

pytestmark = [pytest.mark.untimed, pytest.mark.timeout(300)]
EIGHT_DAYS_MS = 8 * 86_400_000
LOOKED_SECONDS = IDLE_CHECK_SECONDS + 5  # a leader has looked at idle groups: it would have told of one by then
LIVE, DLQ = "logs/live/1", "logs/dlq/1"


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setenv("BRAID_CLOCK_OFFSET_FILE", str(tmp_path / "offset"))
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running_broker(name, tmp_path / name)) for name in ("east", "west")}
        house = House(tmp_path, brokers)
        try:
            await house.start("registry-0", "services.registry")
            await house.start("assigner-0", "services.assigner")
            yield house
        finally:
            await house.close()


async def test_an_eight_day_clock_step_deletes_no_group_and_no_topic(house: House) -> None:
    registry = house.connect()
    assigner = ServiceClient(house.directory_of, "assigner", house.host)
    await a_drain_that_waits_for_an_idle_group(house, registry, assigner)

    (house.directory / "offset").write_text(str(EIGHT_DAYS_MS))
    await asyncio.sleep(LOOKED_SECONDS)
    await nothing_ended(registry, assigner)

    for process in house.processes:
        process.kill()
        await in_time(process.wait(), "it ends")
    house.processes.clear()
    await house.start("registry-1", "services.registry")
    await house.start("assigner-1", "services.assigner")
    await house.directory_of.close()
    registry = house.connect()
    assigner = ServiceClient(house.directory_of, "assigner", house.host)
    await asyncio.sleep(LOOKED_SECONDS)
    await nothing_ended(registry, assigner)


async def a_drain_that_waits_for_an_idle_group(house: House, registry: ServiceClient, assigner: ServiceClient) -> None:
    """The stream has moved to west; group `billing`, without members, has ten records to do on east."""
    for name, broker in house.brokers.items():
        await create_cluster(registry, name, broker.bootstrap)
    stream = await create_stream(registry, clusters=["east", "west"])
    spec = group_pb2.GroupSpec(streams=["logs"], start=group_pb2.StartPosition(earliest=True))
    made = assigner_api.CreateGroupRequest(name="billing", spec=spec)
    await assigner.unary("CreateGroup", made, group_pb2.Group, timeout_seconds=CALL_SECONDS)
    (topic,) = [each.topic for each in stream.status.channels if each.name == LIVE]
    east = house.admin("east")
    for _ in range(10):
        await east.try_append(TopicPartition(topic, 0), b"record", 5.0)
    await east.close()
    order = api.MoveStreamRequest(stream="logs", to_cluster="west")
    await registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)

    async def waits() -> bool:
        return "billing (10 records)" in (await channel(registry, LIVE)).drain_holders

    await house.until(waits, 30, "nobody holds the drain")
    drained = stream_pb2.CHANNEL_STATE_DRAINED
    await house.until(lambda: is_in(registry, DLQ, drained), 30, "the empty dlq channel is not drained")


async def nothing_ended(registry: ServiceClient, assigner: ServiceClient) -> None:
    """The group is waited for, and what is drained is kept."""
    asked = assigner_api.GetGroupRequest(name="billing")
    group = await assigner.unary("GetGroup", asked, group_pb2.Group, timeout_seconds=CALL_SECONDS)
    assert not (group.status.idle_expired or group.status.idle_alerted)
    assert group.status.idle_left_ms > 6.9 * 86_400_000 and not group.status.idle_held
    assert await is_in(registry, LIVE, stream_pb2.CHANNEL_STATE_DRAINING)
    assert await is_in(registry, DLQ, stream_pb2.CHANNEL_STATE_DRAINED)
