"""A replica whose wall clock is off, on real processes: it is told, nothing that waits for days ends, and it is over.

It leads while its clock is eight days ahead or an hour behind: the leader before it was killed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.cli.doctor.findings import Level
from braid.client.mesh import Mesh
from braid.kernel.limits.assigner.leases import IDLE_CHECK_SECONDS
from braid.kernel.limits.runtime import CLOCKS_APART_SECONDS, CLOCKS_COMPARE_SECONDS
from devmesh.files import MeshFiles
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import until
from tests.support.clocks import clocks_apart

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]
LIVE: Final = "restless/live/1"
RECORDS: Final = 10
TOLD_SECONDS: Final = CLOCKS_COMPARE_SECONDS + 15.0
LOOKED_SECONDS: Final = 2 * IDLE_CHECK_SECONDS + 20.0
SERVICES: Final = ("registry", "assigner")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[DevMesh]:
    """A mesh of the test's own: its clocks are set off. Most clocks are right, also while a leader is dead."""
    with running_mesh(tmp_path / "mesh", registries=2, assigners=2, lagmons=1, dlqs=1) as mesh:
        yield mesh


async def leader(mesh: Mesh, service: str, other_than: str = "") -> str:
    """The replica that leads."""
    found: list[str] = []

    async def look() -> bool:
        answer = await mesh.service(service).unary(
            "ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse, any_replica=True
        )
        found[:] = [each.instance for each in answer.endpoints if each.service == service and each.leader]
        return bool(found) and found[0] != other_than

    await until(look, f"a leader of {service}")
    return found[0]


def store_of(local: DevMesh) -> str:
    """Its event store."""
    return f"sqlite://{MeshFiles(Path(local.ready.dir)).database}"


def doctor(endpoint: str) -> set[str]:
    """Replicas whose clock `braid doctor` finds to be wrong."""
    command = [str(Path(sys.executable).with_name("braid")), "doctor", "-o", "json"]
    variables = {**os.environ, "BRAID_ENDPOINT": endpoint}
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables).stdout
    found = json.loads(said)["findings"]
    return {each["name"] for each in found if each["check"] == "clock" and each["level"] != Level.OK.value}


async def a_drain_that_waits_for_an_idle_group(mesh: Mesh) -> None:
    """The stream has moved to west; group `sleepers`, without members, has ten records to do on east."""
    registry, assigner = mesh.service("registry"), mesh.service("assigner")
    spec = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=1)}, clusters=["east", "west"])
    await registry.unary("CreateStream", api.CreateStreamRequest(name="restless", spec=spec), stream_pb2.Stream)
    group = group_pb2.GroupSpec(streams=["restless"], start=group_pb2.StartPosition(earliest=True))
    made = assigner_api.CreateGroupRequest(name="sleepers", spec=group)
    await assigner.unary("CreateGroup", made, group_pb2.Group, timeout_seconds=60.0)
    async with mesh.producer("restless") as producer:
        for number in range(RECORDS):
            await producer.send(b"%d" % number)
    order = api.MoveStreamRequest(stream="restless", to_cluster="west")
    await registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=60.0)

    async def waits() -> bool:
        return any(f"sleepers ({RECORDS} records)" in each for each in (await channel(mesh)).drain_holders)

    await until(waits, "nobody holds the drain", 60.0)


async def channel(mesh: Mesh) -> stream_pb2.Channel:
    """The channel that drains."""
    found = await mesh.service("registry").unary("ListChannels", api.ListChannelsRequest(), api.ListChannelsResponse)
    return next(each for each in found.channels if each.name == LIVE)


async def lead_anew(local: DevMesh, mesh: Mesh, services: Sequence[str]) -> None:
    """Kills each leader; it is started again once the other replica leads."""
    for service in services:
        name = await leader(mesh, service)
        await local.kill(name)
        await leader(mesh, service, name)
        await local.start(name)


@pytest.mark.parametrize(("offset", "offset_ms"), [("+8d", 8 * 86_400_000), ("-1h", -3_600_000)])
async def test_a_replica_whose_clock_is_off_is_told_and_ends_no_wait(
    local: DevMesh, offset: str, offset_ms: int
) -> None:
    async with braid.connect(local.ready.endpoint, client_id="tests") as mesh:
        await a_drain_that_waits_for_an_idle_group(mesh)
        (wrong,) = {"registry-0", "registry-1"} - {await leader(mesh, "registry")}
        await local.set_clock(wrong, offset)
        await lead_anew(local, mesh, SERVICES)
        assert await leader(mesh, "registry") == wrong
        for service in SERVICES:

            async def told(service: str = service) -> bool:
                apart = await clocks_apart(store_of(local), service)
                assert apart.keys() <= {wrong}, "the others' clocks are right"
                return abs(apart.get(wrong, 0) - offset_ms) < CLOCKS_APART_SECONDS * 1_000

            await until(told, f"{service} tells that the clock of {wrong} is off", TOLD_SECONDS)
        assert doctor(local.ready.endpoint) == {wrong}

        held = await group_of(mesh)
        assert held.status.idle_held, "while clocks disagree nobody's time runs out"
        assert not held.status.idle_expired
        assert (await channel(mesh)).state == stream_pb2.CHANNEL_STATE_DRAINING

        await local.set_clock(wrong, "0")

        async def agree() -> bool:
            return not any([await clocks_apart(store_of(local), service) for service in SERVICES])

        await until(agree, "all clocks agree again", TOLD_SECONDS)

        async def goes_on() -> bool:
            return not (await group_of(mesh)).status.idle_held

        await until(goes_on, "the wait goes on", LOOKED_SECONDS)
        assert (await group_of(mesh)).status.idle_left_ms > 6.9 * 86_400_000, "no more of it is over than has passed"
        assert (await channel(mesh)).state == stream_pb2.CHANNEL_STATE_DRAINING
        assert not doctor(local.ready.endpoint)


async def group_of(mesh: Mesh) -> group_pb2.Group:
    """The group that the drain waits for."""
    asked = assigner_api.GetGroupRequest(name="sleepers")
    return await mesh.service("assigner").unary("GetGroup", asked, group_pb2.Group, timeout_seconds=60.0)
