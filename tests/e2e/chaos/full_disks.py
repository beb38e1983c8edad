"""A disk that is full: under the broker that carries the stream, the event store, or the index of dead letters.

Each of them has a small disk of its own, a tmpfs. Filling it takes a file of ballast, healing it takes its removal.
Mounting needs a privilege; where it is missing the faults are not played, and say so.
"""

import asyncio
import random
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from braid.api.dlq.v1.dlq_service_pb2 import (
    CreateReplayRequest,
    CreateReplayResponse,
    ListDeadLettersRequest,
    ListDeadLettersResponse,
)
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.registry_service_pb2 import GetClusterRequest, UpdateClusterRequest
from braid.kernel.errors import BraidError
from devmesh.blueprint import broker_names
from devmesh.files import MeshFiles
from devmesh.supervision import ProcessKind
from testbed.ground.field import POLL_SECONDS, Field, NotPlayedError, StuckError, now_ms
from testbed.ground.load import CLUSTERS, LARGE, STREAM, fate_of
from testbed.patience import Deadline
from testbed.small_disks import small_disk
from tests.e2e.chaos.broker_faults import carrying
from tests.e2e.chaos.faults import arrived, left_behind
from tests.e2e.chaos.store_faults import decides
from tests.support.kafka_operator import operating

BALLAST: Final = "ballast"
INDEX: Final = "dlq-0"  # the replica whose index has a disk of its own
LETTERS: Final = 3  # that are to be written and cannot be indexed
REFUSED_SECONDS: Final = 30.0
CALL_SECONDS: Final = 5.0
CAPACITY: Final = 1_000  # of a cluster, in partitions: far beyond what a run uses
_MEBI: Final = 1 << 20
_BROKER_MEBI: Final = 1_024  # enough for an hour of decks
_OWN_MEBI: Final = 256  # of the store's disk, and of the index's; every restore leaves a copy of the store there


@contextmanager
def small_disks(directory: Path, brokers: int = 1, *, store_too: bool = True) -> Iterator[str]:
    """Mounts all small disks, for `brokers` of each large cluster; gives the reason why not, or nothing.

    Without `store_too` the store has none: each member of etcd takes 128 MiB for its log before it writes anything.
    """
    files = MeshFiles(directory)
    nodes = {name: broker_names(name, brokers if name in LARGE else 1) for name in CLUSTERS}
    sizes = {files.cluster(broker): _BROKER_MEBI for names in nodes.values() for broker in names}
    sizes |= {path: _OWN_MEBI for path in (_index(files), *((files.database.parent,) if store_too else ()))}
    with ExitStack() as stack:
        try:
            for path, mebi in sizes.items():
                stack.enter_context(small_disk(path, mebi))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            yield f"no small disk can be mounted here: {said.strip()}"
            return
        yield ""


async def of_broker(field: Field, chance: random.Random) -> None:
    """Fills the disk of the cluster that carries the stream: the broker ends, the stream leaves, and it comes back."""
    await field.healthy()
    name = field.carrier()
    disk = _disk(field, MeshFiles(Path(field.mesh.ready.dir)).cluster(name))
    with field.marked(name, "disk full") as mark:
        with full(disk):
            await left_behind(field, name)
            await arrived(field, name, mark.begin_ms)
            await field.progress()
        with suppress(BraidError):  # it ended by itself, as Kafka does without a disk
            await field.mesh.kill(name)
        field.kills += 1
        await field.mesh.start(name)
    await field.healthy()
    await field.progress()


async def of_one_broker(field: Field, chance: random.Random) -> None:
    """Fills the disk of a broker that leads a partition: it ends, its peers go on, and it catches up."""
    cluster, topic = await carrying(field, chance)
    async with operating(field.mesh.ready.clusters[cluster].bootstrap) as operator:
        name = f"{cluster}/{await operator.leader(topic)}"
        disk = _disk(field, MeshFiles(Path(field.mesh.ready.dir)).cluster(name))
        with field.marked(name, "disk full"):
            with full(disk):
                await field.asked(lambda: _ended(field, name), f"{name} ends")
                await field.progress()
            field.kills += 1
            await field.mesh.start(name)
        await operator.whole(topic)
    await field.progress()


async def of_store(field: Field, chance: random.Random) -> None:
    """Fills the disk of the event store: producers go on, decisions are refused; with room, decisions go on."""
    await field.healthy()
    database = MeshFiles(Path(field.mesh.ready.dir)).database
    disk, before = _disk(field, database.parent), await processes(field)
    with field.marked("store", "disk full", hit=False):
        _write_back(database)
        with full(disk):
            await refused(lambda: _decide(field), f"disk of the store {database}")
            await field.progress(processed=0)  # members' leases may end: acknowledgements must not
        begun = now_ms()
        await decides(field)
        await field.asked(lambda: _decided(field), "a decision")
        field.measured("store_has_room_to_decision_ms", now_ms() - begun)
    await same_processes(field, before)
    await field.progress()


