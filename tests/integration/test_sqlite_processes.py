"""Real processes on one SQLite store: conflicts, a leader killed with -9, one stopped inside a transaction."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from braid.host.inotify import Inotify
from braid.host.system import system_host
from braid.kernel.errors import Fenced, StoreUnavailable
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.kernel.ports import Endpoint, HistoryId, Leader, Session
from braid.stores.sqlite import SqliteStore
from testbed.patience import in_time, until
from tests.contract.event_store.harness import check_batches, take
from tests.support.freezer import Freezer

pytestmark = pytest.mark.untimed

ROOT = Path(__file__).parents[2]
LOGS = HistoryId("registry", "stream", "logs")
MINE = HistoryId("assigner", "group", "mine")
HANGS_SECONDS = 400.0  # by the wall
PAUSED_TTL_SECONDS = 4.0  # the process must lead and append within it, however little of its time it gets


class Worker:
    """A process that runs `tests.support.sqlite_worker`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, beginning: str) -> str:
        """Waits for the next line, which must begin so."""
        stdout = self._process.stdout
        assert stdout is not None
        line = (await in_time(stdout.readline(), f"a line that begins with {beginning}")).decode().rstrip()
        assert line.startswith(beginning), f"it said {line!r} instead of {beginning!r}"
        return line

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        return await in_time(self._process.wait(), "it ends")

    async def stopped(self) -> None:
        """Waits until it is stopped."""
        await until(self._is_stopped, "it is stopped")

    async def _is_stopped(self) -> bool:
        text = await asyncio.to_thread(Path(f"/proc/{self._process.pid}/stat").read_text, encoding="ascii")
        return text.rpartition(")")[2].split()[0] == "T"

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class Mesh:
    """One store, the test's own client of it, and workers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(path, system_host())
        self._workers: list[Worker] = []

    async def worker(self, what: str, **options: object) -> Worker:
        arguments = [f"--{name}={value}" for name, value in options.items()]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.sqlite_worker", what, str(self.path), *arguments),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        self._workers.append(Worker(process))
        return self._workers[-1]

    async def lead(self, service: str) -> tuple[Leader, Session]:
        session = await self.store.open_session(SESSION_TTL_SECONDS)
        return await self.store.campaign(Endpoint(service, "test", "test:1"), session), session

    async def close(self) -> None:
        for worker in self._workers:
            await worker.end()
        await self.store.close()


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    made = Mesh(tmp_path / "store.db")
    yield made
    await made.close()


async def test_processes_that_conflict_lose_and_double_nothing(mesh: Mesh) -> None:
    leader, _ = await mesh.lead("registry")
    watching = mesh.store.watch("registry", 0)
    names = [f"w{number}" for number in range(4)]
    fence = leader.fence.revision
    workers = [await mesh.worker("append", name=name, fence=fence, count=100) for name in names]
    batches = await in_time(take(watching, 400, HANGS_SECONDS), "400 batches", 60.0)
    conflicts = [int((await worker.says("done")).split()[1]) for worker in workers]
    loaded = await mesh.store.load(LOGS)
    events = [event.decode() for event in loaded.events]
    assert loaded.sequence == 400
    for name in names:
        assert [event for event in events if event.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(100)]
    check_batches(batches)
    assert [event for batch in batches for event in batch.events] == list(loaded.events)
    assert sum(conflicts) > 0, "the processes never met, so this shows nothing"


async def test_a_leader_killed_with_9_is_replaced_without_session_wait(mesh: Mesh) -> None:
    doomed = await mesh.worker("lead", name="doomed", ttl=600.0)
    await doomed.says("campaigning")
    fence = int((await doomed.says("leading")).split()[1])
    await doomed.says("appended")
    heir = await mesh.worker("lead", name="heir", ttl=600.0)
    await heir.says("campaigning")
    doomed.signal(signal.SIGKILL)
    await heir.says("leading")
    await heir.says("appended")
    assert [event.decode() for event in (await mesh.store.load(LOGS)).events] == ["doomed", "heir"]
    assert [endpoint.instance for endpoint in await mesh.store.directory()] == ["heir"]
    assert await doomed.ended() == -signal.SIGKILL
    leader = await mesh.store.leader("registry")
    assert leader is not None
    assert leader.fence.revision > fence


@pytest.fixture(params=["told by the kernel", "refused by it"])
def unasked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches and candidates never look unasked; where the kernel refuses to tell, the file's stamp is polled."""
    for module in ("sqlite", "sqlite_news"):
        monkeypatch.setattr(f"braid.stores.{module}.SQLITE_LOOK_SECONDS", 3600.0)
    if request.param == "refused by it":
        monkeypatch.setattr("braid.stores.sqlite_news.Inotify", _refused)


