"""Compares the cost of a record with pathways and without them: `python -m bench.pathways`.

The same records are sent and consumed on one broker, once with pathways and once without. A third row is the peer
again, which tells whether the machine was quiet.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker, cores
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.records.outgoing import Outgoing
from braid.client.telemetry.pathways.recorder import Recorder
from braid.kafka.cluster import AioKafka
from braid.kernel.limits.lagmon.pathways import PATHWAY_BUCKET_MS

WITHOUT: Final = "without pathways"
AGAIN: Final = "without pathways again"
WITH: Final = "with pathways"
LINGER_MS: Final = 5
VALUE: Final = bytes(100)


class FollowedMesh(FixedMesh):
    """The SDK on one broker, with pathways or without; what is measured is taken as often as it would be reported."""

    def __init__(self, bootstrap: str, *, followed: bool) -> None:
        super().__init__(bootstrap)
        self.recorder = self._recorder = Recorder("bench") if followed else None

    async def taking(self) -> None:
        """Takes what was measured, every 10 seconds, until cancelled."""
        while self.recorder is not None:
            await asyncio.sleep(PATHWAY_BUCKET_MS / 1000)
            self.recorder.take()


class Contest:
    """Producers and consumers over a number of records."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._records = records

    def contestants(self, work: Callable[[FollowedMesh], Contestant]) -> dict[str, Contestant]:
        """By name."""
        return {
            WITHOUT: work(FollowedMesh(self._bootstrap, followed=False)),
            AGAIN: work(FollowedMesh(self._bootstrap, followed=False)),
            WITH: work(FollowedMesh(self._bootstrap, followed=True)),
        }

    def send(self, mesh: FollowedMesh) -> Contestant:
        """Sends everything in one call."""

        async def run() -> int:
            async with mesh.producer(STREAM, linger_ms=LINGER_MS) as producer:
                await producer.send_many(Outgoing(VALUE) for _ in range(self._records))
            return self._records

        return run

    def by_record(self, mesh: FollowedMesh) -> Contestant:
        """Consumes record by record."""

        async def run() -> int:
            async with mesh.consumer([STREAM], group=new_group()) as consumer:
                seen = 0
                async for record in consumer:
                    record.ack()
                    seen += 1
                    if seen == self._records:
                        break
            return seen

        return run

    def by_batch(self, mesh: FollowedMesh) -> Contestant:
        """Consumes batches as columns."""

        async def run() -> int:
            async with mesh.consumer([STREAM], group=new_group()) as consumer:
                seen = 0
                async for batch in consumer.batches(5_000):
                    seen += batch.records.num_rows
                    batch.ack()
                    if seen >= self._records:
                        break
            return seen

        return run


async def prepare(bootstrap: str, records: int) -> None:
    """Makes the topic and fills it with records as they are sent where pathways are followed."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    await admin.create_topic(TOPIC, PARTITIONS, 1, {"retention.ms": "-1"})
    await admin.close()
    await Contest(bootstrap, records).send(FollowedMesh(bootstrap, followed=True))()


async def contests(bootstrap: str, how: Asked) -> list[Table]:
    """Plays the rounds: consuming first, because sending makes the topic longer."""
    await prepare(bootstrap, how.units)
    contest, tables = Contest(bootstrap, how.units), []
    sending = Contest(bootstrap, how.units // 10)
    for name, work in (("by record", contest.by_record), ("by batch", contest.by_batch), ("send", sending.send)):
        found = rows(await play(contest.contestants(work), how.rounds), WITHOUT, "cpu")
        facts = {
            "work": f"{name}: records of 100 B, {PARTITIONS} partitions; {cores()}",
            "peer": "the same without pathways, in the same process and on the same records",
        }
        tables.append(
            Table(
                f"pathways-{name.replace(' ', '-')}", "record", "cpu", verdict(found, AGAIN), facts, found, made_with()
            )
        )
    return tables


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when a table is void."""
    how = asked(__doc__, units=1_500_000, quick_units=5_000)
    with broker() as serving:
        tables = asyncio.run(contests(serving.bootstrap, how))
    for table in tables:
        table.publish(how.directory)
    return int(any(table.verdict for table in tables) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
