"""Groups that come after a drain on real clusters: they read what drained channels keep, and their lag counts it."""

import asyncio
import json
from typing import Any, Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.commands import CALL_SECONDS, printed
from tests.support.grounds import wait_healthy

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
FIRST: Final = [f"east-{number}" for number in range(150)]
SECOND: Final = [f"west-{number}" for number in range(50)]


async def send(mesh: braid.Mesh, stream: str, values: list[str]) -> None:
    """Sends records, and waits until all are acknowledged."""
    async with mesh.producer(stream) as producer:
        await asyncio.gather(*[producer.send(value.encode()) for value in values])


async def failed_over_and_drained(local: DevMesh, mesh: braid.Mesh, stream: str, *, ordered: bool) -> None:
    """A stream with records on a drained channel of east and on an active one of west; nobody consumed any."""
    spec = stream_pb2.StreamSpec(
        lanes={"live": stream_pb2.LaneSpec(partitions=2)},
        clusters=["east", "west"],
        replication_factor=1,
        ordered=ordered,
    )
    request = api.CreateStreamRequest(name=stream, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)
    await send(mesh, stream, FIRST)
    try:
        await local.kill("east")
        await send(mesh, stream, SECOND)
    finally:
        await local.start("east")
    await until(lambda: drained(mesh, stream), "the channel on east is drained", 120, poll=0.2)


async def drained(mesh: braid.Mesh, stream: str) -> bool:
    """Whether the stream's first channel is."""
    answer = await mesh.service("registry").unary("GetStream", api.GetStreamRequest(name=stream), stream_pb2.Stream)
    states = {each.name: each.state for each in answer.status.channels}
    return states[f"{stream}/live/1"] == stream_pb2.CHANNEL_STATE_DRAINED


async def lag(local: DevMesh, group: str) -> list[dict[str, Any]]:
    """The group's lag by lane."""
    told = json.loads(await printed(local, f"get lag --group {group} -o json"))
    rows: list[dict[str, Any]] = told["items"] if isinstance(told, dict) else told
    return rows


async def lags(local: DevMesh, group: str, records: int) -> None:
    """Waits until the group's lag is as many records."""
    seen: list[dict[str, Any]] = []

    async def there() -> bool:
        seen[:] = await lag(local, group)
        return sum(int(row["lag_records"]) for row in seen) == records

    await until(there, lambda: f"a lag of {records}: {seen}", 30, poll=0.3)


async def test_a_late_group_reads_a_drained_channel_once_and_per_reset(
    whole_mesh: DevMesh,
) -> None:
    await asyncio.to_thread(wait_healthy, whole_mesh)
    total = len(FIRST) + len(SECOND)
    async with braid.connect(whole_mesh.ready.endpoint, client_id="tests") as mesh:
        await failed_over_and_drained(whole_mesh, mesh, "latecomers", ordered=False)
        group = group_pb2.GroupSpec(streams=["latecomers"], start=group_pb2.StartPosition(earliest=True))
        group.fencing, group.ownership = group_pb2.FENCING_GENERATION, group_pb2.OWNERSHIP_AT_LEAST_ONCE
        request = assigner.CreateGroupRequest(name="late", spec=group)
        created = await mesh.service("assigner").unary("CreateGroup", request, group_pb2.Group)
        assert list(created.status.reading_channels) == ["latecomers/live/1"]
    await lags(whole_mesh, "late", total)
    consume = f"consume latecomers --group late --from earliest --max {total} --timeout 30"
    assert sorted((await printed(whole_mesh, consume)).split()) == sorted(FIRST + SECOND)
    await lags(whole_mesh, "late", 0)
    assert (await printed(whole_mesh, "consume latecomers --group late --timeout 3")).split() == []
    await printed(whole_mesh, "reset group late --stream latecomers --to earliest --yes")
    await lags(whole_mesh, "late", total)
    assert sorted((await printed(whole_mesh, consume)).split()) == sorted(FIRST + SECOND)


async def test_in_an_ordered_stream_it_reads_the_drained_channel_first(whole_mesh: DevMesh) -> None:
    await asyncio.to_thread(wait_healthy, whole_mesh)
    async with braid.connect(whole_mesh.ready.endpoint, client_id="tests") as mesh:
        await failed_over_and_drained(whole_mesh, mesh, "latecomers-in-order", ordered=True)
        found: list[str] = []

        async def handle(record: braid.Record) -> None:
            found.append(record.cluster)

        async with mesh.consumer(["latecomers-in-order"], group="late-in-order", ownership="exclusive") as consumer:
            consuming = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(found) == len(FIRST) + len(SECOND), lambda: f"all of them: {len(found)}", 60)
        await consuming
    assert found == ["east"] * len(FIRST) + ["west"] * len(SECOND)
