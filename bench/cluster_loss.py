"""The cost of a lost cluster for producers: `python -m bench.cluster_loss` (`--units` losses of each kind).

A mesh of two real clusters under a load of 20,000 records a second; the cluster that carries it is killed (kill -9) or
stopped (SIGSTOP), and comes back. Wall time: until the first record is acknowledged by the other one. Consumers read it
all: nothing that was acknowledged may be lost, no application may see an error; repeats are allowed here, and counted.

Beside it, at losses of its own on the same brokers: as many producers and consumers of plain aiokafka, under the same
load, that know a second cluster by hand (`by_hand_process`). Their losses and repeats are counted in the same way.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import braid
from bench.harness.arguments import asked
from bench.harness.loaded_stream import (
    LOAD,
    PARTITIONS,
    READ_SECONDS,
    WORK,
    Fate,
    LoadedStream,
    first_elsewhere_ms,
    two_clusters,
)
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.peers import by_hand_process
from bench.peers.by_hand_process import places
from bench.takeover import SHARE_MIN, percentile
from braid.kafka.cluster import AioKafka
from braid.kernel.limits.registry.resources import FAILOVERS_MAX
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from testbed.trusting import never_held

LOSSES: Final = 20
PEER_LOSSES: Final = 2  # of each kind: it takes the better part of a minute
PEER_REST_SECONDS: Final = 15.0  # without a record: longer than the session of a consumer that was put out of its group
POLL_SECONDS: Final = 0.5
NOTHING: Final = Fate(0, 0, 0, 0, 0)
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


class ByHand(LoadedStream):
    """The peer's stream: a topic on each cluster, and applications that know both. It begins on the first one."""

    async def _declare(self) -> None:
        for each in places(self._endpoint(), self.name):
            admin = AioKafka("bench").cluster(each.bootstrap, "").admin()
            await admin.create_topic(each.topic, PARTITIONS, 1, {})
            await admin.close()

    def _command(self) -> tuple[str, str]:
        return by_hand_process.__name__, self._endpoint()

    def _endpoint(self) -> str:
        return " ".join(f"{name}={each.bootstrap}" for name, each in self._local.ready.clusters.items())

    async def _read_out(self, acknowledged: int) -> None:
        """Waits until nothing more arrives for some time: the ledgers then show what is lost."""
        deadline, before, since = Deadline(READ_SECONDS), -1, time.monotonic()
        while not deadline.passed and time.monotonic() - since < PEER_REST_SECONDS:
            before, former = self._read(), before
            since = since if before == former else time.monotonic()
            await asyncio.sleep(POLL_SECONDS)


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
        self.peer_fates: list[Fate] = []
        self._local = local
        self._mesh = mesh
        self._directory = directory

    async def run(self, losses: int, peer_losses: int) -> None:
        """Loses the carrier so often by each kind; streams of its own for as many as one may fail over by itself."""
        await never_held(self._mesh.service("registry"))
        kinds = [kind for _ in range(losses) for kind in KINDS]
        for number, begin in enumerate(range(0, len(kinds), FAILOVERS_MAX - 1)):
            stream = LoadedStream(self._local, self._mesh, f"bench-{number}", self._directory)
            played: list[Played] = []
            async with stream.running():
                for kind in kinds[begin : begin + FAILOVERS_MAX - 1]:
                    await stream.at_rest()
                    played.append(await self._lose(stream, kind, ours(kind)))
                await stream.at_rest()
            self.fates.append(self._told(stream, played))
            await stream.forget()
        for number, kind in enumerate([kind for _ in range(peer_losses) for kind in KINDS]):
            by_hand = ByHand(self._local, self._mesh, f"by-hand-{number}", self._directory)
            async with by_hand.running():
                played = [await self._lose(by_hand, kind, peers(kind))]
            self.peer_fates.append(self._told(by_hand, played))

    async def _lose(self, stream: LoadedStream, kind: str, row: str) -> Played:
        victim = stream.carrier()
        await asyncio.sleep(WARM_SECONDS)
        began = time.monotonic()
        await KINDS[kind].lose(self._local, victim)
        await stream.left(victim)
        await KINDS[kind].heal(self._local, victim)
        return Played(row, victim, began)

    def _told(self, stream: LoadedStream, played: Sequence[Played]) -> Fate:
        for loss in played:
            self._tell(loss.row, first_elsewhere_ms(stream.ledgers, loss.victim, loss.at))
        fate = stream.fate()
        print(*stream.troubles[:5], fate, sep="\n", file=sys.stderr, flush=True)
        return fate

    def _tell(self, name: str, ms: float) -> None:
        self.found.setdefault(name, []).append(ms)
        print(f"{name}: {ms:.0f} ms", file=sys.stderr, flush=True)


async def play(losses: int, peer_losses: int) -> tuple[dict[str, list[float]], Fate, Fate]:
    """Returns milliseconds by row, and what became of every record: ours, the peer's."""
    async with two_clusters() as (local, mesh, directory):
        played = Play(local, mesh, directory)
        await played.run(losses, peer_losses)
    return played.found, together(played.fates), together(played.peer_fates)


def together(fates: Sequence[Fate]) -> Fate:
    """The sum of several fates."""
    return Fate(*map(sum, zip(NOTHING, *fates, strict=True)))


def table(found: Mapping[str, Sequence[float]], fate: Fate, peer_fate: Fate, share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    samples = {name: [Sample(1, 0.0, ms / 1e3) for ms in taken] for name, taken in found.items()}
    told = {
        name: f"p50 {percentile(taken, 0.5):.0f} ms, p99 {percentile(taken, 0.99):.0f} ms of {len(taken)}"
        for name, taken in found.items()
    }
    facts = {
        "work": f"{WORK}; the machine gave {share:.0%} of its time",
        "peer": f"{LOAD}: aiokafka, acks='all', otherwise as by default (request_timeout_ms=40000)",
        "aim": f"p99 <= {AIM_MS:g} ms, 0 lost",
        "fate": str(fate),
        "fate of the peer": str(peer_fate),
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
