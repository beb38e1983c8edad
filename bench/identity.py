"""The cost of mutual TLS and enforced rights, beside plain text in the same run: `python -m bench.identity`.

Four kinds of work. Heartbeats: one assigner by turns, with 10,000 members (`--units`) that beat twice a second; the CPU
of the assigner. Takeovers: a member is killed in two meshes by turns; milliseconds until a survivor handles a record of
its partitions. Sends: the SDK sends records to a stream of each of two local meshes; the CPU of its process. First
calls: `braid get streams`, a whole process from its start to its end, by the wall. Each plain side plays twice.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import braid
from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker
from bench.harness.contest import Contestant, play, tell_round
from bench.harness.rounds import Basis, Sample, order, rows, verdict
from bench.harness.tables import Table, made_with
from bench.heartbeats import Population, ground, window
from bench.takeover import LEASE_SECONDS, RECORD_SECONDS, member_killed
from devmesh.mesh import DevMesh
from testbed.etcd_process import etcd_cluster
from testbed.members.assigner_pair import AssignerPair, Shape
from testbed.members.telling_member import OWNERSHIPS
from testbed.mesh import running_mesh

PLAIN: Final = "plain text, open"
AGAIN: Final = "plain text, open, again"
SECURE: Final = "mutual TLS, rights enforced"
WINDOW_SECONDS: Final = 5.0
RECORDS: Final = 5_000  # of one round
COMMANDS: Final = 4  # of one round
SITTINGS: Final = 2  # of each side, with all its members
STREAM: Final = "logs"
BRAID: Final = Path(sys.executable).with_name("braid")


def table(name: str, unit: str, basis: Basis, samples: Mapping[str, Sequence[Sample]], facts: dict[str, str]) -> Table:
    """The table of one kind of work; it is void where plain text beside itself differs."""
    found = rows({each: samples[each] for each in (PLAIN, AGAIN, SECURE)}, PLAIN, basis)
    return Table(f"identity_{name}", unit, basis, verdict(found, AGAIN), facts, found, made_with())


async def heartbeats(how: Asked) -> Table:
    """The CPU that an acknowledged heartbeat takes of its assigner.

    Each side plays alone, twice and in both orders: the members of three sides at once would want more than a machine.
    """
    samples: dict[str, list[Sample]] = {PLAIN: [], AGAIN: [], SECURE: []}
    lost = 0
    for sitting in range(SITTINGS):
        for name in order(list(samples), sitting):
            async with ground() as made:
                side = await made.side(str(sitting), Population(how.units, shared=True, secure=name == SECURE))
                await side.settle()
                for number in range(how.rounds + 1):
                    sample = (await window({name: side}, 1.0 if how.quick else WINDOW_SECONDS))[name]
                    if number:
                        samples[name].append(sample)
                lost += side.lost
        tell_round(sitting, SITTINGS)
    facts = {"work": f"{how.units:,} members each, two heartbeats a second; {lost} members or leases were lost"}
    return table("heartbeats", "heartbeat", "cpu", samples, facts)


@asynccontextmanager
async def pair(bootstrap: str, stream: str, *, secure: bool) -> AsyncIterator[AssignerPair]:
    """Two assigners over an etcd of their own, with three members."""
    shape = Shape(stream, OWNERSHIPS[:1], lease_seconds=LEASE_SECONDS, record_seconds=RECORD_SECONDS, secure=secure)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-bench-")))
        etcd = await stack.enter_async_context(etcd_cluster(directory))
        made = AssignerPair(shape, directory, bootstrap, f"etcd://{','.join(etcd.endpoints)}", etcd.endpoints)
        await made.start(stack)
        yield made


async def takeovers(bootstrap: str, how: Asked) -> Table:
    """The time until a survivor handles a record of a dead member's partitions."""
    samples: dict[str, list[Sample]] = {PLAIN: [], AGAIN: [], SECURE: []}
    async with (
        pair(bootstrap, "plain", secure=False) as plain,
        pair(bootstrap, "secure", secure=True) as secure,
    ):
        pairs = {PLAIN: plain, AGAIN: plain, SECURE: secure}
        for number in range((1 if how.quick else 3 * how.rounds) + 1):
            for name in order(list(pairs), number):
                taken = await member_killed(pairs[name])
                if number:
                    samples[name].append(Sample(1, 0.0, taken / 1e3))
            tell_round(number, 3 * how.rounds)
    facts = {"work": "3 members, 8 partitions, etcd of one member and 2 assigners each; etcd in plain text for both"}
    return table("takeover", "takeover", "wall", samples, facts)


