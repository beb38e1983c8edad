"""Everything a fault may change or observe: the mesh, the applications, their journals, the registry's view.

Every wait has a deadline, counted in the time that the machine gives, and a description. Faults follow one another by
progress, never by time.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from braid.api.assigner.v1.assigner_service_pb2 import ListLeasesRequest, ListLeasesResponse
from braid.api.assigner.v1.group_pb2 import LeaseState
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1.cluster_pb2 import ClusterHealth
from braid.api.registry.v1.registry_service_pb2 import (
    GetStreamRequest,
    ListClustersRequest,
    ListClustersResponse,
    MoveStreamRequest,
    MoveStreamResponse,
)
from braid.api.registry.v1.stream_pb2 import Channel, ChannelState, Stream
from braid.client.mesh import Mesh
from braid.kernel.errors import BraidError
from braid.kernel.offset_ranges import OffsetRanges
from devmesh.mesh import DevMesh
from testbed.checkers import facts
from testbed.checkers.delivery import within
from testbed.ground.clock_offsets import now_ms as now_ms
from testbed.ground.clusters import Timed
from testbed.ground.disks import Disk
from testbed.ground.fleet import Fleet
from testbed.ground.histories import Histories
from testbed.ground.journals import Journals, Line
from testbed.ground.load import GROUP, LANES, STREAM, TOPIC_PREFIX
from testbed.patience import Deadline

PROGRESS_SECONDS = 60.0
POLL_SECONDS = 0.05


class StuckError(AssertionError):
    """An expected condition did not hold within its deadline."""


class NotPlayedError(Exception):
    """A fault that this machine or this mesh does not allow, with the reason. It counts as not played."""


@dataclass
class Mark:
    """An entry of the timeline: which fault affected whom, from when to when (wall clock, milliseconds).

    `end_ms` is None until the fault is healed, and stays None if the run got stuck before. A fault was no `hit` if it
    was requested but its target kept working.
    """

    subject: str
    what: str
    begin_ms: int
    end_ms: int | None = None
    hit: bool = True


@dataclass
class Field:
    """The state of one run.

    Attributes:
        mesh: Real processes and fault verbs.
        fleet: The applications.
        journals: Their logs.
        client: The run's own connection.
        marks: The timeline.
        figures: Measurements in milliseconds by name.
        kills: Number of SIGKILL and SIGSTOP sent so far.
        kept: Facts about data that is no longer on its cluster.
        archived: Topics whose facts are kept: they are read nowhere else.
        given_up: Ranges given up by name, by topic, and when (wall clock, milliseconds).
        histories: The services' histories as read so far.
        no_small_disks: Why no disk can be filled; empty if one can.
    """

    mesh: DevMesh
    fleet: Fleet
    journals: Journals
    client: Mesh
    marks: list[Mark] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    kills: int = 0
    kept: list[Timed] = field(default_factory=list)
    archived: set[facts.Topic] = field(default_factory=set)
    given_up: dict[facts.Topic, tuple[int, OffsetRanges]] = field(default_factory=dict)
    histories: Histories = field(default_factory=Histories)
    no_small_disks: str = "this mesh has no small disks"

    # --- waiting

    async def until(self, done: Callable[[], bool], what: str, seconds: float = PROGRESS_SECONDS) -> None:
        """Polls the journals until a condition holds. Raises `StuckError` with its description."""
        deadline = Deadline(seconds)
        self.journals.poll()
        while not done():
            if deadline.passed:
                raise StuckError(f"not within {deadline}: {what} ({dict(self.journals.counts)})")
            await asyncio.sleep(POLL_SECONDS)
            self.journals.poll()

    async def progress(self, acked: int = 100, processed: int = 100) -> None:
        """Waits until this many more records are acknowledged and processed."""
        self.journals.poll()
        counts = self.journals.counts
        goals = {"acked": counts["acked"] + acked, "processed": counts["processed"] + processed}
        what = f"{acked} further records acknowledged, {processed} processed"
        await self.until(lambda: all(counts[kind] >= goal for kind, goal in goals.items()), what)

    async def first(self, kind: str, since_ms: int, fits: Callable[[Line], bool], what: str) -> Line:
        """The first matching line of a kind since a time."""
        found: list[Line] = []

        def look() -> bool:
            found[:] = [line for line in self.journals.recent(kind, since_ms) if fits(line)]
            return bool(found)

        await self.until(look, what)
        return min(found, key=lambda line: line.ms)

    # --- notes

    def measured(self, name: str, value_ms: float) -> None:
        """Stores a measurement."""
        self.figures.setdefault(name, []).append(value_ms)

    @contextmanager
    def marked(self, subject: str, what: str, *, hit: bool = True) -> Iterator[Mark]:
        """Adds an entry to the timeline that begins now and is healed at the end of the block; `what` may be refined
        meanwhile."""
        mark = Mark(subject, what, now_ms(), hit=hit)
        self.marks.append(mark)
        yield mark
        mark.end_ms = now_ms()

    # --- the control plane's view; None or empty while it does not answer

    async def leader(self, service: str) -> str:
        """The instance that leads a service. Raises `StuckError`."""
        return await self.next_leader(service, "")

    async def next_leader(self, service: str, former: str) -> str:
        """The next leader of a service after the former one. Raises `StuckError`."""
        found: list[str] = []

        async def look() -> bool:
            answer = await self.client.service(service).unary(
                "ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse, any_replica=True
            )
            found[:] = [each.instance for each in answer.endpoints if each.service == service and each.leader]
            return bool(found) and found[0] != former

        await self.asked(look, f"a leader of {service} other than {former or 'none'}")
        return found[0]

    def carrier(self) -> str:
        """The cluster that stored the newest acknowledged record of lane live."""
        for line in reversed(self.journals.lines):
            if line.kind == "acked" and ".live." in line.topic:
                return line.cluster
        raise StuckError("nothing was acknowledged yet")

    def other(self, cluster: str, chance: random.Random) -> str:
        """A cluster other than this one."""
        return chance.choice([name for name in self.mesh.ready.clusters if name != cluster])

    def disk(self, cluster: str) -> Disk:
        """The disk of a cluster, which must not run while the disk is changed."""
        return Disk(Path(self.mesh.ready.dir), cluster, TOPIC_PREFIX, GROUP)

    def gave_up_ms(self, line: Line) -> int | None:
        """When an acknowledged record was given up by name; None if it was not."""
        at, ranges = self.given_up.get(facts.Topic(line.cluster, line.topic), (0, ()))
        named = within(ranges, facts.Place(line.cluster, line.topic, line.partition, line.offset))
        return at if named else None

    async def healthy(self) -> None:
        """Waits until the registry judges every cluster healthy and no channel of the stream is stranded."""

        async def look() -> bool:
            answer = await self.client.service("registry").unary(
                "ListClusters", ListClustersRequest(), ListClustersResponse
            )
            well = all(each.status.health == ClusterHealth.CLUSTER_HEALTH_HEALTHY for each in answer.clusters)
            return well and not any(channel.stranded for channel in await self.channels())

        await self.asked(look, "every cluster healthy")

    async def stream(self) -> Stream:
        """The stream as its registry has it. Raises `BraidError`."""
        return await self.client.service("registry").unary("GetStream", GetStreamRequest(name=STREAM), Stream)

    async def channels(self) -> list[Channel]:
        """The stream's channels. Raises `BraidError`."""
        return list((await self.stream()).status.channels)

    async def failovers(self, seconds: float) -> int:
        """How often the stream has recently left a cluster automatically. Raises `BraidError`."""
        await self.histories.read("registry", self.client.service("registry"))
        return self.histories.failovers(STREAM, now_ms() - int(seconds * 1_000))

    async def drained(self, seconds: float) -> None:
        """Waits until no channel of the stream drains any more."""

        async def look() -> bool:
            return not any(each.state == ChannelState.CHANNEL_STATE_DRAINING for each in await self.channels())

        await self.asked(look, "every draining channel drained", seconds)

    async def owned(self, seconds: float) -> None:
        """Waits until every partition of the stream's consumable channels has a holder."""
        states = (ChannelState.CHANNEL_STATE_ACTIVE, ChannelState.CHANNEL_STATE_DRAINING)

        async def look() -> bool:
            wanted = {
                f"{channel.name}/{number}"
                for channel in await self.channels()
                if channel.state in states and channel.lane in LANES
                for number in range(channel.partitions)
            }
            request = ListLeasesRequest(group=GROUP, page_size=1_000)
            answer = await self.client.service("assigner").unary("ListLeases", request, ListLeasesResponse)
            held = {lease.name for lease in answer.leases if lease.state == LeaseState.LEASE_STATE_HELD}
            return wanted <= held

        await self.asked(look, "every partition owned", seconds)

    async def move(self, target: str, *lanes: str, partitions: int = 0, percent: float | None = None) -> None:
        """Moves lanes of the stream (by default those that are consumed). Raises `BraidError`."""
        request = MoveStreamRequest(
            stream=STREAM,
            lanes=lanes or LANES,
            to_cluster=target,
            partitions=partitions,
            percent=percent,
            reason="chaos",
        )
        await self.client.service("registry").unary("MoveStream", request, MoveStreamResponse, timeout_seconds=30.0)

    async def moved_away(self, source: str) -> None:
        """Moves everything of the stream off a cluster as an operator would, and retries until that is accepted."""
        request = MoveStreamRequest(stream=STREAM, away_from_cluster=source, reason="chaos")

        async def move() -> bool:
            registry = self.client.service("registry")
            await registry.unary("MoveStream", request, MoveStreamResponse, timeout_seconds=30.0)
            return True

        await self.asked(move, f"the stream moved off {source} by hand")

    async def asked(self, look: Callable[[], Awaitable[bool]], what: str, seconds: float = PROGRESS_SECONDS) -> None:
        """Retries a question until its condition holds, even if refused. Raises `StuckError` with the last refusal."""
        deadline = Deadline(seconds)
        while True:
            try:
                if await look():
                    return
            except BraidError as error:
                what = f"{what.partition(' [')[0]} [{error}]"
            if deadline.passed:
                raise StuckError(f"not within {deadline}: {what}")
            await asyncio.sleep(POLL_SECONDS)
            self.journals.poll()
