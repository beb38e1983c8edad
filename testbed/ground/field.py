"""Everything a fault may touch or look at: the mesh, the applications, their journals, the registry's own view.

Every wait has a deadline, counted as the machine gives time, and says what it waited for; faults follow one another by
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
    """Something that had to happen did not, within its deadline."""


class NotPlayedError(Exception):
    """A fault that this machine or this mesh does not allow; says why. It counts as not played."""


@dataclass
class Mark:
    """Something of the timeline: what was done to whom, from when to when (wall clock, milliseconds).

    `end_ms` is None until it is healed, and stays None where the run got stuck before that. What was only asked of a
    subject that worked on was no `hit`.
    """

    subject: str
    what: str
    begin_ms: int
    end_ms: int | None = None
    hit: bool = True


@dataclass
class Field:
    """Of one run.

    Attributes:
        mesh: Real processes and fault verbs.
        fleet: The applications.
        journals: What they logged.
        client: A connection of the run's own.
        marks: The timeline.
        figures: Measurements in milliseconds by name.
        kills: SIGKILL and SIGSTOP sent so far.
        kept: Facts of what has left its cluster by now.
        archived: Topics whose facts are kept: they are read nowhere else.
        given_up: Topics' ranges that were given up by name, and when (wall clock, milliseconds).
        histories: What the services have told of theirs.
        no_small_disks: Why no disk can be filled; empty where they can.
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
        """Polls the journals until something is so. Raises `StuckError` naming it."""
        deadline = Deadline(seconds)
        self.journals.poll()
        while not done():
            if deadline.passed:
                raise StuckError(f"not within {deadline}: {what} ({dict(self.journals.counts)})")
            await asyncio.sleep(POLL_SECONDS)
            self.journals.poll()

    async def progress(self, acked: int = 100, processed: int = 100) -> None:
        """Waits for so many further acknowledged and processed records."""
        self.journals.poll()
        counts = self.journals.counts
        goals = {"acked": counts["acked"] + acked, "processed": counts["processed"] + processed}
        what = f"{acked} further records acknowledged, {processed} processed"
        await self.until(lambda: all(counts[kind] >= goal for kind, goal in goals.items()), what)

    async def first(self, kind: str, since_ms: int, fits: Callable[[Line], bool], what: str) -> Line:
        """The first line of a kind since a time that fits."""
        found: list[Line] = []

        def look() -> bool:
            found[:] = [line for line in self.journals.recent(kind, since_ms) if fits(line)]
            return bool(found)

        await self.until(look, what)
        return min(found, key=lambda line: line.ms)

    # --- notes

    def measured(self, name: str, value_ms: float) -> None:
        """Keeps a measurement."""
        self.figures.setdefault(name, []).append(value_ms)

    @contextmanager
    def marked(self, subject: str, what: str, *, hit: bool = True) -> Iterator[Mark]:
        """Adds to the timeline what begins now and is healed with the block; `what` may be told better meanwhile."""
        mark = Mark(subject, what, now_ms(), hit=hit)
        self.marks.append(mark)
        yield mark
        mark.end_ms = now_ms()

    # --- the control plane's view; None or empty while it does not answer

    async def leader(self, service: str) -> str:
        """The instance that leads a service. Raises `StuckError`."""
        return await self.next_leader(service, "")

    async def next_leader(self, service: str, former: str) -> str:
        """The instance that leads a service once the former one does not. Raises `StuckError`."""
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
        """The cluster that took the newest acknowledged record of lane live."""
        for line in reversed(self.journals.lines):
            if line.kind == "acked" and ".live." in line.topic:
                return line.cluster
        raise StuckError("nothing was acknowledged yet")

    def other(self, cluster: str, chance: random.Random) -> str:
        """A cluster that is not this one."""
        return chance.choice([name for name in self.mesh.ready.clusters if name != cluster])

    def disk(self, cluster: str) -> Disk:
        """The disk of a cluster, which must not run while it is tampered with."""
        return Disk(Path(self.mesh.ready.dir), cluster, TOPIC_PREFIX, GROUP)

    def gave_up_ms(self, line: Line) -> int | None:
        """When a record that was acknowledged was given up by name; None when it was not."""
        at, ranges = self.given_up.get(facts.Topic(line.cluster, line.topic), (0, ()))
        named = within(ranges, facts.Place(line.cluster, line.topic, line.partition, line.offset))
        return at if named else None

    async def healthy(self) -> None:
        """Waits until the registry finds every cluster healthy and nothing of the stream stranded."""

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
        """How often the stream has left a cluster by itself lately. Raises `BraidError`."""
        await self.histories.read("registry", self.client.service("registry"))
        return self.histories.failovers(STREAM, now_ms() - int(seconds * 1_000))

    async def drained(self, seconds: float) -> None:
        """Waits until no channel of the stream drains any more."""

        async def look() -> bool:
            return not any(each.state == ChannelState.CHANNEL_STATE_DRAINING for each in await self.channels())

        await self.asked(look, "every draining channel drained", seconds)

    async def owned(self, seconds: float) -> None:
        """Waits until every partition of the stream's consumable channels is held."""
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
        """Moves lanes of the stream (where none is named, those that are consumed). Raises `BraidError`."""
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
        """A person moves everything of the stream off a cluster, again and again until that is accepted."""
        request = MoveStreamRequest(stream=STREAM, away_from_cluster=source, reason="chaos")

        async def move() -> bool:
            registry = self.client.service("registry")
            await registry.unary("MoveStream", request, MoveStreamResponse, timeout_seconds=30.0)
            return True

        await self.asked(move, f"the stream moved off {source} by hand")

    async def asked(self, look: Callable[[], Awaitable[bool]], what: str, seconds: float = PROGRESS_SECONDS) -> None:
        """Asks until something is so, refusals included. Raises `StuckError` naming it, and the last refusal."""
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
