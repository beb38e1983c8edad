"""Applications of one stream in several zones: a process in each, which can be killed, and the ledgers they write."""

import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from testbed.checkers.zone_ledgers import missing
from testbed.members import zone_member
from testbed.members.zone_member import ACKNOWLEDGED, Line
from testbed.patience import Deadline, until

ZONES: Final = ("a", "b", "c")
CLUSTERS: Final = tuple(f"kafka-{zone}" for zone in ZONES)
WORKS_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 120.0


class ZonedApplications:
    """A process in each zone, on one stream."""

    def __init__(self, mesh: braid.Mesh, endpoint: str, stream: str, directory: Path) -> None:
        self.stream = stream
        self.group = f"{stream}-readers"
        self._endpoint = endpoint
        self._mesh = mesh
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @contextlib.asynccontextmanager
    async def running(self, lane: stream_pb2.LaneSpec, *, prefer: bool) -> AsyncIterator[Self]:
        """Creates the stream and runs the processes, the last zone's first: the group's rule is set then."""
        spec = stream_pb2.StreamSpec(lanes={"live": lane}, clusters=CLUSTERS, replication_factor=1)
        request = api.CreateStreamRequest(name=self.stream, spec=spec)
        await self._mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
        try:
            for zone in reversed(ZONES):
                self._processes[zone] = self._start(zone)
                await until(partial(self.lines, zone), f"the process of {zone} works", WORKS_SECONDS)
                if prefer and zone == ZONES[-1]:
                    await until(self._prefer_zones, "the group has its rule", WORKS_SECONDS)
            yield self
        finally:
            for process in self._processes.values():
                process.kill()
                process.communicate()  # closes its input too

    def lines(self, *zones: str) -> Sequence[Line]:
        """Returns the lines that the processes of zones wrote, or those of all."""
        return [line for zone in zones or ZONES for line in Line.read(self._directory / f"{self.stream}-{zone}")]

    def carrier(self) -> str:
        """Returns the cluster that acknowledged the newest record."""
        return max((line for line in self.lines() if line.kind == ACKNOWLEDGED), key=lambda line: line.at).where

    def kill(self, zone: str) -> None:
        """Kills a zone's process, as `kill -9` does."""
        self._processes[zone].kill()

    def silence(self) -> None:
        """Sends nothing more."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()

    async def drain(self) -> None:
        """Waits until every acknowledged record was handled; after a bound, what is left counts as lost."""
        given = Deadline(DRAIN_SECONDS)
        await until(lambda: given.passed or not missing(self.lines()), "ends by itself", 2 * DRAIN_SECONDS, poll=0.5)

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
