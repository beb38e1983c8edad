"""Lag of 45,000 groups of 20 partitions on 10 clusters, refreshed once a second: `python -m bench.lag_scale`.

A refresh is what the lag monitor does in a second. It takes the commits of a fifth of all groups. It notes the ends of
all logs twice, and looks twice for groups that stall. Then it computes the lag of every row. The peer computes each row
by itself, as the policy states it, for a part of the groups. Decoding is another benchmark: `bench.lag_decode`.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.request import urlopen

import numpy as np
import psutil

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.kafka.offset_log.commits import CommitColumns, OffsetPair
from braid.kernel.envelope import encode
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from braid.kernel.timing.slices import finished
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.metrics.otlp import metrics_data
from braid.runtime.metrics.server import MetricsServer
from braid.telemetry.exporting import resource_of
from services.lagmon.columns.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.pages import page_of
from services.lagmon.columns.pairs import pairs_of
from services.lagmon.columns.shown_lag import ShownLag
from services.lagmon.domain import ClusterModel
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, Source
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import LONG_AGO, Now, live_seconds, read_lag, wants_probe
from services.lagmon.servicer.exporter_metrics import Exporter
from services.lagmon.servicer.metrics import Gauges

PEER: Final = "row by row"
AGAIN: Final = "row by row again"
CLUSTERS: Final = 10
PARTITIONS: Final = 20
GROUPS_PER_TOPIC: Final = 20
LOOKS: Final = 2  # a second, at ends of logs and at groups that stall
COMMITS_IN: Final = 5  # seconds between two commits of a group
END: Final = 1_000
LAGGING: Final = 10  # every tenth group is behind
MEMBERS: Final = 5  # every fifth group has members of Braid, which commit envelopes
SCRAPES: Final = 5
NAMED: Final = (1, 400)
PEER_GROUPS: Final = 200  # of one cluster
_WALL_MS: Final = 1_767_225_600_000


class Mesh:
    """Clusters with their groups, at a second of their life."""

    def __init__(self, groups: int) -> None:
        self.each = groups // CLUSTERS
        self.models = [ClusterModel(f"cluster-{number}") for number in range(CLUSTERS)]
        self.second = 0
        self.view = self._view()
        self.logs = {
            TopicPartition(self._topic(topic), partition): END
            for topic in range(-(-self.each // GROUPS_PER_TOPIC))
            for partition in range(PARTITIONS)
        }
        self._commits = [[self._turn(cluster, turn) for turn in range(COMMITS_IN)] for cluster in range(CLUSTERS)]
        for model, turns in zip(self.models, self._commits, strict=True):
            for commits in turns:
                model.take(0, commits, 0.0)
            model.wanted()
            for look in range(80):  # as full as observations of a log become
                model.observe({log: END - 80 + look for log in self.logs}, look / 128)
        self.refresh()
        known, ends = self.models[0].progress, self.models[0].ends
        numbers = known.rows()[: PEER_GROUPS * PARTITIONS].tolist()
        self.alone = [(known.progress_of(row), ends.log_ends(int(known["log"][row]))) for row in numbers]

    def refresh(self) -> list[LagColumns]:
        """One second."""
        self.second += 1
        now = Now(float(self.second), _WALL_MS + self.second * 1_000)
        found = []
        for model, turns in zip(self.models, self._commits, strict=True):
            model.take(0, turns[self.second % COMMITS_IN], now.elapsed)
            model.register(self.view)
            for look in range(LOOKS):
                model.observe(self.logs, now.elapsed - 0.5 + look / LOOKS)
                for part in model.slices(model.facts(self.view)):
                    model.probes_due(part, self.view, now)
            facts = model.facts(self.view)
            found.append(LagColumns.of(facts.keys, [model.lags(part, facts, now) for part in model.slices(facts)]))
        return found

    def row_by_row(self) -> int:
        """The policy's reading of single rows, made rows."""
        now = Now(float(self.second), _WALL_MS + self.second * 1_000)
        made: list[LagRow] = []
        for row, (progress, ends) in enumerate(self.alone):
            reading = read_lag(progress, ends, now)
            wants_probe(progress, reading, ends, now)
            live = live_seconds(progress, ends, now) if reading.records else None
            key = RowKey("g", "s", "live", "east", "t", row)
            made.append(LagRow(key, 1, reading.records, reading.seconds, Source(reading.source), False, False, 0,
                               live_lag_seconds=live or 0.0))  # fmt: skip
        return len(made)

    @property
    def size(self) -> int:
        """Rows."""
        return self.each * CLUSTERS * PARTITIONS

    def _view(self) -> MeshView:
        channels = {
            f"{self._stream(number, topic)}/live/1": Channel(
                self._stream(number, topic), "live", f"cluster-{number}", self._topic(topic), PARTITIONS, Presence.OPEN
            )
            for topic in range(-(-self.each // GROUPS_PER_TOPIC))
            for number in range(CLUSTERS)
        }
        groups = {
            self.group(cluster, number): GroupSubscription(
                frozenset({self._stream(cluster, number // GROUPS_PER_TOPIC)})
            )
            for cluster in range(CLUSTERS)
            for number in range(self.each)
        }
        return MeshView(channels=channels, groups=groups)

    def _turn(self, cluster: int, turn: int) -> CommitColumns:
        """The commits of every fifth group of a cluster."""
        numbers = range(turn, self.each, COMMITS_IN)
        pairs = [OffsetPair(self.group(cluster, number), self._topic(number // GROUPS_PER_TOPIC)) for number in numbers]
        count = len(pairs) * PARTITIONS
        offsets, metadata = [], []
        for number in numbers:
            offset = END - 100 if number % LAGGING == 0 else END
            fields = EnvelopeFields(offset, Ranges([(offset + 2, offset + 9)]), oldest_ingested_at_ms=_WALL_MS)
            text = encode(fields).metadata.encode() if number % MEMBERS == 0 else b""
            offsets += [offset] * PARTITIONS
            metadata += [text] * PARTITIONS
        return CommitColumns(
            pairs,
            np.repeat(np.arange(len(pairs)), PARTITIONS),
            np.tile(np.arange(PARTITIONS), len(pairs)),
            np.zeros(count, np.bool_),
            np.array(offsets, np.int64),
            np.full(count, _WALL_MS),
            metadata,
        )

    def group(self, cluster: int, number: int) -> str:
        """Returns the name of a group of a cluster."""
        return f"group-{cluster}-{number:06d}"

    def _stream(self, cluster: int, topic: int) -> str:
        return f"stream-{cluster}-{topic:05d}"

    def _topic(self, topic: int) -> str:
        return f"braid.{topic:05d}.live.1"


class Contest:
    """Seconds of one mesh, in columns and row by row."""

    def __init__(self, groups: int) -> None:
        self.mesh = Mesh(groups)

    def contestants(self) -> dict[str, Contestant]:
        """Returns who plays, by name."""

        async def braid() -> int:
            return sum(map(len, self.mesh.refresh()))

        async def peer() -> int:
            return self.mesh.row_by_row()

        return {PEER: peer, AGAIN: peer, "braid": braid}


async def contest(how: Asked) -> Table:
    """Plays the rounds, then asks for pages."""
    process = psutil.Process()
    before = process.memory_info().rss
    contestants = Contest(how.units)
    mesh = contestants.mesh
    memory = process.memory_info().rss - before
    found = rows(await play(contestants.contestants(), how.rounds), PEER, "cpu")
    table = mesh.refresh()
    facts = {
        "work": f"{mesh.size:,} rows of {how.units:,} groups with {PARTITIONS} partitions on {CLUSTERS} clusters, "
        f"{len(mesh.logs) * CLUSTERS:,} logs; one group in {LAGGING} behind, one in {MEMBERS} with envelopes; one core",
        "a refresh": f"{found[-1].cpu_micros * mesh.size / 1e6:.2f} s of CPU",
        "memory": f"{memory / 1e6:.0f} MB, {memory / mesh.size:.0f} bytes a row",
        "restart": restart(mesh),
        **{f"rows for {name}": took for name, took in (pages(table) | named(mesh, table)).items()},
        **await gauges(table),
    }
    return Table("lag_scale", "row", "cpu", verdict(found, AGAIN), facts, found, made_with())


def pages(table: Sequence[LagColumns]) -> dict[str, str]:
    """CPU of the first page, and of one in the middle."""
    middle = RowKey("group-5-002250", "", "", "", "", -1)
    found: dict[str, str] = {}
    for detail in Detail:
        first, then = (_timed(partial(page_of, table, Filter(), detail, at, PAGE_SIZE_MAX)) for at in (None, middle))
        found[f"a page of {PAGE_SIZE_MAX}, {detail.name.lower()}s"] = f"{first:.0f} ms, {then:.0f} ms in the middle"
    one = Filter(group="group-5-000007")
    found["one group"] = f"{_timed(partial(page_of, table, one, Detail.PARTITION, None, PAGE_SIZE_MAX)):.1f} ms"
    return found


def named(mesh: Mesh, table: Sequence[LagColumns]) -> dict[str, str]:
    """CPU of rows of named groups that are computed anew, as the console asks for those in sight."""
    now = Now(float(mesh.second), _WALL_MS + mesh.second * 1_000)
    found: dict[str, str] = {}
    for count in NAMED:
        groups = frozenset(mesh.group(number % CLUSTERS, number // CLUSTERS) for number in range(count))

        def ask(groups: frozenset[str]) -> None:
            parts = [
                finished(model.renewing(part, groups, mesh.view, now))
                for model, part in zip(mesh.models, table, strict=True)
                if len(pairs_of(part.keys, groups))
            ]
            page_of(parts, Filter(groups=groups), Detail.LANE, None, PAGE_SIZE_MAX)

        found[f"{count} named, anew"] = f"{_timed(partial(ask, groups)):.1f} ms"
    return found


async def gauges(table: Sequence[LagColumns]) -> dict[str, str]:
    """CPU of showing a table to gauges and of reading them, and the longest time for which readers hold the loop."""
    registry, off_loop = MetricRegistry(), asyncio.get_running_loop().run_in_executor
    shown = Gauges(registry, (Exporter.KAFKA_EXPORTER,))
    server = MetricsServer("127.0.0.1", 0, registry, None, clients_proved=False)
    lag = ShownLag(table, [part.of_streams() for part in table])
    found = {"gauges, on the loop": f"{_timed(partial(shown.show, lag)):.2f} ms"}
    readers: dict[str, Callable[[], int]] = {
        "a scrape": lambda: len(urlopen(server.url).read()),  # our own server
        "a state by OTLP": lambda: sum(1 for _ in metrics_data(registry, resource_of("bench", ""), 0, 1)),
    }
    for name, read in readers.items():
        held, began = list[float](), time.process_time()
        for _ in range(SCRAPES):
            shown.show(ShownLag(table, [part.of_streams() for part in table]))
            reading = off_loop(None, read)
            before = time.process_time()  # what others do on this core holds nothing up
            while not reading.done():
                await asyncio.sleep(0)
                held.append((time.process_time() - before) * 1e3)
                before = time.process_time()
        cpu = (time.process_time() - began) / SCRAPES
        found[name] = f"{cpu:.2f} s of CPU beside the loop, which waits {max(held):.0f} ms at most"
    server.close()
    return found


def restart(mesh: Mesh) -> str:
    """CPU of writing checkpoints of all clusters, and of models that begin with them."""
    written: list[bytes] = []

    def write() -> None:
        written[:] = [
            write_checkpoint(Checkpoint(bytes(16), _WALL_MS, [0], [-1], *model.progress.commits()))
            for model in mesh.models
        ]

    def begin() -> None:
        for data in written:
            model = ClusterModel("again")
            for commits in read_checkpoint(data).commits(0):
                model.take(0, commits, LONG_AGO)

    saved, begun = _timed(write), _timed(begin)
    size = sum(map(len, written)) / 1e6
    return f"{size:.0f} MB of checkpoints, written in {saved / 1e3:.1f} s, taken in {begun / 1e3:.1f} s of CPU"


def _timed(work: Callable[[], object]) -> float:
    took = []
    for _ in range(3):
        began = time.process_time()
        work()
        took.append((time.process_time() - began) * 1e3)
    return min(took)


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=45_000, quick_units=500)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
