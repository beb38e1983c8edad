"""`braid drill` on a real mesh: verdicts, nothing left behind however it ends, and no word of it to anybody else."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import pytest

import braid
from braid.api.assigner.v1.assigner_service_pb2 import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListMembersRequest,
    ListMembersResponse,
)
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.cluster_pb2 import HEALTH_VERDICT_PRODUCERS_CUT_OFF
from braid.api.registry.v1.events_pb2 import RegistryEvent
from braid.api.registry.v1.registry_service_pb2 import (
    ListChannelsRequest,
    ListChannelsResponse,
    ListStreamsRequest,
    ListStreamsResponse,
)
from braid.host.tls.paths import environment_of
from braid.kernel.limits.registry.drill import DRILL_YOUNG_SECONDS
from testbed.mesh import running_mesh
from testbed.patience import until

BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
HANG_SECONDS: Final = 300.0  # by the wall: it ends what hangs, and judges nothing
LOAD_PAUSE_SECONDS: Final = 0.02

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a mesh with a stream `logs`; the environment names its user's certificate meanwhile."""
    with (
        running_mesh(tmp_path_factory.mktemp("drill") / ".braid", assigners=1, registries=1, secure=True) as mesh,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in environment_of(mesh.tls).items():
            environment.setenv(name, value)
        asyncio.run(run(mesh.ready.endpoint, "create stream logs --lane live=2"))
        yield mesh.ready.endpoint


async def started(endpoint: str, line: str) -> asyncio.subprocess.Process:
    """A command line that runs; nobody sits at a terminal."""
    other = {name for name in os.environ if name.startswith("BRAID_") and not name.startswith("BRAID_TLS_")}
    environment = {name: value for name, value in os.environ.items() if name not in other}
    return await asyncio.create_subprocess_exec(
        *BRAID,
        *line.split(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "BRAID_ENDPOINT": endpoint},
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    """Its exit code, and what it printed and said."""
    async with asyncio.timeout(HANG_SECONDS):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def run(endpoint: str, line: str, code: int = 0) -> str:
    """Runs a command line, which must end with this code; returns its output."""
    ends, out, err = await ended(await started(endpoint, line))
    assert ends == code, f"braid {line}: {ends}\n{out}\n{err}"
    return out


async def drill(endpoint: str, line: str) -> dict[str, Any]:
    """The verdict of a drill that passes."""
    told: dict[str, Any] = json.loads(await run(endpoint, f"drill {line} --stream logs --yes -o json"))
    return told


class Seen:
    """The mesh's state, read from its services directly: a command line takes two seconds to start."""

    def __init__(self, mesh: braid.Mesh) -> None:
        self._registry, self._assigner = mesh.service("registry"), mesh.service("assigner")

    async def streams(self) -> set[str]:
        """Names of all streams."""
        answer = await self._registry.unary("ListStreams", ListStreamsRequest(), ListStreamsResponse)
        return {each.name for each in answer.streams}

    async def channels(self) -> set[str]:
        """Streams that have topics, deleted ones too."""
        answer = await self._registry.unary("ListChannels", ListChannelsRequest(), ListChannelsResponse)
        return {each.stream for each in answer.channels}

    async def groups(self) -> set[str]:
        """Names of all groups."""
        answer = await self._assigner.unary("ListGroups", ListGroupsRequest(), ListGroupsResponse)
        return {each.name for each in answer.groups}

    async def members(self, group: str) -> int:
        """How many a group has."""
        request = ListMembersRequest(group=group)
        return len((await self._assigner.unary("ListMembers", request, ListMembersResponse)).members)

    async def events(self, history: str) -> list[tuple[str, RegistryEvent]]:
        """A history's events, with their types."""
        request = ListEventsRequest(history=history, page_size=1_000)
        answer = await self._registry.unary("ListEvents", request, ListEventsResponse)
        return [(each.type, RegistryEvent.FromString(each.data)) for each in answer.events]


@contextlib.asynccontextmanager
async def seen(endpoint: str) -> AsyncIterator[Seen]:
    """A look at the mesh."""
    async with braid.connect(endpoint, client_id="onlooker") as mesh:
        yield Seen(mesh)


@contextlib.asynccontextmanager
async def under_load(endpoint: str) -> AsyncIterator[list[str]]:
    """Records go to stream `logs` meanwhile: the clusters that acknowledged them, in order."""
    carriers: list[str] = []

    async def send(producer: braid.Producer) -> None:
        while True:
            carriers.append((await producer.send(b"of an application")).cluster)
            await asyncio.sleep(LOAD_PAUSE_SECONDS)

    async with braid.connect(endpoint, client_id="application") as mesh, mesh.producer("logs") as producer:
        sending = asyncio.ensure_future(send(producer))
        try:
            yield carriers
        finally:
            sending.cancel()
            await asyncio.wait([sending])
    assert carriers
    assert sending.cancelled(), sending.exception()


async def check_untouched(endpoint: str, carriers: Sequence[str]) -> None:
    """The application's stream stayed where it was, no client made anybody doubt a cluster, and no drill is left.

    A cluster that is short of time may fail the look of the registry itself. Reports of clients have their own verdict.
    """
    assert len({*carriers}) == 1, "an application's records moved"
    async with seen(endpoint) as mesh:
        for cluster in ("east", "west"):
            found = await mesh.events(f"cluster/{cluster}")
            assert "ClusterRegistered" in dict(found)
            judged = [event.cluster_health_changed for name, event in found if name == "ClusterHealthChanged"]
            assert not [each for each in judged if each.verdict == HEALTH_VERDICT_PRODUCERS_CUT_OFF]
        moved = [event.traffic_moved for name, event in await mesh.events("stream/logs") if name == "TrafficMoved"]
        assert moved
        assert not any(each.draining for each in moved)
    await until_nothing_is_left(endpoint)


async def until_nothing_is_left(endpoint: str) -> None:
    async with seen(endpoint) as mesh:
        assert await mesh.streams() == {"logs"}
        assert await mesh.groups() == set()

        async def clean() -> bool:
            return await mesh.channels() == {"logs"}

        await until(clean, "the topics of drills are gone", 60.0)


async def check_history(endpoint: str, told: dict[str, Any]) -> None:
    """The drill's history says who played what, and how it ended."""
    async with seen(endpoint) as mesh:
        history = dict(await mesh.events(f"stream/{told['drillStream']}"))
    assert history["DrillBegan"].drill_began.drill.stream == "logs"
    assert history["DrillBegan"].metadata.actor
    over = history["DrillEnded"].drill_ended
    assert over.passed is told["passed"]
    assert f"{told['records']['acknowledged']} acknowledged, 0 lost" in over.verdict


def test_a_move_and_a_lost_cluster_beside_an_application(endpoint: str) -> None:
    """Both at once, each with a stream of its own."""

    async def play() -> None:
        async with under_load(endpoint) as carriers:
            moved, lost = await asyncio.gather(
                drill(endpoint, "move --for 3s"), drill(endpoint, "cluster-loss --for 3s")
            )
        for told in (moved, lost):
            assert told["passed"], told
            assert told["records"]["lost"] == 0
            assert told["records"]["acknowledged"] > 100
            assert told["firstAckElsewhereMs"] > 0
            assert told["drainedMs"] >= 0
            await check_history(endpoint, told)
        assert lost["firstAckElsewhereMs"] > 1_000, "the loss was noticed before it could be"
        assert any("not broken" in each for each in lost["simulated"])
        await check_untouched(endpoint, carriers)

    asyncio.run(play())


@pytest.mark.extended
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_drill_that_is_interrupted_removes_what_it_made(endpoint: str, end: signal.Signals) -> None:
    async def play() -> None:
        process = await under_way(endpoint)
        process.send_signal(end)
        code, _, err = await ended(process)
        assert code == 130, err
        await until_nothing_is_left(endpoint)

    asyncio.run(play())


@pytest.mark.extended
def test_what_a_killed_drill_leaves_is_removed(endpoint: str) -> None:
    """Its processes end by themselves; then `braid drill clean` finds its stream by the mark."""

    async def play() -> None:
        process = await under_way(endpoint)
        process.kill()
        await process.wait()
        async with seen(endpoint) as mesh:
            (left,) = await mesh.streams() - {"logs"}

            async def cleaned() -> bool:
                await run(endpoint, "drill clean --yes")
                return await mesh.streams() == {"logs"}

            await until(cleaned, "the killed drill is removed", 60.0)
            assert "DrillEnded" in dict(await mesh.events(f"stream/{left}"))
        await until_nothing_is_left(endpoint)

    asyncio.run(play())


@pytest.mark.extended
def test_the_next_drill_removes_what_a_killed_one_left(endpoint: str) -> None:
    async def play() -> None:
        process = await under_way(endpoint)
        process.kill()
        await process.wait()
        async with seen(endpoint) as mesh:
            (left,) = await mesh.streams() - {"logs"}
            (group,) = await mesh.groups()

            async def abandoned() -> bool:
                return await mesh.members(group) == 0

            await until(abandoned, "the killed drill's processes have ended", 60.0)
            await asyncio.sleep(DRILL_YOUNG_SECONDS)  # until then it may only be starting
            told = await drill(endpoint, "move --for 3s")
            assert told["passed"], told
            assert await mesh.streams() == {"logs"}
            assert "DrillEnded" in dict(await mesh.events(f"stream/{left}"))
        await until_nothing_is_left(endpoint)

    asyncio.run(play())


async def under_way(endpoint: str) -> asyncio.subprocess.Process:
    """A drill in which the cluster is refused already."""
    process = await started(endpoint, "drill cluster-loss --stream logs --for 3s --yes")
    assert process.stderr is not None
    async with asyncio.timeout(HANG_SECONDS):
        while b"refusing" not in (line := await process.stderr.readline()):
            assert line, "it ended early"
    return process


@pytest.mark.extended
def test_a_lost_member(endpoint: str) -> None:
    async def play() -> None:
        async with under_load(endpoint) as carriers:
            told = await drill(endpoint, "member-loss --for 6s")
        assert told["passed"], told
        assert told["takeoverMs"] > 0
        await check_history(endpoint, told)
        await check_untouched(endpoint, carriers)

    asyncio.run(play())