async def of_index(field: Field, chance: random.Random) -> None:
    """Fills the disk of the index of dead letters: it says that it is behind, replays are refused, all else goes on."""
    files, before = MeshFiles(Path(field.mesh.ready.dir)), await processes(field)
    disk = _disk(field, _index(files))
    with field.marked(INDEX, "disk full", hit=False):
        await field.asked(lambda: _indexed(field), "all dead letters indexed")
        for index in disk.glob("*.db"):
            _write_back(index)
        with full(disk):
            await _letters_written(field)
            await refused(lambda: _replay(field), f"disk of the index {disk}")
            await field.progress()
        begun = now_ms()
        await field.asked(lambda: _indexed(field), "all dead letters indexed once there is room")
        field.measured("index_has_room_to_indexed_ms", now_ms() - begun)
    await same_processes(field, before)
    await field.progress()


def _index(files: MeshFiles) -> Path:
    return files.service(INDEX) / "index"


async def refused(ask: Callable[[], Awaitable[None]], reason: str) -> None:
    """Asks until the answer is a refusal that names the reason. Raises `StuckError` when none does."""
    deadline, last = Deadline(REFUSED_SECONDS), "it was done each time"
    while not deadline.passed:
        try:
            await ask()
        except BraidError as error:
            last = str(error)
            if reason in last:
                return
        await asyncio.sleep(POLL_SECONDS)
    raise StuckError(f"nothing was refused for the {reason}: {last}")


async def _decide(field: Field) -> None:
    """Asks the registry for something that it has to write down, and that changes nothing for anybody."""
    registry, name = field.client.service("registry"), CLUSTERS[0]
    known = await registry.unary("GetCluster", GetClusterRequest(name=name), Cluster, timeout_seconds=CALL_SECONDS)
    known.spec.capacity = CAPACITY if known.spec.capacity != CAPACITY else CAPACITY + 1
    request = UpdateClusterRequest(name=name, spec=known.spec)
    await registry.unary("UpdateCluster", request, Cluster, timeout_seconds=CALL_SECONDS)


async def _decided(field: Field) -> bool:
    await _decide(field)
    return True


async def _replay(field: Field) -> None:
    """Asks what a replay would be about: it would leave out what is not indexed."""
    request = CreateReplayRequest(spec=ReplaySpec(stream=STREAM), dry_run=True)
    await field.client.service("dlq").unary("CreateReplay", request, CreateReplayResponse, timeout_seconds=CALL_SECONDS)


async def _indexed(field: Field) -> bool:
    answer = await field.client.service("dlq").unary(
        "ListDeadLetters", ListDeadLettersRequest(stream=STREAM, page_size=1), ListDeadLettersResponse
    )
    return not answer.catching_up


async def _letters_written(field: Field) -> None:
    """Waits for so many records that no handler takes: each becomes a dead letter."""
    since = now_ms()

    def written() -> bool:
        acked = field.journals.recent("acked", since)
        return sum(fate_of(line.value) == "poison" for line in acked) >= LETTERS

    await field.until(written, f"{LETTERS} records that become dead letters")


def _write_back(database: Path) -> None:
    """Empties a database's write-ahead log into it: what it had grown to would be room for many more writes."""
    with closing(sqlite3.connect(database, timeout=CALL_SECONDS)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def _ended(field: Field, name: str) -> bool:
    return any(each.name == name and each.pid is None for each in (await field.mesh.status()).processes)


async def processes(field: Field) -> dict[str, int | None]:
    """Process ids of all services."""
    found = (await field.mesh.status()).processes
    return {each.name: each.pid for each in found if each.kind == ProcessKind.SERVICE}


async def same_processes(field: Field, before: dict[str, int | None]) -> None:
    """Raises `StuckError` when a service ended meanwhile, though somebody started it again."""
    if ended := [name for name, pid in (await processes(field)).items() if pid != before[name]]:
        raise StuckError(f"a full disk ended {', '.join(ended)}")


def _disk(field: Field, path: Path) -> Path:
    if field.no_small_disks:
        raise NotPlayedError(field.no_small_disks)
    return path


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fills a disk to the last byte while the block runs."""
    ballast = disk / BALLAST
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (_MEBI, 4_096, 1):
                with suppress(OSError):  # no space left
                    while file.write(b"\1" * size):
                        pass
        yield
    finally:
        ballast.unlink()
