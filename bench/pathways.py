"""Compares the cost of a record with pathways and without them: `python -m bench.pathways`.

The same records are sent and consumed on one broker, by clients with pathways and without, which are open at the same
time in this process. They take turns in blocks of some thousand records, less than a tenth of a second of CPU each, so
that a machine that does something else slows neighbours alike. The median over hundreds of such rounds is quoted, with
bounds that come from the rounds themselves. What is consumed comes in fetches, which fall into one turn or the next:
the topic is read several times, because it takes many rounds to even that out. A third client is the peer again; unless
its bounds are close and include its own cost, the machine told nothing.

A sampled record is rare where many are sent, so its cost is lost among theirs. It is measured apart, in a loop.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple

from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker, cores
from bench.harness.contest import Contestant
from bench.harness.fixed_mesh import PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.rounds import Sample, interval, order, rows
from bench.harness.tables import Table, made_with
from braid.client.records.outgoing import Outgoing
from braid.client.telemetry.pathways.recorder import Recorder
from braid.kafka.cluster import AioKafka
from braid.kernel.limits.lagmon.pathways import PATHWAY_BUCKET_MS, PATHWAY_SENT_PER_S, PATHWAY_TAKEN_PER_S
from braid.kernel.pathways.edges import Edge
from braid.kernel.pathways.header import encode_context

WITHOUT: Final = "without pathways"
AGAIN: Final = "without pathways again"
WITH: Final = "with pathways"
LINGER_MS: Final = 5
VALUE: Final = bytes(100)
# Records of one turn: so many that its fixed costs, such as waiting for the next turn, are a small part of it.
SENT_BLOCK: Final = 2_000
RECORD_BLOCK: Final = 20_000
BATCH_BLOCK: Final = 50_000
BATCH: Final = 5_000
SETTLE_SECONDS: Final = 0.05  # in which a consumer fetches ahead again what was taken: that belongs to its turn
WARMING: Final = 5  # rounds: the first second of a pathway samples most
SELF_TOLERANCE: Final = 0.01
MARGIN_MAX: Final = 0.01  # of the peer compared with itself; the aim is two percent
ROUNDS_WANTED: Final = 40  # half of them decide a median
SAMPLED: Final = 20_000
Open = Callable[[AsyncExitStack, "FollowedMesh"], Awaitable[Contestant]]


class FollowedMesh(FixedMesh):
    """The SDK on one broker, with pathways or without; what is measured is taken as often as it would be reported."""

    def __init__(self, bootstrap: str, *, followed: bool) -> None:
        super().__init__(bootstrap)
        self.recorder = self._recorder = Recorder("bench") if followed else None

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Takes what was measured, every 10 seconds."""

        async def run() -> None:
            while self.recorder is not None:
                await asyncio.sleep(PATHWAY_BUCKET_MS / 1000)
                self.recorder.take()

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()


async def sending(stack: AsyncExitStack, mesh: FollowedMesh) -> Contestant:
    """Opens a producer that sends a block in one call."""
    producer = await stack.enter_async_context(mesh.producer(STREAM, linger_ms=LINGER_MS))

    async def turn() -> int:
        await producer.send_many(Outgoing(VALUE) for _ in range(SENT_BLOCK))
        return SENT_BLOCK

    return turn


async def by_record(stack: AsyncExitStack, mesh: FollowedMesh) -> Contestant:
    """Opens a consumer that takes a block record by record."""
    consumer = await stack.enter_async_context(mesh.consumer([STREAM], group=new_group()))
    records = aiter(consumer)

    async def turn() -> int:
        for _ in range(RECORD_BLOCK):
            (await anext(records)).ack()
        await asyncio.sleep(SETTLE_SECONDS)
        return RECORD_BLOCK

    return turn


async def by_batch(stack: AsyncExitStack, mesh: FollowedMesh) -> Contestant:
    """Opens a consumer that takes about a block as columns."""
    consumer = await stack.enter_async_context(mesh.consumer([STREAM], group=new_group()))
    batches = aiter(consumer.batches(BATCH))

    async def turn() -> int:
        seen = 0
        while seen < BATCH_BLOCK:
            batch = await anext(batches)
            seen += batch.records.num_rows
            batch.ack()
        await asyncio.sleep(SETTLE_SECONDS)
        return seen

    return turn


async def paired(bootstrap: str, open_one: Open, rounds: int, warming: int) -> dict[str, list[Sample]]:
    """Lets all contestants take turns, each once a round; the first rounds are discarded."""
    meshes = {
        WITHOUT: FollowedMesh(bootstrap, followed=False),
        AGAIN: FollowedMesh(bootstrap, followed=False),
        WITH: FollowedMesh(bootstrap, followed=True),
    }
    samples: dict[str, list[Sample]] = {name: [] for name in meshes}
    async with AsyncExitStack() as stack:
        turns = {name: await open_one(stack, mesh) for name, mesh in meshes.items()}
        for mesh in meshes.values():
            await stack.enter_async_context(mesh.taking())
        for number in range(warming + rounds):
            for name in order(list(turns), number):
                cpu, wall = time.process_time(), time.perf_counter()
                units = await turns[name]()
                sample = Sample(units, time.process_time() - cpu, time.perf_counter() - wall)
                if number >= warming:
                    samples[name].append(sample)
    return samples


