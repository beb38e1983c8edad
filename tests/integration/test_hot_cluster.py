"""A hot cluster beside two empty ones, on real processes: few streams leave it within a minute, and nothing is lost."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.kernel.limits.registry.balancing import BALANCE_BAND, BALANCE_SLACK
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import Deadline, until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy
from tests.support.judging import judge
from tests.unit.registry.policy.balancing.exhaustive import CLUSTERS, fewest, placed

RATES: Final = (10, 6, 4, 3, 2, 1)  # of the streams, skewed; in parts
STREAMS: Final = tuple(f"hot-{number}" for number in range(len(RATES)))
PART_BYTES: Final = 100_000  # a second
RECORD_BYTES: Final = 10_000
SEND_SECONDS: Final = 0.5
EVEN_SECONDS: Final = 60.0
SEEN_SECONDS: Final = 5.0  # of acknowledgements, by which loads are compared
STILL_SECONDS: Final = 30.0  # afterwards, in which nothing moves any more
HANDLED_SECONDS: Final = 60.0
SHARE_MIN: Final = 0.9
SPEC: Final = """apiVersion: braid/v1
kind: Stream
metadata: {{name: {name}}}
spec:
  replication_factor: 1
  lanes: {{live: {{partitions: 2}}}}
  clusters: [{clusters}]
---
"""

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(580)]


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DevMesh]:
    """Three clusters and a registry that evens out load."""
    monkeypatch.setenv("BRAID_BALANCE", "automatic")
    with running_mesh(tmp_path / "mesh", clusters=CLUSTERS, registries=1, assigners=1) as mesh:
        wait_healthy(mesh)
        yield mesh


class Ledger:
    """Records by their acknowledgements, with cluster and time, and by their handling."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[float, str, int, bytes]] = []  # when, by which cluster, bytes, id
        self.handled: set[bytes] = set()

    async def send(self, producer: braid.Producer, stream: str, bytes_per_s: int) -> None:
        """Sends bytes that do not compress at a steady rate, until cancelled."""
        due, number = time.monotonic(), 0
        while True:
            due += SEND_SECONDS
            count = round(bytes_per_s * SEND_SECONDS / RECORD_BYTES)
            names = [b"%s-%d " % (stream.encode(), number + each) for each in range(count)]
            number += count
            outgoing = [braid.Outgoing(name + os.urandom(RECORD_BYTES), name) for name in names]
            for name, receipt in zip(names, await producer.send_many(outgoing), strict=True):
                self.acknowledged.append((time.monotonic(), receipt.cluster, RECORD_BYTES, name))
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def handle(self, record: braid.Record) -> None:
        """Handles a record."""
        assert record.key is not None
        self.handled.add(record.key)

    @property
    def missing(self) -> int:
        """How many records were acknowledged and not handled."""
        return len({name for *_, name in self.acknowledged} - self.handled)

    def uneven(self) -> float:
        """Bytes that the hottest cluster acknowledged lately, over the mean of all."""
        since, sizes = time.monotonic() - SEEN_SECONDS, Counter[str]()
        for at, cluster, size, _ in reversed(self.acknowledged):
            if at < since:
                break
            sizes[cluster] += size
        return max(sizes.values(), default=0) * len(CLUSTERS) / max(sizes.total(), 1)


async def test_a_hot_cluster_is_relieved_in_a_minute(local: DevMesh, tmp_path: Path) -> None:
    home = [0] * len(RATES)
    needed = fewest(placed([float(each) for each in RATES], home))
    assert needed == 2
    for clusters in (CLUSTERS[0], ", ".join(CLUSTERS)):  # they begin on one cluster, and may leave it
        specs = "".join(SPEC.format(name=name, clusters=clusters) for name in STREAMS)
        (tmp_path / "streams.yaml").write_text(specs)
        await printed(local, f"apply -f {tmp_path / 'streams.yaml'}")
    async with working(local) as ledger:
        began, given = time.monotonic(), Deadline(EVEN_SECONDS)
        await until(lambda: ledger.uneven() > 2, "the first cluster is hot", EVEN_SECONDS)
        limit = 1 + BALANCE_BAND + BALANCE_SLACK
        await until(lambda: ledger.uneven() <= limit, lambda: f"{ledger.uneven():.2f} of the mean", 4 * EVEN_SECONDS)
        took, share = time.monotonic() - began, given.share
        await asyncio.sleep(STILL_SECONDS)
        moves = await moved(local)
        print(f"within the band {took:.0f} s after the load began, by {moves} moves; {needed} are needed")
        assert ledger.uneven() <= limit
        assert needed <= moves <= needed + 1
        judge(took <= EVEN_SECONDS, share, SHARE_MIN, f"within the band after {took:.0f} s")
    print(f"of {len(ledger.acknowledged)} records {ledger.missing} lost")
    assert ledger.acknowledged and not ledger.missing


async def moved(local: DevMesh) -> int:
    """How many streams were moved."""
    told = [await printed(local, f"events --for stream/{name}") for name in STREAMS]
    return sum(each.count("StreamRebalanced") for each in told)


@asynccontextmanager
async def working(local: DevMesh) -> AsyncIterator[Ledger]:
    """Sends to all streams and handles them; at the end it waits for what was acknowledged."""
    ledger = Ledger()
    async with (
        braid.connect(local.ready.endpoint, client_id="hot") as mesh,
        mesh.consumer(STREAMS, group="hot-readers") as consumer,
        AsyncExitStack() as stack,
    ):
        reading = asyncio.create_task(consumer.run(ledger.handle))
        producers = [await stack.enter_async_context(mesh.producer(name)) for name in STREAMS]
        sending = [
            asyncio.create_task(ledger.send(producer, name, part * PART_BYTES))
            for producer, name, part in zip(producers, STREAMS, RATES, strict=True)
        ]
        try:
            yield ledger
            assert not any(task.done() for task in sending), sending
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        await until(lambda: not ledger.missing, lambda: f"{ledger.missing} are lost", HANDLED_SECONDS, poll=0.5)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
