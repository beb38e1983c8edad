"""The model of one cluster's groups and logs, and the lag that follows from it. Pure: it asks nobody.

The shell passes in commits, ends of logs and records read for their time; the model answers what to ask for next.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from braid.kernel.ids import ASIDE_GROUP
from braid.kernel.limits.lagmon.sampling import LAG_COLUMN_ROWS, LAG_COSTLY_ROWS, LAG_PROGRESS_MAX, LAG_SLICE_ROWS
from braid.kernel.ports import TopicPartition
from braid.kernel.timing.slices import finished
from services.lagmon.columns.ends import EndColumns
from services.lagmon.columns.lags import LagColumns, Lags
from services.lagmon.columns.pairs import PairFacts, pair_facts, pairs_of
from services.lagmon.columns.progress import Kind, PairName, ProgressColumns
from services.lagmon.columns.readings import costly_rows, may_want_probe, read_rows, stale_rows
from services.lagmon.columns.sample_pools import tick_before
from services.lagmon.model.lag import Source
from services.lagmon.model.mesh_view import Channel, MeshView
from services.lagmon.policy import Now

_Ints = NDArray[np.int64]


class CommitsRead(Protocol):
    """The newest commits of many keys as the offset log states them; see `offset_log.commits.CommitColumns`."""

    @property
    def pairs(self) -> Sequence[tuple[str, str]]: ...
    @property
    def pair(self) -> _Ints: ...
    @property
    def partitions(self) -> _Ints: ...
    @property
    def gone(self) -> NDArray[np.bool_]: ...
    @property
    def offsets(self) -> _Ints: ...
    @property
    def times_ms(self) -> _Ints: ...
    @property
    def metadata(self) -> Sequence[bytes]: ...


class ClusterModel:
    """The known groups and logs of one cluster.

    Attributes:
        name: Its name.
        catching_up: Whether its offset log was not read to the end yet.
        progress: What is known by group and partition.
        ends: Logs that progress names.
        missing: Topics that progress names and the cluster does not have.
        left_out: Commits that found no room in `progress`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.catching_up = True
        self.progress = ProgressColumns()
        self.ends = EndColumns()
        self.missing: frozenset[str] = frozenset()
        self.left_out = 0
        self._registered: MeshView | None = None
        self._drops = 0  # times rows were dropped
        self._wanted: tuple[TopicPartition, ...] | None = None
        self._facts: tuple[MeshView, frozenset[str], int, PairFacts] | None = None

    # --- what is told

    def take(self, origin: int, found: CommitsRead, heard_at: float) -> None:
        """Takes commits read from one partition of the offset log.

        Args:
            origin: That partition.
            found: The newest commit of each key, or that it is gone.
            heard_at: When they were read, or `policy.LONG_AGO` when they were there before.
        """
        known = self.progress
        numbers = np.array([self._pair_number(pair) for pair in found.pairs], np.int64)
        pairs = numbers[found.pair] if len(numbers) else np.zeros(0, np.int64)
        rows = known.find(pairs, found.partitions)
        rows[pairs < 0] = -1
        new = np.flatnonzero((rows < 0) & ~found.gone & (pairs >= 0))
        room = max(0, LAG_PROGRESS_MAX - len(known))
        if len(new) > room:
            self.left_out += len(new) - room
            new = new[:room]
        if len(new):
            rows[new] = self._add(pairs[new], found.partitions[new])
        live = np.flatnonzero((rows >= 0) & ~found.gone)
        if len(live):
            metadata = found.metadata if len(live) == len(rows) else [found.metadata[at] for at in live.tolist()]
            known.commit(rows[live], found.offsets[live], found.times_ms[live], metadata, origin, heard_at)
        self._drop(rows[(rows >= 0) & found.gone])
        for number in numbers[numbers >= 0].tolist():
            known.release(number)

    def forget(self, origin: int) -> None:
        """Forgets the commits from one partition of the offset log, which is read anew."""
        rows = self.progress.rows()
        self._drop(rows[self.progress["origin"][rows] == origin])

    def register(self, view: MeshView) -> None:
        """Does all of `registering` at once."""
        finished(self.registering(view))

    def registering(self, view: MeshView) -> Generator[None, None, None]:
        """Adds registered groups, which lag in open channels they consume and drained ones they have yet to read.

        Also where they never committed. Yields between groups; what was dropped meanwhile is added the next time.
        """
        if self._registered is view:
            return
        drops, work = self._drops, 0
        streams: dict[str, list[Channel]] = {}
        for channel in view.channels.values():
            if channel.cluster == self.name:
                streams.setdefault(channel.stream, []).append(channel)
        for group, subscription in (view.groups or {}).items():
            work += 1
            for stream in subscription.streams:
                for channel in streams.get(stream, ()):
                    if subscription.lags_in(channel):
                        work += self._expect(group, channel)
            for name in subscription.reading:
                read = view.channels.get(name)
                if read is not None and read.cluster == self.name and subscription.lags_in(read):
                    work += self._expect(group, read)
            if work >= LAG_SLICE_ROWS:
                work = 0
                yield
        yield
        rows, undisturbed = self.progress.rows(), drops == self._drops
        expected = rows[self.progress["kind"][rows] == Kind.EXPECTED]
        wanted = self.facts(view).expected[self.progress["pair"][expected]]
        self._drop(expected[~wanted])
        self._registered = view if undisturbed else None

    def observe(self, ends: Mapping[TopicPartition, int], at: float) -> None:
        """Notes where logs ended at that time."""
        self.ends.observe(ends, at)

    def recall(self, shown: LagColumns, now: Now) -> None:
        """Takes from another reading of the cluster when records were written that groups without envelopes lag behind.

        This model did not see the ends of logs then, and would know these ages as lower bounds alone.
        """
        lags = shown.lags
        weak = (lags.source == Source.ESTIMATE) | (lags.source == Source.UNKNOWN)
        rows = np.flatnonzero(weak & (lags.records > 0) & (lags.seconds > 0) & (lags.committed >= 0))
        found: dict[int, list[tuple[int, float]]] = {}
        for row in rows[:LAG_COLUMN_ROWS].tolist():
            log = self.ends.logs.get(TopicPartition(shown.keys[lags.pair[row]].topic, int(lags.partition[row])))
            if log is not None and not lags.metadata[row]:
                offset, at = int(lags.committed[row]), tick_before(now.elapsed - float(lags.seconds[row]))
                # An estimate lies between two observations, a lower bound before the first.
                estimated = [(offset, at)] if lags.source[row] == Source.ESTIMATE else []
                found.setdefault(log, []).extend([*estimated, (offset + 1, at)])
        for log, samples in found.items():
            samples.sort()
            times = np.maximum.accumulate([at for _, at in samples]).tolist()
            self.ends.recall(log, [(end, at) for (end, _), at in zip(samples, times, strict=True)])

    def observe_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Notes where logs start."""
        self.ends.observe_starts(starts)

    def probed(self, partition: TopicPartition, offset: int, ingested_at_ms: int | None, at: float) -> None:
        """Notes the time of the record at an undone offset; None when the record did not come."""
        rows = self._stuck_at(partition, offset)
        known = self.progress
        known["probe_offset"][rows], known["probe_at"][rows] = offset, at
        known["probe_ms"][rows] = -1 if ingested_at_ms is None else ingested_at_ms

    def no_record(self, partition: TopicPartition, offset: int) -> None:
        """Notes that no application's record lies at an undone offset."""
        for row in self._stuck_at(partition, offset).tolist():
            self.progress.add_no_record(row, offset)

    # --- what is asked

    @property
    def grown(self) -> bool:
        """Whether partitions may have been added since `wanted` was last asked."""
        return self._wanted is None

    def wanted(self) -> Sequence[TopicPartition]:
        """Returns the partitions whose ends matter, and forgets other logs."""
        if self._wanted is None:
            rows = self.progress.rows()
            self.ends.keep(np.unique(self.progress["log"][rows]).tolist())
            self._wanted = tuple(sorted(self.ends.logs))
        return self._wanted

    def slices(self, facts: PairFacts, rows: _Ints | None = None) -> Iterator[_Ints]:
        """Yields sorted rows, in parts small enough to be computed at once; at least one, if empty.

        The size of a part is decided when it is asked for: rows that are read one by one count as many others.
        All rows that are known now, unless `rows` are given.
        """
        known = self.progress
        rows = known.rows() if rows is None else rows
        at, end = 0, max(1, len(rows))
        while at < end:
            part = rows[at : at + LAG_COLUMN_ROWS]
            part = part[known["kind"][part] != Kind.FREE]  # dropped meanwhile
            drained = facts.drained_rows(known, part)
            weights = np.where(costly_rows(known, self.ends, part, drained), LAG_COLUMN_ROWS // LAG_COSTLY_ROWS, 1)
            count = max(1, int(np.searchsorted(np.cumsum(weights), LAG_COLUMN_ROWS, side="right")))
            yield part[:count]
            at = int(np.searchsorted(rows, part[count])) if count < len(part) else at + LAG_COLUMN_ROWS

    def probes_due(self, rows: _Ints, view: MeshView, now: Now) -> dict[TopicPartition, int]:
        """Returns undone offsets whose records must be read for their time, at most one for each partition."""
        known = self.progress
        rows = rows[may_want_probe(known, self.ends, rows)]
        rows = rows[~stale_rows(known, self.ends, rows, now)]
        facts = self.facts(view)
        rows = rows[facts.shown_rows(known, rows) & ~facts.drained[known["pair"][rows]]]
        readings = read_rows(known, self.ends, rows, np.zeros(len(rows), np.bool_), now)
        due: dict[TopicPartition, int] = {}
        for at in np.flatnonzero(readings.probe).tolist():
            name = known.pairs[int(known["pair"][rows[at]])]
            assert name is not None, "it has rows"
            due.setdefault(TopicPartition(name.topic, int(known["partition"][rows[at]])), int(readings.oldest[at]))
        return due

    def lags(self, rows: _Ints, facts: PairFacts, now: Now) -> Lags:
        """Computes the lag of those of the rows that are shown."""
        known, ends = self.progress, self.ends
        rows = rows[known["kind"][rows] != Kind.FREE]
        rows = rows[facts.shown_rows(known, rows)]
        pairs, logs = known["pair"][rows], known["log"][rows]
        readings = read_rows(known, ends, rows, facts.drained[pairs], now)
        seen_at = ends.seen_at[logs]
        age_ms = np.where(np.isnan(seen_at), now.wall_ms, np.rint((now.elapsed - np.nan_to_num(seen_at)) * 1000))
        has_commit, has_envelope = known["kind"][rows] > Kind.EXPECTED, known["kind"][rows] > Kind.PLAIN
        return Lags(
            pair=facts.rank[pairs],
            partition=known["partition"][rows],
            records=readings.records,
            seconds=readings.seconds,
            live_seconds=readings.live,
            source=readings.source,
            foreign=~(facts.registered[pairs] | has_envelope),
            stale=stale_rows(known, ends, rows, now),
            unattended=facts.unattended[pairs],
            as_of_ms=now.wall_ms - age_ms.astype(np.int64),
            committed=known["committed"][rows],
            end=ends.ends[logs],
            commit_time_ms=np.where(has_commit, known["time_ms"][rows], 0),
            has_commit=has_commit,
            metadata=known.metadata(rows),
        )

    def renewing(
        self, shown: LagColumns, groups: Collection[str], view: MeshView, now: Now
    ) -> Generator[None, None, LagColumns]:
        """Computes the rows of some groups anew: those of a table that are still there. Yields between parts."""
        pairs = pairs_of(shown.keys, groups)
        names = [PairName(key.group, key.topic) for key in map(shown.keys.__getitem__, pairs.tolist())]
        numbers = np.repeat(self.progress.numbers(names), np.diff(shown.starts)[pairs])
        rows = self.progress.find(numbers, shown.lags.partition[shown.spans(pairs)])
        facts, parts = self.facts(view), list[Lags]()
        for part in self.slices(facts, np.sort(rows[rows >= 0])):
            if parts:
                yield
            parts.append(self.lags(part, facts, now))
        return LagColumns.of(facts.keys, parts)

    def facts(self, view: MeshView) -> PairFacts:
        """Returns what the mesh says of each group and topic now."""
        known, changes = self._facts, self.progress.pair_changes
        if known is None or known[0] is not view or known[1] != self.missing or known[2] != changes:
            found = pair_facts(self.name, self.progress, view, self.missing)
            known = self._facts = (view, self.missing, changes, found)
        return known[3]

    # --- how

    def _pair_number(self, pair: tuple[str, str]) -> int:
        if pair[0].startswith(ASIDE_GROUP):  # a copy of what the assigner tells of under the group's own name
            return -1
        return self.progress.pair_number(PairName._make(pair))

    def _add(self, pairs: _Ints, partitions: _Ints) -> _Ints:
        """Adds rows without a commit; those of a pair stand together."""
        first = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]]).tolist()
        parts, logs = partitions.tolist(), list[int]()
        for at, end in zip(first, [*first[1:], len(parts)], strict=True):
            name = self.progress.pairs[int(pairs[at])]
            assert name is not None, "it was numbered"
            logs += self.ends.numbers(name.topic, parts[at:end])
        self._wanted = None
        return self.progress.add(pairs, partitions, logs)

    def _expect(self, group: str, channel: Channel) -> int:
        """Adds rows of a group in a channel; returns how many."""
        pair = self.progress.pair_number(PairName(group, channel.topic))
        if self.progress.complete.get(pair) == channel.partitions:
            return 0
        partitions = np.arange(channel.partitions)
        missing = partitions[self.progress.find(np.full(len(partitions), pair), partitions) < 0]
        wanting = len(missing)
        missing = missing[: max(0, LAG_PROGRESS_MAX - len(self.progress))]
        if len(missing):
            self._add(np.full(len(missing), pair), missing)
        if len(missing) == wanting:
            self.progress.complete[pair] = channel.partitions
        self.progress.release(pair)
        return len(missing)

    def _drop(self, rows: _Ints) -> None:
        """Drops rows; `register` adds a registered group again when it is next called."""
        if len(rows):
            self.progress.drop(rows.tolist())
            self._wanted = self._registered = None
            self._drops += 1

    def _stuck_at(self, partition: TopicPartition, offset: int) -> _Ints:
        """Returns the groups whose oldest undone record in a partition is this one."""
        known = self.progress
        rows = known.rows()
        rows = rows[known["log"][rows] == self.ends.logs.get(partition, -1)]
        nowhere = Now(0.0, 0)
        oldest = read_rows(known, self.ends, rows, np.zeros(len(rows), np.bool_), nowhere).oldest
        stuck: _Ints = rows[oldest == offset]
        return stuck


def lag_of(model: ClusterModel, view: MeshView, now: Now) -> LagColumns:
    """Computes the lag of everything that is shown, at once."""
    facts = model.facts(view)
    return LagColumns.of(facts.keys, [model.lags(model.progress.rows(), facts, now)])
