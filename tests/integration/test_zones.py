"""Three zones on real processes, each with a cluster, services and an application: bytes, and a zone that is killed."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from devmesh.mesh import DevMesh
from testbed.members import zone_member
from testbed.members.zone_member import ACKNOWLEDGED, BYTES, HANDLED, Line
from testbed.patience import until

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(900)]
ZONES: Final = ("a", "b", "c")
LOST: Final = "a"
CUT_MIN: Final = 0.6
PAUSE_SECONDS_MAX: Final = 5.0
MEASURED_SECONDS: Final = 10.0
NEAR_SECONDS: Final = 120.0
DRAIN_SECONDS: Final = 120.0


class Applications:
    """A process in each zone, on one stream."""

    def __init__(self, local: DevMesh, mesh: braid.Mesh, stream: str, directory: Path) -> None:
        self.stream = stream
        self.group = f"{stream}-readers"
        self._endpoint = local.ready.endpoint
        self._mesh = mesh
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @contextlib.asynccontextmanager
    async def running(self, lane: stream_pb2.LaneSpec, *, prefer: bool) -> AsyncIterator["Applications"]:
        """Creates the stream and runs the processes, the last zone's first: the group's rule is set then."""
        clusters = [f"kafka-{zone}" for zone in ZONES]
        spec = stream_pb2.StreamSpec(lanes={"live": lane}, clusters=clusters, replication_factor=1)
        request = api.CreateStreamRequest(name=self.stream, spec=spec)
        await self._mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
        try:
            for zone in reversed(ZONES):
                self._processes[zone] = self._start(zone)
                await until(partial(self.lines, zone), f"the process of {zone} works", 60.0)
                if prefer and zone == ZONES[-1]:
                    await until(self._prefer_zones, "the group has its rule", 60.0)
            yield self
        finally:
            for process in self._processes.values():
                process.kill()
                process.communicate()  # closes its input too

    def lines(self, *zones: str) -> Sequence[Line]:
        """Lines that the processes of zones wrote."""
        return [line for zone in zones or ZONES for line in Line.read(self._directory / f"{self.stream}-{zone}")]

    def kill(self, zone: str) -> None:
        """Kills a zone's process, as `kill -9` does."""
        self._processes[zone].kill()

    def silence(self) -> None:
        """Sends nothing more."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()

    def crossed(self) -> tuple[int, int]:
        """Bytes so far: those that crossed zones, and all."""
        newest = [[line for line in self.lines(zone) if line.kind == BYTES][-1] for zone in ZONES]
        return sum(int(line.where) for line in newest), sum(int(line.what) for line in newest)

    async def measure(self) -> float:
        """The part of bytes that crosses zones."""
        before = self.crossed()
        await asyncio.sleep(MEASURED_SECONDS)
        after = self.crossed()
        return (after[0] - before[0]) / (after[1] - before[1])

    async def near(self) -> bool:
        """Whether all leases are held in the zone of their cluster."""
        request = assigner_api.ListLeasesRequest(group=self.group)
        found = await self._mesh.service("assigner").unary("ListLeases", request, assigner_api.ListLeasesResponse)
        zones = {(each.cluster[-1], each.member_client_id[-1:]) for each in found.leases if "/live/" in each.name}
        return bool(zones) and all(cluster == member for cluster, member in zones)

    async def _prefer_zones(self) -> bool:
        request = assigner_api.SetSpreadingRequest(group=self.group, zones=rules_pb2.ZONE_RULE_PREFER)
        try:
            await self._mesh.service("assigner").unary("SetSpreading", request, group_pb2.Group)
        except braid.BraidError:
            return False
        return True

    def _start(self, zone: str) -> subprocess.Popen[bytes]:
        ledger = self._directory / f"{self.stream}-{zone}"
        command = [sys.executable, "-m", zone_member.__name__, self._endpoint, self.stream, self.group, zone]
        return subprocess.Popen([*command, str(ledger)], stdin=subprocess.PIPE)


async def kill_zone(local: DevMesh, applications: Applications) -> None:
    """Kills a zone's cluster, its application and a leader of each service at once."""
    applications.kill(LOST)
    await asyncio.gather(*(local.kill(name) for name in (f"kafka-{LOST}", "registry-0", "assigner-0")))


def pauses(lines: Sequence[Line], began: float, ended: float) -> dict[str, float]:
    """The longest time without an acknowledgement of each producer, `a-keyed` for one."""
    times: dict[str, list[float]] = {}
    for line in lines:
        if line.kind == ACKNOWLEDGED and line.at <= ended:
            times.setdefault(line.what.rpartition("-")[0], []).append(line.at)
    since = {name: [began, *(at for at in found if at >= began), ended] for name, found in times.items()}
    return {name: max(b - a for a, b in pairwise(found)) for name, found in since.items()}


async def test_three_zones_keep_their_bytes_and_outlive_one(tmp_path: Path) -> None:
    clusters = [f"kafka-{zone}" for zone in ZONES]
    async with (
        DevMesh(tmp_path / "mesh", clusters=clusters, registries=3, assigners=3, secure=False) as local,
        braid.connect(local.ready.endpoint, client_id="operator") as mesh,
    ):
        alone = stream_pb2.LaneSpec(partitions=6)
        async with Applications(local, mesh, "plain", tmp_path).running(alone, prefer=False) as plain:
            await asyncio.sleep(3.0)
            before = await plain.measure()
        zoned = stream_pb2.LaneSpec(partitions=6, spread=stream_pb2.LANE_SPREAD_ZONES, keys_by_zone=True)
        async with Applications(local, mesh, "zoned", tmp_path).running(zoned, prefer=True) as found:
            await until(found.near, "leases are in their zones", NEAR_SECONDS)
            after = await found.measure()
            print(f"cross-zone bytes: {before:.1%} plain, {after:.1%} zoned: {1 - after / before:.0%} less")
            assert after <= (1 - CUT_MIN) * before
            await outlive(local, found)


async def outlive(local: DevMesh, found: Applications) -> None:
    """The zone is killed under load; others go on, and once it is back everything has been handled."""
    began = time.monotonic()
    await kill_zone(local, found)
    await asyncio.sleep(MEASURED_SECONDS)
    ended = time.monotonic()
    others = found.lines(*(zone for zone in ZONES if zone != LOST))
    longest = pauses(others, began, ended)
    handled = {line.what: line.at for line in others if line.kind == HANDLED}
    sent = [line for line in others if line.kind == ACKNOWLEDGED and began <= line.at <= ended - PAUSE_SECONDS_MAX]
    late = max(handled.get(line.what, ended) - line.at for line in sent if line.where != f"kafka-{LOST}")
    print(
        f"longest pause of a producer {max(longest.values()):.2f} s, slowest record {late:.2f} s; {len(sent)} records"
    )
    assert len(longest) == 4 and max(longest.values()) <= PAUSE_SECONDS_MAX, longest
    assert late <= PAUSE_SECONDS_MAX
    for name in (f"kafka-{LOST}", "registry-0", "assigner-0"):
        await local.start(name)
    found.silence()

    def missing() -> set[str]:
        lines = found.lines()
        kinds = {kind: {line.what for line in lines if line.kind == kind} for kind in (ACKNOWLEDGED, HANDLED)}
        return kinds[ACKNOWLEDGED] - kinds[HANDLED]

    await until(lambda: not missing(), lambda: f"{len(missing())} records are lost", DRAIN_SECONDS)
    print(f"0 of {sum(line.kind == ACKNOWLEDGED for line in found.lines())} records lost")
