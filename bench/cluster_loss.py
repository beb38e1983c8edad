"""What the loss of a cluster costs producers: `python -m bench.cluster_loss` (`--units` losses of each kind).

A mesh of two real clusters under a load of 20,000 records a second; the cluster that carries it is killed (kill -9) or
stopped (SIGSTOP), and comes back. Wall time: until the first record is acknowledged by the other one. Consumers read it
all: nothing that was acknowledged may be lost, no application may see an error; repeats are allowed here, and counted.

Beside it, at the same losses: a plain producer of aiokafka with its default settings that goes on with a second
cluster, configured by hand, once the first one failed a record.
"""

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

import braid
from bench.asking import asked
from bench.loaded_stream import WORK, Fate, LoadedStream, first_elsewhere_ms, two_clusters
from bench.rounds import Sample, rows
from bench.tables import Table, made_with
from bench.takeover import SHARE_MIN, percentile
from braid.kafka.cluster import AioKafka
from braid.kernel.limits import FAILOVERS_MAX
from devmesh.mesh import DevMesh
from tests.support.patience import Deadline
from tests.support.trusting import never_held

LOSSES: Final = 20
PEER_LOSSES: Final = 2  # of each kind: it takes the better part of a minute
SEND_SECONDS: Final = 0.02
PEER_TOPIC: Final = "by-hand"
PEER_WAIT_SECONDS: Final = 120.0
WARM_SECONDS: Final = 3.0
AIM_MS: Final = 3_000.0
KILLED, STOPPED = "killed", "stopped"


class Loss(NamedTuple):
    """How a cluster is lost, and how it comes back."""

    lose: Callable[[DevMesh, str], Awaitable[str]]
    heal: Callable[[DevMesh, str], Awaitable[str]]


KINDS: Final[Mapping[str, Loss]] = {
    KILLED: Loss(DevMesh.kill, DevMesh.start),
    STOPPED: Loss(DevMesh.pause, DevMesh.resume),
}


def ours(kind: str) -> str:
    """The row of our own."""
    return f"cluster {kind}, acknowledged elsewhere"


def peers(kind: str) -> str:
    """The row of the peer."""
    return f"the same, aiokafka by hand, {kind}"


class ByHand:
    """A producer with two clusters. It changes to the second for good when the first fails a record."""

    def __init__(self, first: str, second: str) -> None:
        self.elsewhere_at = 0.0
        self._bootstraps = (first, second)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sends one record after the other in the background."""
        async with contextlib.AsyncExitStack() as stack:
            producers = [AIOKafkaProducer(bootstrap_servers=each, acks="all") for each in self._bootstraps]
            for producer in producers:
                await producer.start()
                stack.push_async_callback(_stopped, producer)
            sending = asyncio.create_task(self._send(*producers))
            try:
                yield
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending

    async def _send(self, first: AIOKafkaProducer, second: AIOKafkaProducer) -> None:
        for number in itertools.count():
            producer = second if self.elsewhere_at else first
            try:
                await producer.send_and_wait(PEER_TOPIC, b"%d" % number)
            except KafkaError:
                await second.send_and_wait(PEER_TOPIC, b"%d" % number)
                self.elsewhere_at = time.monotonic()
            await asyncio.sleep(SEND_SECONDS)


async def _stopped(producer: AIOKafkaProducer) -> None:
    """Lets go of a producer, of whatever its cluster still owes it."""
    with contextlib.suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(5.0):
            await producer.stop()


class Played(NamedTuple):
    """A loss: which row it counts for, which cluster was lost, when on the machine's monotonic clock."""

    row: str
    victim: str
    at: float


