"""Several lag monitors on virtual time, beside one that is alone in another mesh over the same clusters."""

from collections.abc import Collection
from typing import Any, cast

from braid.api.lagmon.v1 import lag_pb2
from braid.kafka.memory.world import MemoryProcess
from braid.kernel.ports import Kafka
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.servicer.service import Lagmon
from tests.unit.lagmon.mesh import Mesh

CLUSTERS = ("east", "north", "south", "west")
PARTITIONS = 2
GROUPS = 2
COMMIT_SECONDS = 0.8


class DividedMesh(Mesh):
    """A mesh whose groups work all the time, and a reference that no other replica ever hears of."""

    def __init__(self, clusters: Collection[str] = CLUSTERS) -> None:
        super().__init__(tuple(clusters))
        self.alone = Mesh(tuple(clusters))
        self.alone.kafka, self.alone.registry, self.alone.assigner = self.kafka, self.registry, self.assigner
        self.works = True
        self.fetch_seconds: dict[int, float] = {}  # that each fetch takes more, by the number of the lag monitor
        self.links: dict[int, MemoryProcess] = {}  # to clusters, by the number of the lag monitor
        self._done = dict.fromkeys(self.registry.clusters, 0)

    async def begin(self, lagmons: int) -> "DividedMesh":
        """Starts everything, and waits until clusters are divided."""
        for name in self.registry.clusters:
            self.kafka.named(name).create_topic("t", PARTITIONS, 1, {})
        self.me.tasks.spawn(self._work(), "groups")
        await self.start(0)
        for number in range(lagmons):
            await self.add(number)
        await self.alone.start(1)
        await self.clock.sleep(6.0)
        return self

    async def add(self, number: int) -> None:
        """Starts one more lag monitor."""
        self.links[number] = self.kafka.process()
        await self.serve(f"lagmon-{number}", Lagmon(cast("Kafka", SlowKafka(self.links[number], self, number))))

    async def _work(self) -> None:
        while self.works:
            for name in self.registry.clusters:
                self._step(name)
            await self.clock.sleep(COMMIT_SECONDS)

    def _step(self, cluster: str) -> None:
        self._done[cluster] += 1
        for partition in range(PARTITIONS):
            self.produce(2, partition, topic="t", cluster=cluster)
            for number in range(GROUPS):
                # The first falls ever further behind records that some of the lag monitors did not see come.
                done = max(0, self._done[cluster] - number) if number else self._done[cluster] // 2
                progress = EnvelopeFields(done, oldest_ingested_at_ms=self.clock.now_ms() - 5_000, epoch=number + 1)
                self.commit(f"g{number}", progress if number else done, partition, topic="t", cluster=cluster)

    # --- what is seen

    async def reads(self, number: int) -> set[str]:
        """Clusters that a replica reads by itself."""
        await self.clock.sleep(1.1)  # the gauges are set once a second
        return {
            sample.labels["cluster"]
            for family in self.replicas[f"lagmon-{number}"].metrics.registry.collect()
            for sample in family.samples
            if sample.name == "braid_lagmon_cluster_read" and sample.value
        }

    async def all_reads(self, numbers: Collection[int]) -> list[str]:
        """Clusters that are read, once for each replica that reads them."""
        found = [await self.reads(number) for number in numbers]
        return sorted(cluster for each in found for cluster in each)

    async def observe(self, number: int, seconds: float) -> tuple[list[int], float]:
        """Asks a replica again and again; returns how many rows came each time, and the oldest that was not stale."""
        counts, oldest = list[int](), 0.0
        end = self.clock.elapsed() + seconds
        while self.clock.elapsed() < end:
            answer = await self.ask(f"lagmon-{number}", detail=3)
            counts.append(len(answer.lags))
            oldest = max([oldest, *((answer.time_ms - row.as_of_ms) / 1_000 for row in answer.lags if not row.stale)])
            await self.clock.sleep(0.3)
        return counts, oldest

    async def pause_work(self) -> None:
        """Lets the groups rest until every replica must have seen what they did."""
        self.works = False
        await self.clock.sleep(2.0)

    async def resembles(self, number: int) -> list[lag_pb2.Lag]:
        """Fails unless a replica's answers are those of the replica that reads everything; returns its rows."""
        found, wanted = await self.lag(f"lagmon-{number}"), await self.alone.lag()
        assert len(wanted) == len(self.registry.clusters) * GROUPS * PARTITIONS
        assert [_facts(row) for row in found] == [_facts(row) for row in wanted]
        for row, truth in zip(found, wanted, strict=True):
            apart = 1.5 if truth.source == lag_pb2.LAG_SOURCE_ESTIMATE else 0.05
            assert truth.lag_seconds - apart <= row.lag_seconds <= truth.lag_seconds + apart, (row, truth)
            assert abs(row.as_of_ms - truth.as_of_ms) <= 1_200, (row, truth)
        return found


class SlowKafka:
    """The port to Kafka of one lag monitor, whose fetches may take longer."""

    def __init__(self, inner: Any, mesh: DividedMesh, number: int) -> None:
        self._inner = inner
        self._mesh = mesh
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cluster(self, bootstrap: str, security_profile: str) -> "SlowKafka":
        """See `Kafka.cluster`."""
        return SlowKafka(self._inner.cluster(bootstrap, security_profile), self._mesh, self._number)

    def fetcher(self, **how: Any) -> "SlowKafka":
        """See `KafkaCluster.fetcher`."""
        return SlowKafka(self._inner.fetcher(**how), self._mesh, self._number)

    async def fetch_columns(self, *what: Any) -> Any:
        """See `KafkaFetcher.fetch_columns`."""
        found = await self._inner.fetch_columns(*what)
        await self._mesh.clock.sleep(self._mesh.fetch_seconds.get(self._number, 0.0))
        return found


def _facts(row: lag_pb2.Lag) -> lag_pb2.Lag:
    """A row without what passes with time."""
    fact = lag_pb2.Lag()
    fact.CopyFrom(row)
    fact.lag_seconds = fact.as_of_ms = 0
    return fact
