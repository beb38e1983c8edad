"""A supervisor over stand-ins: it starts and ends everything, restarts what crashed, and keeps the ready file true."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from braid.host.tls.paths import Tls
from braid.kernel.errors import NotFound, Refused, Unavailable
from devmesh import config, roster, supervisor
from devmesh.config import MeshConfig
from devmesh.control import ask
from devmesh.documents import MeshStatus, ProcessStatus, Ready, ready_from_json, status_from_json
from devmesh.files import MeshFiles
from devmesh.registration import Address
from devmesh.roster import Supervised
from devmesh.supervision import ProcessKind, plan
from devmesh.supervisor import Supervisor
from tests.support.sleepers import BRIEF, BROKEN, Sleeper

WAIT_SECONDS = 60.0


class NoRegistration:
    """Stands for a registry that knows everything."""

    def __init__(self, addresses: Sequence[str], tls: Tls | None) -> None:
        assert (addresses, tls) == (["127.0.0.1:7401"], None)

    async def wait_leaders(self, services: Sequence[str]) -> None:
        """Returns at once: the services lead."""

    async def tell(self, wanted: Mapping[str, Address]) -> list[str]:
        """Returns nothing to do: the registry knows the cluster."""
        assert wanted == {"east": ("127.0.0.1:19192", "a")}
        return []

    async def wait_healthy(self, names: Sequence[str]) -> None:
        """Returns at once: the clusters are healthy."""

    async def close(self) -> None:
        """Nothing is open."""


class Several(NoRegistration):
    """Knows `west` of two brokers, too."""

    async def tell(self, wanted: Mapping[str, Address]) -> list[str]:
        """Returns nothing to do: the registry knows the clusters."""
        assert wanted == {"west": ("127.0.0.1:1,127.0.0.1:2", "b"), "east": ("127.0.0.1:19192", "a")}
        return []


class Counter:
    """Counts the calls of a function."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.calls = 0

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        return self._function(*arguments)


