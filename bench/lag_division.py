"""Lag of 1,000,000 partitions on 100 clusters, divided between 1, 2 and 4 replicas: `python -m bench.lag_division`.

Each partition is a log with one group, which commits every five seconds. A second of a cluster is what its reader does
(take commits, note ends twice, look twice for groups that stall, compute every row), what it does to share the rows,
and what another replica does to show them. A replica's second is made of these: it reads its share, shares it with each
of the others, and shows what they read. Fetching and decoding are left out (`bench.lag_decode`), and so are alerts,
kept lag and gauges, which every replica has for all clusters.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import psutil

from bench.harness.arguments import Asked, asked
from bench.harness.contest import tell_round
from bench.harness.rounds import Sample, rows, verdict
from bench.harness.tables import Table, made_with
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kafka.offset_log.commits import CommitColumns, OffsetPair
from braid.kernel.envelope import encode
from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX, LAG_ENDS_BATCH
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.columns.ends import EndColumns
from services.lagmon.columns.lags import LagColumns
from services.lagmon.division.exported import ExportedCluster
from services.lagmon.division.views import ClusterView, SharedReading
from services.lagmon.domain import ClusterModel
from services.lagmon.exchange.answers import Answer
from services.lagmon.exchange.messages import reading_message, rows_message
from services.lagmon.model.mesh_view import Channel, ClusterPlace, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now

ALONE: Final = "a replica alone"
AGAIN: Final = "a replica alone again"
REPLICAS: Final = (2, 4)
CLUSTERS: Final = 100
PARTITIONS: Final = 20
LOOKS: Final = 2  # a second
COMMITS_IN: Final = 5  # seconds between two commits of a group
LAGGING: Final = 10  # every tenth group is behind
MEMBERS: Final = 5  # every fifth group has members of Braid, which commit envelopes
WRITTEN: Final = 10  # records of a partition between two commits
_WALL_MS: Final = 1_767_225_600_000
T = TypeVar("T")
_PLACE: Final = ClusterPlace("cluster:9092", "")


@dataclass
class Costs:
    """CPU seconds of one second of all clusters."""

    read: float = 0.0
    export: float = 0.0
    send: float = 0.0
    receive: float = 0.0
    show: float = 0.0
    sent_bytes: int = 0

    def of(self, replicas: int) -> float:
        """Returns the CPU seconds of one of so many replicas; one alone shares nothing."""
        share = 1 / replicas
        own = self.read * share
        if replicas == 1:
            return own
        return own + share * (self.export + (replicas - 1) * self.send) + (1 - share) * (self.receive + self.show)


class Work:
    """Commits and ends of logs of one second, the same on each cluster."""

    def __init__(self, topics: Sequence[str], number: int) -> None:
        self.now = Now(float(number), _WALL_MS + number * 1_000)
        self.commits = _commits(topics, number)
        # Logs whose groups commit have grown.
        self.ends = {
            TopicPartition(topic, partition): _end(number - (number - at) % COMMITS_IN, at, partition)
            for at, topic in enumerate(topics)
            for partition in range(PARTITIONS)
        }


def _end(number: int, at: int, partition: int) -> int:
    """The end of a log: they differ by millions, as those of logs that grew for years."""
    return (at * 7_919 + partition * 104_729) % 5_000_000 + WRITTEN * number


def _commits(topics: Sequence[str], number: int) -> CommitColumns:
    """The commits of every fifth group."""
    chosen = range(number % COMMITS_IN, len(topics), COMMITS_IN)
    pairs = [OffsetPair(f"group-{topics[at]}", topics[at]) for at in chosen]
    time_ms = _WALL_MS + number * 1_000
    offsets, metadata = list[int](), list[bytes]()
    for at in chosen:
        for partition in range(PARTITIONS):
            offset = _end(number, at, partition) - (5 if at % LAGGING == 0 else 0)
            offsets.append(offset)
            oldest = time_ms - 700 if at % LAGGING == 0 else None
            fields = EnvelopeFields(offset, oldest_ingested_at_ms=oldest, head_ingested_at_ms=time_ms, epoch=7)
            metadata.append(encode(fields).metadata.encode() if at % MEMBERS == 0 else b"")
    count = len(offsets)
    return CommitColumns(
        pairs,
        np.repeat(np.arange(len(pairs)), PARTITIONS),
        np.tile(np.arange(PARTITIONS), len(pairs)),
        np.zeros(count, np.bool_),
        np.array(offsets, np.int64),
        time_ms + np.arange(count) % 1_000,
        metadata,
    )


@dataclass
class Cluster:
    """One cluster: its model at the replica that reads it, what that one shares, and the view of another."""

    name: str
    model: ClusterModel
    topics: Sequence[str]
    exported: ExportedCluster = field(default_factory=ExportedCluster)
    view: ClusterView | None = None

    def second(self, work: "Work", mesh: MeshView, costs: Costs) -> None:
        """Plays one second, and adds up what it costs."""
        now = work.now
        columns = _timed(costs, "read", lambda: self.read(work, mesh))
        _timed(costs, "export", lambda: self.exported.take(columns, now))
        messages = _timed(costs, "send", lambda: self._messages(now))
        costs.sent_bytes += sum(map(len, messages))
        view = _timed(costs, "receive", lambda: self._receive(messages, now))
        shown = _timed(costs, "show", lambda: view.columns(now))
        self.view = view
        assert len(shown) == len(columns), "both show all rows"

    def read(self, work: "Work", mesh: MeshView) -> LagColumns:
        """Does what the cluster's reader does in a second."""
        model, now = self.model, work.now
        model.take(0, work.commits, now.elapsed)
        model.register(mesh)
        model.wanted()
        for look in range(LOOKS):
            model.observe(work.ends, now.elapsed - 0.5 + look / LOOKS)
            for part in model.slices(model.facts(mesh)):
                model.probes_due(part, mesh, now)
        facts = model.facts(mesh)
        return LagColumns.of(facts.keys, [model.lags(part, facts, now) for part in model.slices(facts)])

    def _messages(self, now: Now) -> list[bytes]:
        version = self.view.reading.version if self.view is not None else 0
        exported, now_ms = self.exported, round(now.elapsed * 1_000)
        reading = SharedReading(
            self.name, _PLACE, exported.version, exported.size, exported.needs_all(version), True, now_ms, exported.seen
        )
        first = api.ReadLagColumnsResponse(life="1", now_ms=now_ms, readings=[reading_message(reading)])
        rest = [api.ReadLagColumnsResponse(rows=rows_message(self.name, part)) for part in exported.since(version)]
        return [each.SerializeToString() for each in (first, *rest)]

    def _receive(self, messages: Sequence[bytes], now: Now) -> ClusterView:
        first, *rest = map(api.ReadLagColumnsResponse.FromString, messages)
        answer = Answer(first)
        for message in rest:
            answer.add(message)
        known = {} if self.view is None else {self.name: self.view}
        return answer.views(known, now.elapsed)[self.name]