@contextmanager
def meshes(directory: Path) -> Iterator[Mapping[str, DevMesh]]:
    """Two local meshes of one cluster each, with a stream."""
    with (
        running_mesh(directory / "plain", clusters=("east",)) as plain,
        running_mesh(directory / "secure", clusters=("east",), secure=True) as secure,
    ):
        found = {PLAIN: plain, AGAIN: plain, SECURE: secure}
        for each in (plain, secure):
            command(each, "create", "stream", STREAM, "--lane", "live=8")
        yield found


def command(mesh: DevMesh, *arguments: str) -> None:
    """One command of a person, in a process of its own. Raises `CalledProcessError` where it fails."""
    environment = {**os.environ, "BRAID_ENDPOINT": mesh.ready.endpoint, **mesh.ready.tls_environment}
    subprocess.run([BRAID, *arguments], env=environment, check=True, capture_output=True, timeout=120)


async def sends(made: Mapping[str, DevMesh], how: Asked) -> Table:
    """The CPU that the SDK takes to send a record, until it is acknowledged."""
    records = 200 if how.quick else RECORDS
    async with AsyncExitStack() as stack:
        contestants: dict[str, Contestant] = {}
        for name, mesh in made.items():
            client = await stack.enter_async_context(braid.connect(mesh.ready.endpoint, tls=mesh.tls))
            producer = await stack.enter_async_context(client.producer(STREAM))
            contestants[name] = Sends(producer, records)
        samples = await play(contestants, how.rounds)
    facts = {"work": f"{records:,} records of 100 bytes a round, each a call of `send`, all awaited together"}
    return table("send", "record", "cpu", samples, facts)


class Sends:
    """A contestant that sends so many records and waits for all."""

    def __init__(self, producer: braid.Producer, records: int) -> None:
        self._producer = producer
        self._records = records

    async def __call__(self) -> int:
        """One round."""
        await asyncio.gather(*(self._producer.send(bytes(100)) for _ in range(self._records)))
        return self._records


def first_calls(made: Mapping[str, DevMesh], how: Asked) -> Table:
    """The time of one whole command, by the wall."""
    samples: dict[str, list[Sample]] = {name: [] for name in made}
    for number in range(how.rounds + 1):
        for name in order(list(made), number):
            begun = time.perf_counter()
            for _ in range(COMMANDS):
                command(made[name], "get", "streams")
            if number:
                samples[name].append(Sample(COMMANDS, 0.0, time.perf_counter() - begun))
        tell_round(number, how.rounds)
    return table("first_call", "command", "wall", samples, {"work": "`braid get streams`, a process each"})


def main() -> int:
    """Runs the benchmark; 1 when a table is void."""
    how = asked(__doc__, units=10_000, quick_units=200)
    tables = [asyncio.run(heartbeats(how))]
    tables[-1].publish(how.directory)
    with tempfile.TemporaryDirectory(prefix="braid-identity-") as directory, meshes(Path(directory)) as made:
        for found in (asyncio.run(sends(made, how)), first_calls(made, how)):
            tables.append(found)
            found.publish(how.directory)
    with broker(apart=False) as serving:
        tables.append(asyncio.run(takeovers(serving.bootstrap, how)))
        tables[-1].publish(how.directory)
    return int(any(each.verdict for each in tables) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