class Added(NamedTuple):
    """CPU time of one contestant over another's in the same rounds, less 1: the median, and bounds of it."""

    median: float
    low: float
    high: float

    @property
    def margin(self) -> float:
        """How far the median may be wrong."""
        return max(self.high - self.median, self.median - self.low)

    def __str__(self) -> str:
        return f"{self.median:+.2%} ({self.low:+.2%} to {self.high:+.2%}, 19 times of 20)"


def added(samples: Mapping[str, Sequence[Sample]], name: str, peers: Sequence[str]) -> Added:
    """Returns what a contestant costs more than some peers together, round by round."""

    def costs(of: str) -> list[float]:
        return [sample.cpu_seconds / sample.units for sample in samples[of]]

    theirs = [statistics.fmean(each) for each in zip(*map(costs, peers), strict=True)]
    ratios = [own / other - 1 for own, other in zip(costs(name), theirs, strict=True)]
    return Added(statistics.median(ratios), *interval(ratios))


def judged(samples: Mapping[str, Sequence[Sample]]) -> str:
    """Empty when the samples may be quoted, else why not.

    A busy machine widens the bounds, which then says nothing; it does not shift them, because neighbours pay alike.
    """
    again = added(samples, AGAIN, (WITHOUT,))
    if not again.low <= 0 <= again.high and abs(again.median) > SELF_TOLERANCE:
        return f"void: the peer beside itself costs {again}"
    if again.margin > MARGIN_MAX:
        return f"not to be quoted: too few rounds for this machine, the peer beside itself costs {again}"
    return "" if len(samples[WITH]) >= ROUNDS_WANTED else f"not to be quoted: {len(samples[WITH])} rounds"


def sampled_micros() -> float:
    """The CPU time of one sampled record at both of its points, microseconds."""
    recorder, now_ms = Recorder("bench"), 1_770_000_000_000
    sent, received = Edge(STREAM), Edge(STREAM, "group")
    began = time.process_time()
    for number in range(SAMPLED):
        header = encode_context(recorder.sent(sent, None, now_ms + number, 0))
        recorder.received(received, header, now_ms + number + 20, 0)
    return (time.process_time() - began) / SAMPLED * 1e6


async def prepare(bootstrap: str, records: int) -> None:
    """Makes the topic and fills it with records as they are sent where pathways are followed."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    await admin.create_topic(TOPIC, PARTITIONS, 1, {"retention.ms": "-1"})
    await admin.close()
    mesh = FollowedMesh(bootstrap, followed=True)
    async with mesh.producer(STREAM, linger_ms=LINGER_MS) as producer:
        await producer.send_many(Outgoing(VALUE) for _ in range(records))


async def contests(bootstrap: str, how: Asked) -> list[Table]:
    """Plays all kinds of work: consuming first, because sending makes the topic longer."""
    warming = 1 if how.quick else WARMING
    turns = warming + how.units // BATCH_BLOCK + 1
    await prepare(bootstrap, turns * (BATCH_BLOCK + BATCH))  # a turn by batches takes up to a batch more than a block
    tables = []
    for name, work, block, readings in (
        ("by-record", by_record, RECORD_BLOCK, 5),
        ("by-batch", by_batch, BATCH_BLOCK, 14),
        ("send", sending, SENT_BLOCK * 2, 1),  # a round of it costs as much as one of the others
    ):
        samples: dict[str, list[Sample]] = {}
        for _ in range(1 if how.quick else readings):
            for each, taken in (await paired(bootstrap, work, max(1, how.units // block), warming)).items():
                samples.setdefault(each, []).extend(taken)
        found = rows(samples, WITHOUT, "cpu")
        facts = {
            "work": f"{name}: turns of some thousand records of 100 B, {PARTITIONS} partitions; {cores()}",
            "peer": "the same without pathways, in the same process, beside it",
            "pathways add": str(added(samples, WITH, (WITHOUT, AGAIN))),
            "the peer beside itself": str(added(samples, AGAIN, (WITHOUT,))),
            "a sampled record": f"{sampled_micros():.1f} µs at both of its points; "
            f"{PATHWAY_SENT_PER_S} a second are sent, {PATHWAY_TAKEN_PER_S} a second taken at most",
        }
        tables.append(Table(f"pathways-{name}", "record", "cpu", judged(samples), facts, found, made_with()))
    return tables


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when a table is void."""
    how = asked(__doc__, units=4_000_000, quick_units=BATCH_BLOCK)
    with broker() as serving:
        tables = asyncio.run(contests(serving.bootstrap, how))
    for table in tables:
        table.publish(how.directory)
    return int(any(table.verdict for table in tables) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