class Mesh:
    """A supervisor on this loop over one cluster and one service, and `west` of some brokers."""

    def __init__(self, directory: Path, brokers: int = 0) -> None:
        self.files = MeshFiles(directory)
        self.cluster = Sleeper("east", directory)
        self.brokers = [Sleeper(f"west/{node}", directory) for node in range(1, brokers + 1)]
        self.service = Sleeper("registry-0", directory)
        self.said: list[str] = []
        self.ready_file = directory / "asked" / "ready.json"
        asked = MeshConfig(directory, ("east",), ready_file=self.ready_file, secure=False)
        self.supervisor = Supervisor(asked, self.said.append)
        self.running = asyncio.ensure_future(self.supervisor.run())

    def build(self, *_: object) -> dict[str, Supervised]:
        """In place of real processes."""
        brokers = {
            each.name: Supervised(ProcessKind.CLUSTER, each, f"127.0.0.1:{number}", "b", "west")
            for number, each in enumerate(self.brokers, start=1)
        }
        return {
            **brokers,
            "east": Supervised(ProcessKind.CLUSTER, self.cluster, "127.0.0.1:19192", "a", "east"),
            "registry-0": Supervised(ProcessKind.SERVICE, self.service, "127.0.0.1:7401"),
        }

    async def ready(self) -> Ready:
        """Waits for the socket, then for readiness."""
        while not self.files.socket.exists():
            assert not self.running.done(), self.running.exception()
            await asyncio.sleep(0.01)
        asking = asyncio.ensure_future(ask(self.files.socket, "ready"))
        await asyncio.wait((asking, self.running), return_when=asyncio.FIRST_COMPLETED)
        if self.running.done() and not asking.done():
            asking.cancel()
            self.running.result()  # why it ended
        return ready_from_json((await asking)["ready"])

    async def verb(self, verb: str, name: str) -> str:
        """A fault verb."""
        said: str = (await ask(self.files.socket, verb, name))["said"]
        return said

    async def status(self) -> MeshStatus:
        """How it is."""
        return status_from_json((await ask(self.files.socket, "status"))["status"])

    async def until(self, name: str, condition: Callable[[ProcessStatus], bool]) -> ProcessStatus:
        """Waits until a process looks so."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                found = next(each for each in (await self.status()).processes if each.name == name)
                if condition(found):
                    return found
                await asyncio.sleep(0.01)

    async def down(self) -> None:
        """Ends it."""
        await ask(self.files.socket, "down")
        await self.running


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits until something holds."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(directory: Path, monkeypatch: pytest.MonkeyPatch, brokers: int = 0) -> AsyncIterator[Mesh]:
    """A mesh that is starting; ended afterwards."""
    monkeypatch.setattr(roster, "find_tools", lambda *_: None)
    monkeypatch.setattr("devmesh.supervisor.Registration", Several if brokers else NoRegistration)
    monkeypatch.setattr("devmesh.config.MeshConfig.instances", lambda _: ("registry-0",))
    zones = {"east": "a", **({"west": "b"} if brokers else {})}
    monkeypatch.setattr(supervisor, "lay_out", lambda *given: replace(config.lay_out(*given), zones=zones))
    made = Mesh(directory, brokers)
    monkeypatch.setattr(roster, "build", made.build)
    yield made
    made.supervisor.end()
    with contextlib.suppress(Unavailable):
        await made.running
    assert {each.pid for each in (made.cluster, made.service, *made.brokers)} == {None}
    assert not made.files.socket.exists()
    assert not made.files.ready.exists()


@pytest.fixture
async def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mesh]:
    """A mesh that is starting."""
    async with running(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
async def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mesh]:
    """A mesh that has `west` of two brokers, too, and is ready."""
    async with running(tmp_path, monkeypatch, brokers=2) as made:
        await made.ready()
        yield made


async def test_it_starts_everything_says_so_and_ends_everything(mesh: Mesh) -> None:
    ready = await mesh.ready()
    assert (ready.endpoint, ready.store, ready.dir) == ("127.0.0.1:7401", "sqlite", str(mesh.files.directory))
    assert ready.clusters["east"].pid == mesh.cluster.pid
    assert ready_from_json(mesh.files.ready.read_text()) == ready
    assert mesh.ready_file.read_text() == mesh.files.ready.read_text()
    assert {each.state for each in (await mesh.status()).processes} == {"running"}
    assert (await mesh.status()).endpoint == "127.0.0.1:7401"
    await mesh.down()
    assert not mesh.ready_file.exists()
    assert any("everything has ended" in line for line in mesh.said)


async def test_a_service_that_crashes_comes_back(mesh: Mesh) -> None:
    before = (await mesh.ready()).clusters["east"].pid
    first = mesh.service.pid
    assert first is not None
    psutil.Process(first).kill()
    found = await mesh.until("registry-0", lambda each: each.restarts == 1 and each.state == "running")
    assert found.pid not in (None, first)
    assert mesh.cluster.pid == before


async def test_an_unchanging_mesh_is_watched_calmly_without_rewriting(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "DEV_BRISK_SECONDS", 0.0, raising=False)
    await mesh.ready()
    looks, texts = Counter(plan), Counter(Ready.to_json)
    monkeypatch.setattr(supervisor, "plan", looks)
    monkeypatch.setattr(Ready, "to_json", lambda ready: texts(ready))
    await asyncio.sleep(1.5)
    assert looks.calls <= 3
    assert texts.calls == 0


async def test_what_ends_in_a_calm_mesh_is_noticed_at_once(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "DEV_CALM_SECONDS", 10 * WAIT_SECONDS)
    with monkeypatch.context() as patched:
        patched.setattr(supervisor, "DEV_BRISK_SECONDS", 0.0)
        await mesh.ready()
        await asyncio.sleep(0.2)
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, mesh.supervisor.look)
    first = mesh.service.pid
    assert first is not None
    psutil.Process(first).kill()
    found = await mesh.until("registry-0", lambda each: each.restarts == 1 and each.state == "running")
    assert found.pid not in (None, first)
    asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)


async def test_a_cluster_that_crashes_stays_down_until_it_is_started(mesh: Mesh) -> None:
    first = (await mesh.ready()).clusters["east"].pid
    assert first is not None
    psutil.Process(first).kill()
    await mesh.until("east", lambda each: each.state == "crashed")
    await eventually(lambda: ready_from_json(mesh.ready_file.read_text()).clusters["east"].pid is None)
    assert mesh.cluster.starts == 1
    await mesh.verb("start", "east")
    assert (await mesh.until("east", lambda each: each.state == "running")).pid == mesh.cluster.pid


async def test_what_is_killed_stays_down_until_it_is_started(mesh: Mesh) -> None:
    await mesh.ready()
    await mesh.verb("kill", "registry-0")
    await mesh.until("registry-0", lambda each: each.state == "down")
    other = mesh.cluster.pid
    assert other is not None
    psutil.Process(other).kill()
    await mesh.until("east", lambda each: each.state == "crashed")  # the supervisor has looked again since
    assert mesh.service.starts == 1
    await mesh.verb("start", "registry-0")
    await mesh.until("registry-0", lambda each: each.state == "running")


async def test_pause_and_resume_show_in_the_status(mesh: Mesh) -> None:
    await mesh.ready()
    await mesh.verb("pause", "registry-0")
    await mesh.until("registry-0", lambda each: each.state == "paused")
    await mesh.verb("resume", "registry-0")
    await mesh.until("registry-0", lambda each: each.state == "running")


async def test_wrong_names_and_verbs_are_refused(mesh: Mesh) -> None:
    await mesh.ready()
    with pytest.raises(NotFound, match="no 'nosuch'") as missing:
        await mesh.verb("kill", "nosuch")
    assert "east, registry-0" in missing.value.remedy
    with pytest.raises(Refused, match="not paused"):
        await mesh.verb("resume", "east")
    assert (await mesh.status()).processes[0].state == "running"


async def test_brokers_are_named_and_break_alone(several: Mesh) -> None:
    first, second = several.brokers
    ready = ready_from_json(several.files.ready.read_text())
    assert ready.clusters["west"].bootstrap == "127.0.0.1:1,127.0.0.1:2"
    assert {name: each.pid for name, each in ready.clusters["west"].brokers.items()} == {
        "west/1": first.pid,
        "west/2": second.pid,
    }
    before = first.pid
    await several.verb("kill", "west/2")
    assert (first.pid, second.pid) == (before, None)
    await several.verb("kill", "east/1")  # a cluster of one is its first broker
    assert several.cluster.pid is None


async def test_a_cluster_verb_covers_all_brokers_not_there_yet(several: Mesh) -> None:
    first, second = several.brokers
    await several.verb("kill", "west/2")
    pid = first.pid
    assert await several.verb("kill", "west") == f"west/1 is dead (process {pid}, SIGKILL)"
    with pytest.raises(Refused, match="west/1 does not run"):
        await several.verb("stop", "west")
    said = await several.verb("start", "west")
    assert [line.partition(" ")[0] for line in said.splitlines()] == ["west/1", "west/2"]
    assert None not in (first.pid, second.pid)


async def test_a_roll_restarts_one_broker_after_the_other(several: Mesh) -> None:
    first, second = several.brokers
    pids = [first.pid, second.pid]
    assert "2 brokers, all copies in sync" in await several.verb("roll", "west")
    assert not {first.pid, second.pid} & {None, *pids}
    steps = [
        line.split(" s  ")[1].split()[:2] for line in several.said if " ended in" in line or "serves again" in line
    ]
    assert steps == [["west/1", "ended"], ["west/1", "serves"], ["west/2", "ended"], ["west/2", "serves"]]


async def test_what_cannot_be_rolled_is_refused(several: Mesh) -> None:
    with pytest.raises(Refused, match="east is not a cluster of several brokers"):
        await several.verb("roll", "east")
    await several.verb("pause", "west/2")
    with pytest.raises(Refused, match="west/2 is paused"):
        await several.verb("roll", "west")
    await several.verb("kill", "west/2")
    with pytest.raises(Refused, match="west/2 does not run"):
        await several.verb("roll", "west")
    assert several.brokers[0].starts == 1


async def test_a_service_that_cannot_start_ends_the_mesh_with_a_reason(mesh: Mesh) -> None:
    mesh.service.code = BROKEN
    with pytest.raises(Unavailable, match="the file is damaged"):
        await mesh.running
    assert mesh.service.starts == 3


async def test_a_service_that_does_not_stay_up_ends_the_start(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.service.code = BRIEF
    monkeypatch.setattr(NoRegistration, "wait_leaders", lambda *_: asyncio.sleep(WAIT_SECONDS))
    with pytest.raises(Unavailable, match="registry-0 does not stay up: registry-0: no disk"):
        await mesh.running
    assert mesh.service.starts == 3


async def test_a_start_that_hangs_names_who_is_not_ready(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmesh.processes.process.DEV_STOP_SECONDS", 0.2)
    monkeypatch.setattr("devmesh.supervisor.DEV_READY_SECONDS", 4.0)
    mesh.cluster.code = mesh.cluster.code.replace("up", "never")
    with pytest.raises(Unavailable, match=r"not ready after 4 s: east \(the logs"):
        await mesh.running


async def test_an_end_asked_for_while_it_starts_leaves_nothing(mesh: Mesh) -> None:
    mesh.cluster.code = mesh.cluster.code.replace("up", "never")
    await eventually(lambda: mesh.cluster.pid is not None)
    mesh.supervisor.end()
    await asyncio.wait_for(mesh.running, WAIT_SECONDS)
    assert mesh.cluster.pid is None


async def test_a_second_supervisor_is_refused_and_harms_nothing(mesh: Mesh) -> None:
    await mesh.ready()
    with pytest.raises(Refused, match="a mesh runs in"):
        await Supervisor(MeshConfig(mesh.files.directory), mesh.said.append).run()
    assert mesh.files.ready.exists()
    assert mesh.cluster.pid is not None


async def test_a_taken_port_is_reported_before_starting_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster, "claim_ports", lambda *_: {"registry-0": 7409})
    async with running(tmp_path, monkeypatch) as mesh:
        await mesh.ready()
        warning = "port 7401 is taken by another program: the endpoint of this mesh is 127.0.0.1:7409"
        assert mesh.said[1] == f"WARNING: {warning}"
        assert f"  WARNING     {warning}" in mesh.said[-1].splitlines()