class World:
    """All clusters, and the memory that they take at readers and at others."""

    def __init__(self, partitions: int) -> None:
        topics = [f"topic-{number:05d}" for number in range(partitions // CLUSTERS // PARTITIONS)]
        names = [f"cluster-{number:02d}" for number in range(CLUSTERS)]
        self.partitions = len(topics) * PARTITIONS * CLUSTERS
        self.number = 1_000
        channels = {
            f"{name}.{topic}/live/1": Channel(f"{name}.{topic}", "live", name, topic, PARTITIONS, Presence.OPEN)
            for name in names
            for topic in topics
        }
        groups = {
            f"group-{topic}": GroupSubscription(frozenset(f"{name}.{topic}" for name in names)) for topic in topics
        }
        self.mesh = MeshView(channels=channels, groups=groups)
        self.clusters = [Cluster(name, ClusterModel(name), topics) for name in names]
        before = _memory()
        for number in range(self.number - COMMITS_IN, self.number):
            work = Work(topics, number)
            for cluster in self.clusters:
                cluster.read(work, self.mesh)
        self.read_bytes, before = _memory() - before, _memory()
        work = Work(topics, self.number)
        for cluster in self.clusters:
            cluster.exported.take(cluster.read(work, self.mesh), work.now)
        self.exported_bytes, before = _memory() - before, _memory()
        self.second()
        self.shown_bytes = _memory() - before

    def second(self) -> Costs:
        """Plays one second of all clusters."""
        self.number += 1
        costs, work = Costs(), Work(self.clusters[0].topics, self.number)
        for cluster in self.clusters:
            cluster.second(work, self.mesh, costs)
        return costs

    @property
    def commits(self) -> int:
        """Commits of a second."""
        return self.partitions // COMMITS_IN


def contest(how: Asked) -> Table:
    """Plays seconds, and adds up what each replica does."""
    world = World(how.units)
    samples: dict[str, list[Sample]] = {ALONE: [], AGAIN: [], **{_name(count): [] for count in REPLICAS}}
    played: list[Costs] = []
    for number in range(how.rounds + 1):
        gc.collect()
        costs, again = world.second(), world.second()
        tell_round(number, how.rounds)
        if not number:
            continue
        played.append(costs)
        found = {ALONE: costs.of(1), AGAIN: again.of(1), **{_name(count): costs.of(count) for count in REPLICAS}}
        for name, seconds in found.items():
            samples[name].append(Sample(world.commits, seconds, seconds))
    table = rows(samples, ALONE, "cpu")
    few, full = (observed_bytes(world.partitions // 10, looks) for looks in (2, 2 * LAG_END_SAMPLES_MAX))
    typical = sorted(played, key=lambda each: each.read)[len(played) // 2]
    facts = {
        "work": f"{world.partitions:,} partitions with a group each on {CLUSTERS} clusters, {world.commits:,} commits "
        f"a second; one group in {LAGGING} behind, one in {MEMBERS} with envelopes",
        "all clusters, CPU of a second": f"read {typical.read:.2f} s, export {typical.export:.2f} s, send "
        f"{typical.send:.2f} s to each, receive {typical.receive:.2f} s, show {typical.show:.2f} s",
        "shared": f"{typical.sent_bytes / 1e6:.1f} MB/s, {typical.sent_bytes / world.commits:.0f} bytes a commit",
        "observed ends": f"{few:.0f} bytes of a log that has hardly grown, {full:.0f} of one that grows at each look",
        **{f"of {count}": _each(world, typical, count) for count in (1, *REPLICAS)},
    }
    return Table("lag_division", "commit", "cpu", verdict(table, AGAIN), facts, table, made_with())


def _each(world: World, costs: Costs, count: int) -> str:
    """Says in words how much one of so many replicas takes."""
    exported = world.exported_bytes / count if count > 1 else 0
    memory = world.read_bytes / count + exported + world.shown_bytes * (count - 1) / count
    return f"{costs.of(count):.2f} s of CPU a refresh, {memory / 1e6:,.0f} MB"


def observed_bytes(logs: int, looks: int) -> float:
    """Returns the memory of a log's name and observed ends, in bytes, after the log grew at each of `looks` looks."""
    topics, each = [f"topic-{number:05d}" for number in range(logs // PARTITIONS)], LAG_ENDS_BATCH // PARTITIONS
    gc.collect()
    tracemalloc.start()
    ends = EndColumns()
    for topic in topics:
        ends.numbers(topic, range(PARTITIONS))
    for look in range(looks):
        for at in range(0, len(topics), each):
            some = (TopicPartition(topic, number) for topic in topics[at : at + each] for number in range(PARTITIONS))
            ends.observe(dict.fromkeys(some, look + 1), look / LOOKS)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / (len(topics) * PARTITIONS)


def _name(count: int) -> str:
    return f"one of {count} replicas"


def _memory() -> int:
    gc.collect()
    found: int = psutil.Process().memory_info().rss
    return found


def _timed(costs: Costs, name: str, work: Callable[[], T]) -> T:
    began = time.process_time()
    found = work()
    setattr(costs, name, getattr(costs, name) + time.process_time() - began)
    return found


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=1_000_000, quick_units=4_000)
    table = contest(how)
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
