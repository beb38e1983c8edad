"""The model of one cluster's groups and logs, and the rows of lag that follow from it. Pure: it asks nobody.

The shell passes in commits, ends of logs and records read for their time; the model answers what to ask for next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from braid.kernel.ids import ASIDE_GROUP
from braid.kernel.limits.lagmon import LAG_PROGRESS_MAX, LAG_SLICE_ROWS
from braid.kernel.ports import TopicPartition
from services.lagmon.model.ends import LogEnds
from services.lagmon.model.lag import LagRow, RowKey
from services.lagmon.model.mesh_view import Channel, MeshView, Presence
from services.lagmon.policy import (
    Commit,
    Now,
    PartitionProgress,
    RecordProbe,
    has_envelope,
    is_stale,
    live_seconds,
    read_lag,
    undone_offsets,
    wants_probe,
)

K = TypeVar("K", bound=tuple[str, str, int])


class GroupPartition(NamedTuple):
    """The key of one group's progress in one partition."""

    group: str
    topic: str
    partition: int

    @property
    def log(self) -> TopicPartition:
        """The partition's log."""
        return TopicPartition(self.topic, self.partition)


class CommitRead(Protocol):
    """A commit as the offset log states it."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str: ...
    @property
    def commit_time_ms(self) -> int: ...


@dataclass(slots=True)
class ClusterModel:
    """The known groups and logs of one cluster.

    Attributes:
        name: Its name.
        catching_up: Whether its offset log was not read to the end yet.
        progress: What is known by group and partition.
        ends: Logs by partition, of all that progress names.
        missing: Topics that progress names and the cluster does not have.
        left_out: Commits that found no room in `progress`.
    """

    name: str
    catching_up: bool = True
    progress: dict[GroupPartition, PartitionProgress] = field(default_factory=dict)
    ends: dict[TopicPartition, LogEnds] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    left_out: int = 0
    _registered: MeshView | None = None
    _origins: dict[GroupPartition, int] = field(default_factory=dict)
    _wanted: tuple[TopicPartition, ...] | None = None
    _groups: dict[TopicPartition, list[GroupPartition]] = field(default_factory=dict)

    # --- what is told

    def take(self, origin: int, found: Mapping[K, CommitRead | None], heard_at: float) -> None:
        """Commits read from one partition of the offset log; None for those that are gone.

        Args:
            origin: That partition.
            found: The newest commit by (group, topic, partition).
            heard_at: When they were read, or `policy.LONG_AGO` when they were there before.
        """
        for raw, commit in found.items():
            key = GroupPartition._make(raw)
            if commit is None:
                self._drop(key)
                continue
            known = self.progress.get(key)
            if known is None:
                if key.group.startswith(ASIDE_GROUP):  # a copy of what the assigner tells of under the group's own name
                    continue
                if len(self.progress) >= LAG_PROGRESS_MAX:
                    self.left_out += 1
                    continue
                known = self.progress[key] = PartitionProgress()
                self._wanted = None
            known.commit = Commit(commit.offset, commit.metadata, commit.commit_time_ms, heard_at)
            self._origins[key] = origin

    def forget(self, origin: int) -> None:
        """Forgets the commits from one partition of the offset log, which is read anew."""
        for key in [key for key, where in self._origins.items() if where == origin]:
            self._drop(key)

    def register(self, view: MeshView) -> None:
        """Adds registered groups, which lag in open channels they consume and drained ones they have yet to read.

        Also where they never committed.
        """
        if self._registered is view:
            return
        for channel in view.channels.values():
            if channel.cluster != self.name or channel.presence is not Presence.OPEN:
                continue
            for group, subscription in (view.groups or {}).items():
                if subscription.wants(channel):
                    self._expect(group, channel)
        for group, subscription in (view.groups or {}).items():
            for name in subscription.reading:
                read = view.channels.get(name)
                if read is not None and read.cluster == self.name and subscription.lags_in(read):
                    self._expect(group, read)
        for key in [key for key, progress in self.progress.items() if progress.commit is None]:
            if not self._expected(key, view):
                self._drop(key)
        self._registered = view

    def observe(self, ends: Mapping[TopicPartition, int], at: float) -> None:
        """Notes where logs ended at that time."""
        for partition, end in ends.items():
            if partition in self.ends:
                self.ends[partition].observe(end, at)

    def observe_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Notes where logs start."""
        for partition, start in starts.items():
            if partition in self.ends:
                self.ends[partition].start = start

    def probed(self, partition: TopicPartition, offset: int, ingested_at_ms: int | None, at: float) -> None:
        """Notes the time of the record at an undone offset; None when the record did not come."""
        for progress in self._stuck_at(partition, offset):
            progress.probe = RecordProbe(offset, ingested_at_ms, at)

    def no_record(self, partition: TopicPartition, offset: int) -> None:
        """Notes that no application's record lies at an undone offset."""
        for progress in self._stuck_at(partition, offset):
            progress.no_records = progress.no_records.add(offset, offset + 1)

    # --- what is asked

    @property
    def grown(self) -> bool:
        """Whether partitions may have been added since `wanted` was last asked."""
        return self._wanted is None

    def wanted(self) -> Sequence[TopicPartition]:
        """Returns the partitions whose ends matter; keeps their logs in `ends` and forgets others."""
        if self._wanted is None:
            self._groups = {}
            for key in self.progress:
                self._groups.setdefault(key.log, []).append(key)
            self._wanted = tuple(sorted(self._groups))
            self.ends = {partition: self.ends.get(partition) or LogEnds() for partition in self._wanted}
        return self._wanted

    def slices(self) -> Iterator[Sequence[GroupPartition]]:
        """Yields everything known, in parts small enough to be computed at once."""
        keys = list(self.progress)
        return (keys[at : at + LAG_SLICE_ROWS] for at in range(0, len(keys), LAG_SLICE_ROWS))

    def probes_due(self, keys: Iterable[GroupPartition], view: MeshView, now: Now) -> dict[TopicPartition, int]:
        """Returns undone offsets whose records must be read for their time, at most one for each partition."""
        due: dict[TopicPartition, int] = {}
        for key in keys:
            progress, ends = self.progress.get(key), self.ends.get(key.log)
            if progress is None or ends is None or key.log in due or is_stale(ends, now):
                continue
            channel = view.topics.get((self.name, key.topic))
            if not self._is_shown(key, progress, channel, view) or _is_drained(key, channel, view):
                continue
            reading = read_lag(progress, ends, now)
            if wants_probe(progress, reading, ends, now):
                due[key.log] = reading.oldest
        return due

    def rows(self, keys: Iterable[GroupPartition], view: MeshView, now: Now) -> Iterator[LagRow]:
        """Returns a row for each group and partition that is shown."""
        for key in keys:
            progress = self.progress.get(key)
            channel = view.topics.get((self.name, key.topic))
            if progress is not None and self._is_shown(key, progress, channel, view):
                yield self._row(key, progress, channel, view, now)

    # --- how

    def _row(
        self, key: GroupPartition, progress: PartitionProgress, channel: Channel | None, view: MeshView, now: Now
    ) -> LagRow:
        ends = self.ends.get(key.log) or LogEnds()
        reading = read_lag(progress, ends, now, drained=_is_drained(key, channel, view))
        live = live_seconds(progress, ends, now) if reading.records else None
        subscription = view.subscription(key.group)
        ours = subscription is not None or has_envelope(progress)
        age_ms = round((now.elapsed - ends.seen_at) * 1000) if ends.seen_at is not None else now.wall_ms
        return LagRow(
            key=RowKey(
                key.group,
                channel.stream if channel else "",
                channel.lane if channel else "",
                self.name,
                key.topic,
                key.partition,
            ),
            partitions=1,
            lag_records=reading.records,
            lag_seconds=reading.seconds,
            source=reading.source,
            foreign=not ours,
            stale=is_stale(ends, now),
            as_of_ms=now.wall_ms - age_ms,
            committed_offset=progress.commit.offset if progress.commit else -1,
            end_offset=ends.end,
            commit_time_ms=progress.commit.time_ms if progress.commit else 0,
            split_partitions=int(live is not None),
            live_lag_seconds=live or 0.0,
            unattended=subscription is not None and not subscription.attended,
            holder=progress.commit,
        )

    def _is_shown(
        self, key: GroupPartition, progress: PartitionProgress, channel: Channel | None, view: MeshView
    ) -> bool:
        """Whether a row is shown: not for topics that are gone, deleted groups, or lanes no longer consumed."""
        if channel is None:
            return key.topic not in self.missing
        if channel.presence is Presence.RETIRED:
            return False
        subscription = view.subscription(key.group)
        if subscription is not None:
            return subscription.wants(channel)
        return view.groups is None or not has_envelope(progress)

    def _expect(self, group: str, channel: Channel) -> None:
        for partition in range(channel.partitions):
            key = GroupPartition(group, channel.topic, partition)
            if key not in self.progress and len(self.progress) < LAG_PROGRESS_MAX:
                self.progress[key] = PartitionProgress()
                self._wanted = None

    def _expected(self, key: GroupPartition, view: MeshView) -> bool:
        channel, subscription = view.topics.get((self.name, key.topic)), view.subscription(key.group)
        return channel is not None and subscription is not None and subscription.lags_in(channel)

    def _drop(self, key: GroupPartition) -> None:
        """Drops a row; `register` adds a registered group again when it is next called."""
        if self.progress.pop(key, None) is not None:
            self._wanted = self._registered = None
        self._origins.pop(key, None)

    def _stuck_at(self, partition: TopicPartition, offset: int) -> Iterator[PartitionProgress]:
        """Returns the groups whose oldest undone record in a partition is this one."""
        self.wanted()
        for key in self._groups.get(partition, ()):
            progress = self.progress[key]
            if undone_offsets(progress, self.ends[partition]).start == offset:
                yield progress


def _is_drained(key: GroupPartition, channel: Channel | None, view: MeshView) -> bool:
    """Whether nothing is left for the group: the channel is drained, and the group does not read it."""
    if channel is None or channel.presence is not Presence.DRAINED:
        return False
    subscription = view.subscription(key.group)
    return subscription is None or not subscription.lags_in(channel)