def _refused() -> Inotify:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.usefixtures("unasked")
async def test_commits_of_other_processes_wake_a_watch(mesh: Mesh) -> None:
    leader, _ = await mesh.lead("registry")
    watching = mesh.store.watch("registry", 0)
    for number in range(1, 3):
        news = asyncio.ensure_future(take(watching, 1, HANGS_SECONDS))
        worker = await mesh.worker("append", name=f"w{number}", fence=leader.fence.revision, count=1)
        (batch,) = await in_time(news, "it hears of an append", 60.0)
        assert batch.events == (f"w{number}-0".encode(),)
        await worker.says("done")


@pytest.mark.usefixtures("unasked")
async def test_a_leader_killed_with_9_wakes_who_waits_to_lead(mesh: Mesh) -> None:
    doomed = await mesh.worker("lead", name="doomed", ttl=600.0)
    for line in ("campaigning", "leading", "appended"):
        await doomed.says(line)
    heir = asyncio.ensure_future(mesh.lead("registry"))
    await until(lambda: len(_exit_descriptors()) == 1, "it listens for the leader's end")
    await asyncio.sleep(0.3)  # it hears of its own session, too
    assert not heir.done()
    doomed.signal(signal.SIGKILL)
    leader, _ = await in_time(heir, "it leads", 60.0)
    assert leader.endpoint.instance == "test"
    assert _exit_descriptors() == []


def _exit_descriptors() -> list[str]:
    """Descriptors of this process by which the kernel tells of another's end."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return [each for each in found if "pidfd" in each]


async def test_ending_a_process_stopped_in_a_transaction_costs_nobody(mesh: Mesh) -> None:
    leader, session = await mesh.lead("assigner")
    losing = asyncio.ensure_future(session.lost())
    stopped = await mesh.worker("stop-inside", name="stopped")
    await stopped.says("campaigning")
    await stopped.says("leading")
    await stopped.says("stopping inside")
    await stopped.stopped()
    begun = asyncio.get_running_loop().time()
    await mesh.store.append(MINE, [b"mine"], 0, leader.fence)
    assert asyncio.get_running_loop().time() - begun < SESSION_TTL_SECONDS
    assert await stopped.ended() == -signal.SIGKILL
    assert (await mesh.store.load(LOGS)).sequence == 0, "half a transaction shows"
    taken, _ = await in_time(mesh.lead("registry"), "another leads", 10.0)
    await mesh.store.append(LOGS, [b"after"], 0, taken.fence)
    await asyncio.sleep(SESSION_TTL_SECONDS)
    assert not losing.done()
    losing.cancel()


async def test_ending_a_process_frozen_in_a_transaction_costs_nobody(mesh: Mesh) -> None:
    """By a cgroup: its state says nothing of it. Where none can be made the unit tests of recorded ones have to do."""
    freezer = Freezer.made(f"braid-frozen-{os.getpid()}")
    if freezer is None or not freezer.kills:
        return
    leader, session = await mesh.lead("assigner")
    losing = asyncio.ensure_future(session.lost())
    frozen = await mesh.worker("wait-inside", name="frozen")
    try:
        await frozen.says("campaigning")
        await frozen.says("leading")
        await frozen.says("waiting inside")
        freezer.take(frozen.pid)
        freezer.freeze()
        begun = asyncio.get_running_loop().time()
        await mesh.store.append(MINE, [b"mine"], 0, leader.fence)
        print(f"the lock was free after {asyncio.get_running_loop().time() - begun:.2f} s")
        assert asyncio.get_running_loop().time() - begun < SESSION_TTL_SECONDS
        assert await frozen.ended() == -signal.SIGKILL
        assert (await mesh.store.load(LOGS)).sequence == 0, "half a transaction shows"
        assert not losing.done()
        losing.cancel()
    finally:
        freezer.thaw()
        await frozen.end()
        freezer.remove()


async def test_a_leader_stopped_outside_a_transaction_is_only_fenced(mesh: Mesh) -> None:
    paused = await mesh.worker("lead", name="paused", ttl=PAUSED_TTL_SECONDS)
    await paused.says("campaigning")
    fence = int((await paused.says("leading")).split()[1])
    await paused.says("appended")
    paused.signal(signal.SIGSTOP)
    leader, _ = await in_time(mesh.lead("registry"), "another leads")
    await mesh.store.append(LOGS, [b"after"], 1, leader.fence)
    paused.signal(signal.SIGCONT)
    await paused.says("lost")
    assert await paused.ended() == 0
    assert leader.fence.revision > fence
    with pytest.raises(Fenced):
        await mesh.store.append(LOGS, [b"stale"], 2, type(leader.fence)("registry", fence))


async def test_a_stranger_that_holds_the_lock_is_named_but_never_ended(mesh: Mesh) -> None:
    leader, _ = await mesh.lead("assigner")
    stranger = await mesh.worker("hold")
    await stranger.says("stopping inside")
    await stranger.stopped()
    with pytest.raises(StoreUnavailable, match="locked by process"):
        await mesh.store.append(MINE, [b"mine"], 0, leader.fence)
    stranger.signal(signal.SIGCONT)
    await stranger.says("released")
    assert await stranger.ended() == 0
