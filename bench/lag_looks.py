"""Alerts and kept lag of 45,000 groups of 20 partitions on 10 clusters, once a second: `python -m bench.lag_looks`.

A look of alerts sums all rows by lane, applies the rules and moves their clocks. A sample of kept lag sums them again.
Both give way between slices: the longest slice is how long other calls wait. The peer makes a row of each
partition and sums these by lane, for a part of the groups. `bench.lag_scale` is about computing lag itself.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

import numpy as np
import psutil

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from bench.lag_scale import PARTITIONS, Mesh
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import TopicPartition
from services.lagmon.alerts.decisions.evaluation import Evaluation, Look
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    Facts,
    GroupFacts,
    Health,
    StreamFacts,
    TopicFacts,
    keeps_seconds,
    lane_lags,
)
from services.lagmon.codec import lag_message
from services.lagmon.columns.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from services.lagmon.columns.lags import LagColumns, LagRows, Lags
from services.lagmon.columns.pages import page_of
from services.lagmon.domain import ClusterModel
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.model.lag import Detail, Filter, LagRow
from services.lagmon.policy import LONG_AGO, Now

PEER: Final = "row by row"
AGAIN: Final = "row by row again"
PEER_ROWS: Final = 4_000
LOOKS: Final = 20  # of a mesh in which everything is behind: until all alerts of that fire


class Slices(NamedTuple):
    """Milliseconds of CPU of a computation, and of its longest slice."""

    every: float
    longest: float


class Watched:
    """A replica's state from look to look, and the mesh that it looks at."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.facts = facts_of(mesh)
        self.table = mesh.refresh()
        self.now = 0.0
        self._evaluation = Evaluation()
        self._sampler, self._sample = Sampler(), Sample(Now(0.0, 0))
        self._keeps = keeps_seconds(self.facts)

    def look(self, table: Sequence[LagColumns] | None = None) -> Slices:
        """A look of alerts, a second after the one before."""
        self.now += 1.0
        found = Look(LagRows(self.table if table is None else table), True)
        return sliced(self._evaluation.looking(found, self.facts, (), self.now, int(self.now * 1_000)))

    def sum_plainly(self) -> int:
        """The peer's sums of lanes, the first part of a look."""
        rows = LagRows(self.table)[:PEER_ROWS]
        lane_lags(rows, frozenset(), self._keeps)
        return len(rows)

    def sample(self) -> Slices:
        """A sample of kept lag, a second after the one before."""
        self.now += 1.0
        before, self._sample = self._sample, Sample(Now(self.now, int(self.now * 1_000)), (), self._sample)
        taken = sliced(self._sample.taking(LagRows(self.table)))
        del before
        added = sliced(self._sampler.observing(self._sample))
        return Slices(taken.every + added.every, max(taken.longest, added.longest))


def sliced(work: Generator[None, None, object]) -> Slices:
    """Times every slice of a computation."""
    took: list[float] = []
    while True:
        began = time.process_time()
        try:
            next(work)
        except StopIteration:
            took.append((time.process_time() - began) * 1e3)
            return Slices(sum(took), max(took))
        took.append((time.process_time() - began) * 1e3)


def facts_of(mesh: Mesh) -> Facts:
    """The mesh as the registry and the assigner describe it: every stream has a target, and topics keep a week."""
    streams = {
        each.stream: StreamFacts(
            {"live": 5.0},
            clusters=frozenset({each.cluster}),
            topics={(each.cluster, each.topic): TopicFacts("live", 604_800.0)},
        )
        for each in mesh.view.channels.values()
    }
    clusters = {model.name: ClusterFacts(Health.WELL, "") for model in mesh.models}
    groups = {name: GroupFacts(tuple(each.streams)) for name, each in (mesh.view.groups or {}).items()}
    return Facts(streams, clusters, groups=groups)


def all_behind(table: Sequence[LagColumns]) -> list[LagColumns]:
    """The same rows when no group has a member any more, a quarter of an hour later."""
    found: list[LagColumns] = []
    for part in table:
        count = len(part)
        seconds, records = np.full(count, 900.0), np.full(count, 50)
        lags = part.lags._replace(seconds=seconds, records=records, unattended=np.ones(count, np.bool_))
        found.append(LagColumns(part.keys, lags, part.starts))
    return found


class Contest:
    """Looks at one mesh, in columns and row by row."""

    def __init__(self, groups: int) -> None:
        self.mesh = Mesh(groups)
        before = psutil.Process().memory_info().rss
        self.watched = Watched(self.mesh)
        self.first = self.watched.look()
        self.memory = psutil.Process().memory_info().rss - before
        gc.collect()
        gc.freeze()  # a look through all objects of the mesh is no part of a slice

    def contestants(self) -> dict[str, Contestant]:
        """Returns who plays, by name."""

        async def braid() -> int:
            self.watched.look()
            return self.mesh.size

        async def peer() -> int:
            return self.watched.sum_plainly()

        return {PEER: peer, AGAIN: peer, "braid": braid}


