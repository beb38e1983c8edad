"""Applications under load over a mesh whose releases change, and the ledger that judges it.

The ledger does not pass through Braid: the applications' synced logs, and what the brokers' own logs hold.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import braid
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterSpec
from braid.api.registry.v1.registry_service_pb2 import (
    CloseChannelRequest,
    CloseChannelResponse,
    CreateClusterRequest,
    CreateStreamRequest,
    GetStreamRequest,
    MoveStreamRequest,
    MoveStreamResponse,
)
from braid.api.registry.v1.stream_pb2 import Channel, ChannelState, LaneSpec, Stream, StreamSpec
from braid.client.mesh import Mesh
from braid.kernel.errors import BraidError
from testbed.checkers import Checker, Violation, check
from testbed.checkers.commits import ReadableEnvelopes, TruthfulCommits
from testbed.checkers.delivery import HonestReceipts, NoPhantom, ZeroLoss
from testbed.ground.clusters import cluster_facts
from testbed.ground.fleet import Fleet
from testbed.ground.journals import Journals
from testbed.ground.load import GROUP, LANES, PARTITIONS, STREAM, TOPIC_PREFIX, fate_of
from testbed.patience import until
from tests.e2e.chaos.judging import Timed, in_order, line_facts
from tests.e2e.releases.mesh import CLUSTERS, INSTANCES, MixedMesh, mixed_mesh

APPLICATIONS: Final = ("member-0", "member-1", "producer-0", "producer-1")
STEP_SECONDS: Final = 60.0
PROGRESS: Final = 50
_DRAINING: Final = ChannelState.CHANNEL_STATE_DRAINING


@dataclass
class Mixed:
    """One run: services and applications, each of a release of its own.

    Attributes:
        mesh: The services.
        fleet: The applications.
        journals: Their logs.
        client: Of this checkout, beside them.
        steps: What was done, with the seconds it took.
        told_lost: By channel whose records a registry called lost, the release of that registry.
    """

    mesh: MixedMesh
    fleet: Fleet
    journals: Journals
    client: Mesh
    steps: list[str] = field(default_factory=list)
    told_lost: dict[str, str] = field(default_factory=dict)

    async def roll_services(self, release: str) -> None:
        """Each replica, one after the other, gets a release; work goes on in between.

        The stream moves, where it can, while one registry or assigner is of each release.
        """
        for number, instance in enumerate(self.mesh.instances):
            begun = time.monotonic()
            await self.mesh.run(instance, release)
            await self.progress(f"{instance} of {release} release")
            self.steps.append(f"{instance} -> {release}: {time.monotonic() - begun:.1f} s")
            if number in (0, 2) and len(self.mesh.brokers) > 1:
                await self.move()
        await self.drained()

    async def roll_applications(self, release: str) -> None:
        """Each application, one after the other, ends in order and begins again with a release."""
        for name in APPLICATIONS:
            await self.fleet.end(name)
            self.fleet.start(name, *self.mesh.packages(release))
            await self.progress(f"{name} of {release} release")
            self.steps.append(f"{name} -> {release}")

    async def progress(self, when: str) -> None:
        """Waits for further acknowledged and further processed records."""
        self.journals.poll()
        counts = self.journals.counts
        goals = {kind: counts[kind] + PROGRESS for kind in ("acked", "processed")}

        def reached() -> bool:
            self.journals.poll()
            return all(counts[kind] >= goal for kind, goal in goals.items())

        await until(reached, lambda: f"{goals} after {when}: {dict(counts)}, {self.mesh.ended()}", STEP_SECONDS)

    async def move(self) -> None:
        """Moves the stream to the other cluster."""
        registry = self.client.service("registry")
        source = next(line.cluster for line in reversed(self.journals.lines) if line.kind == "acked")
        (target,) = (name for name in self.mesh.brokers if name != source)
        request = MoveStreamRequest(stream=STREAM, lanes=LANES, to_cluster=target, reason="a test moves it")
        await registry.unary("MoveStream", request, MoveStreamResponse, timeout_seconds=STEP_SECONDS)
        await self.progress(f"a move to {target}")
        self.steps.append(f"moved {source} -> {target}")

    async def drained(self) -> None:
        """Waits until no channel drains; gives up what a registry says is lost, and notes its release.

        The last release calls records lost that are not. A person gives them up, as its history asks for; what this
        release calls lost is held against it.
        """

        async def look() -> bool:
            request = GetStreamRequest(name=STREAM)
            stream = await self.client.service("registry").unary("GetStream", request, Stream)
            waiting = [each for each in stream.status.channels if each.state == _DRAINING]
            for channel in waiting:
                if channel.lost:
                    await self._give_up(channel)
            return not waiting

        await until(look, "every draining channel is drained", STEP_SECONDS, poll=0.5)

    async def _give_up(self, channel: Channel) -> None:
        self.told_lost.setdefault(channel.name, self.mesh.releases[await self._leader()])
        request = CloseChannelRequest(channel=channel.name, accept_loss=channel.lost, reason="the last release erred")
        with suppress(BraidError):  # its groups have work left: later
            await self.client.service("registry").unary("CloseChannel", request, CloseChannelResponse)

    async def _leader(self) -> str:
        answer = await self.client.service("registry").unary(
            "ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse, any_replica=True
        )
        return next(each.instance for each in answer.endpoints if each.service == "registry" and each.leader)

    async def finish(self) -> list[Violation]:
        """Lets everything acknowledged be settled, ends the applications, and judges."""
        await self.fleet.end("producer")
        await until(self._settled, lambda: f"everything is settled: {dict(self.journals.counts)}", STEP_SECONDS)
        await self.fleet.end("member")
        self.journals.poll()
        facts: list[Timed] = list(line_facts(self.journals.lines))
        for name, broker in self.mesh.brokers.items():
            facts += await cluster_facts(name, broker.bootstrap, TOPIC_PREFIX, GROUP)
        checkers: list[Checker] = [
            ZeroLoss([GROUP]),
            HonestReceipts(),
            NoPhantom(),
            TruthfulCommits(),
            ReadableEnvelopes(),
        ]
        return check(checkers, in_order(facts))

    def _settled(self) -> bool:
        self.journals.poll()
        settled = {line.value for line in self.journals.lines if line.kind in ("processed", "rejected")}
        acked = (line.value for line in self.journals.lines if line.kind == "acked")
        return all(value in settled or fate_of(value) == "poison" for value in acked)


@asynccontextmanager
async def mixed(
    directory: Path, release: str, clusters: Sequence[str] = CLUSTERS, instances: Sequence[str] = INSTANCES
) -> AsyncIterator[Mixed]:
    """A mesh at work whose services and applications begin with a release, `last` or `this`."""
    logs = directory / "logs"
    logs.mkdir()
    with mixed_mesh(directory, clusters, instances) as mesh:
        for instance in instances:
            await mesh.run(instance, release)
        fleet = Fleet(logs, mesh.endpoint, room="tests.e2e.chaos")
        try:
            async with braid.connect(mesh.endpoint, client_id="rolling") as client:
                run = Mixed(mesh, fleet, Journals(logs), client)
                await _declare(run)
                for name in APPLICATIONS:
                    fleet.start(name, *mesh.packages(release))
                await run.progress("the start")
                yield run
        finally:
            fleet.close()


async def _declare(run: Mixed) -> None:
    registry = run.client.service("registry")
    for name, broker in run.mesh.brokers.items():
        made = CreateClusterRequest(name=name, spec=ClusterSpec(bootstrap=broker.bootstrap))
        await registry.unary("CreateCluster", made, Cluster, timeout_seconds=STEP_SECONDS)
    lanes = {lane: LaneSpec(partitions=count) for lane, count in PARTITIONS.items()}
    request = CreateStreamRequest(name=STREAM, spec=StreamSpec(lanes=lanes))
    await registry.unary("CreateStream", request, Stream, timeout_seconds=STEP_SECONDS)