class Play:
    """One run's mesh, and what was found: milliseconds by row."""

    def __init__(self, local: DevMesh, mesh: braid.Mesh, directory: Path) -> None:
        self.found: dict[str, list[float]] = {}
        self.fates: list[Fate] = []
        self._local = local
        self._mesh = mesh
        self._directory = directory

    async def run(self, losses: int, peer_losses: int) -> None:
        """Loses the carrier so often by each kind; streams of its own for as many as one may fail over by itself."""
        await never_held(self._mesh.service("registry"))
        for each in self._local.ready.clusters.values():
            admin = AioKafka("bench").cluster(each.bootstrap, "").admin()
            await admin.create_topic(PEER_TOPIC, 1, 1, {})
            await admin.close()
        kinds = [kind for _ in range(losses) for kind in KINDS]
        beside = 2 * peer_losses
        for number, begin in enumerate(range(0, len(kinds), FAILOVERS_MAX - 1)):
            stream = LoadedStream(self._local, self._mesh, f"bench-{number}", self._directory)
            played: list[Played] = []
            async with stream.running():
                for at, kind in enumerate(kinds[begin : begin + FAILOVERS_MAX - 1], begin):
                    await stream.at_rest()
                    played.append(await self._lose(stream, kind, with_peer=at < beside))
                await stream.at_rest()
            for loss in played:
                self._tell(loss.row, first_elsewhere_ms(stream.ledgers, loss.victim, loss.at))
            self.fates.append(stream.fate())
            print(*stream.troubles[:5], self.fates[-1], sep="\n", file=sys.stderr, flush=True)
            await stream.forget()

    async def _lose(self, stream: LoadedStream, kind: str, *, with_peer: bool) -> Played:
        victim, other = stream.carrier(), stream.other()
        clusters = self._local.ready.clusters
        by_hand = ByHand(clusters[victim].bootstrap, clusters[other].bootstrap)
        async with by_hand.running() if with_peer else contextlib.nullcontext():
            await asyncio.sleep(WARM_SECONDS)
            began = time.monotonic()
            await KINDS[kind].lose(self._local, victim)
            await stream.left(victim)
            if with_peer:
                async with asyncio.timeout(PEER_WAIT_SECONDS):
                    while not by_hand.elsewhere_at:  # noqa: ASYNC110 - another task's clock
                        await asyncio.sleep(SEND_SECONDS)
                self._tell(peers(kind), 1_000 * (by_hand.elsewhere_at - began))
            await KINDS[kind].heal(self._local, victim)
        return Played(ours(kind), victim, began)

    def _tell(self, name: str, ms: float) -> None:
        self.found.setdefault(name, []).append(ms)
        print(f"{name}: {ms:.0f} ms", file=sys.stderr, flush=True)


async def play(losses: int, peer_losses: int) -> tuple[dict[str, list[float]], Fate]:
    """Returns milliseconds by row, and what became of every record."""
    async with two_clusters() as (local, mesh, directory):
        played = Play(local, mesh, directory)
        await played.run(losses, peer_losses)
    return played.found, Fate(*map(sum, zip(*played.fates, strict=True)))


def table(found: Mapping[str, Sequence[float]], fate: Fate, share: float) -> Table:
    """The table of a run on a machine that gave so much of its time."""
    samples = {name: [Sample(1, 0.0, ms / 1e3) for ms in taken] for name, taken in found.items()}
    told = {
        name: f"p50 {percentile(taken, 0.5):.0f} ms, p99 {percentile(taken, 0.99):.0f} ms of {len(taken)}"
        for name, taken in found.items()
    }
    facts = {
        "work": f"{WORK}; the machine gave {share:.0%} of its time",
        "peer": "AIOKafkaProducer(acks='all'), one record after the other, request_timeout_ms=40000 as by default",
        "aim": f"p99 <= {AIM_MS:g} ms, 0 lost",
        "fate": str(fate),
        **told,
    }
    void = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    void = f"void: {fate}" if fate.lost or fate.troubles else void
    return Table("cluster_loss", "loss", "wall", void, facts, rows(samples, "", "wall", samples), made_with())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when the table is void."""
    how = asked(__doc__, units=LOSSES, quick_units=1)
    deadline = Deadline(1.0)
    made = table(*asyncio.run(play(how.units, 0 if how.quick else PEER_LOSSES)), deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