async def contest(how: Asked) -> Table:
    """Plays the rounds, then everything at once, pages and a restart."""
    looks = Contest(how.units)
    mesh, watched = looks.mesh, looks.watched
    found = rows(await play(looks.contestants(), how.rounds), PEER, "cpu")
    usual = [watched.look() for _ in range(LOOKS)]
    samples = [watched.sample() for _ in range(LOOKS)]
    outage = all_behind(watched.table)
    fired = [watched.look(outage) for _ in range(LOOKS)]
    facts = {
        "work": f"{mesh.size:,} rows of {how.units:,} groups with {PARTITIONS} partitions, all with targets; one core",
        "the first look": said([looks.first]),
        "a look": said(usual),
        "a look while all groups are behind": said(fired),
        "a sample of kept lag": said(samples),
        "memory beside the mesh's": f"{looks.memory / 1e6:.0f} MB",
        **{f"ListLag, a page of {PAGE_SIZE_MAX} {name}": took for name, took in pages(watched.table).items()},
        "restart": restart(mesh),
    }
    return Table("lag_looks", "row", "cpu", verdict(found, AGAIN), facts, found, made_with())


def said(found: Sequence[Slices]) -> str:
    """The usual cost, and the longest slice of any."""
    usual = sorted(each.every for each in found)[len(found) // 2]
    typical = sorted(each.longest for each in found)[len(found) // 2]
    longest = max(each.longest for each in found)
    return f"{usual:.0f} ms of CPU, its longest slice {typical:.0f} ms; {longest:.0f} ms at most"


def pages(table: Sequence[LagColumns]) -> dict[str, str]:
    """CPU of an answer of `ListLag`, its message included."""
    found: dict[str, str] = {}
    for detail in Detail:
        began = time.process_time()
        page, _ = page_of(table, Filter(), detail, None, PAGE_SIZE_MAX)
        api.ListLagResponse(lags=[lag_message(row) for row in page]).SerializeToString()
        found[f"{detail.name.lower()}s"] = f"{(time.process_time() - began) * 1e3:.0f} ms"
    return found


def restart(mesh: Mesh) -> str:
    """CPU from checkpoints' bytes to a full table, a look, a sample and a page, in models that begin with nothing."""
    written = [
        (model.name, write_checkpoint(Checkpoint(bytes(16), 0, [0], [-1], *model.progress.commits())))
        for model in mesh.models
    ]
    began = time.process_time()
    saved = [(name, read_checkpoint(data)) for name, data in written]  # in a thread of the service
    table: list[LagColumns] = []
    begun = sliced(beginning(mesh, saved, table))
    shown: list[LagRow] = page_of(table, Filter(), Detail.LANE, None, PAGE_SIZE_MAX)[0]
    looked = sliced(Evaluation().looking(Look(LagRows(table), True), facts_of(mesh), (), 1.0, 1_000))
    sampled = sliced(Sample(Now(1.0, 1_000)).taking(LagRows(table)))
    took = time.process_time() - began
    size, of_looks = sum(len(data) for _, data in written) / 1e6, (looked.every + sampled.every) / 1e3
    return (
        f"{took:.1f} s of CPU from {size:.0f} MB of checkpoints to all rows, the first {len(shown):,} lanes, and the "
        f"first look and sample, which are {of_looks:.1f} s of it; its longest slice {begun.longest:.0f} ms"
    )


def beginning(
    mesh: Mesh, saved: Sequence[tuple[str, Checkpoint]], table: list[LagColumns]
) -> Generator[None, None, None]:
    """Does what the service does at a start, and gives way where it does."""
    for name, checkpoint in saved:
        model = ClusterModel(name)
        yield from model.registering(mesh.view)
        for commits in checkpoint.commits(0):
            model.take(0, commits, LONG_AGO)
            yield
        for at in (None, 1.0):  # the first table comes before the ends of logs
            if at is not None:
                logs = ((log, mesh.logs.get(TopicPartition(*log))) for log in model.wanted())
                model.observe({log: end for log, end in logs if end is not None}, at)
                yield
            now = Now(at or 0.5, 1_000)
            facts, parts = model.facts(mesh.view), list[Lags]()
            for part in model.slices(facts):
                parts.append(model.lags(part, facts, now))
                yield
            found = LagColumns.of(facts.keys, parts)
            yield
        table.append(found)


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=45_000, quick_units=500)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
