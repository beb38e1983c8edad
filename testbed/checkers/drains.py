"""I11: no record is stranded. A channel is drained only once it is sealed and everything in it is done; deleted topics
stay deleted."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from testbed.checkers.checking import Instant
from testbed.checkers.done import HEEDS, DoneOffsets
from testbed.checkers.facts import (
    Appended,
    DrainRecorded,
    EndsRecorded,
    Fact,
    GivenUp,
    LogId,
    SealRecorded,
    StoreBackedUp,
    StoreRestored,
    Subscribed,
    Topic,
    TopicCreated,
    TopicDeleted,
)


@dataclass
class _Channel:
    written: bool = False
    sealed: bool = False
    ends: tuple[int, ...] | None = None
    drained: bool = False
    deleted: bool = False


@dataclass
class _Groups:
    by_lane: dict[str, list[str]] = field(default_factory=dict)


class SafeDrains(Instant):
    """I11, checked at every step of every drain."""

    invariant = "I11 drains"
    heeds = (
        *HEEDS,
        *(Subscribed, SealRecorded, EndsRecorded, DrainRecorded, GivenUp, TopicCreated, TopicDeleted),
        *(StoreBackedUp, StoreRestored),
    )

    def __init__(self) -> None:
        self._done = DoneOffsets()
        self._groups = _Groups()
        self._channels: dict[Topic, _Channel] = {}
        self._backup: dict[Topic, _Channel] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        self._done.see(fact)
        match fact:
            case Subscribed(group=group, lane=lane):
                self._groups.by_lane.setdefault(lane, []).append(group)
            case Appended(place=place, deliverable=deliverable):
                channel = self._channel(Topic(place.cluster, place.topic))
                channel.written = channel.written or deliverable  # what tests a seal is no record
                if channel.sealed:
                    yield f"a record was written to the sealed channel at {place}"
            case SealRecorded(topic=topic, refuses=refuses):
                self._channel(topic).sealed = True
                if not refuses:
                    yield f"{topic} is recorded as sealed and takes records"
            case EndsRecorded():
                yield from self._ends(fact)
            case DrainRecorded():
                yield from self._drained(fact)
            case GivenUp(topic=topic):  # what that may cost is `losses.py`'s
                self._channel(topic).drained = True
            case StoreBackedUp():
                self._backup = {topic: replace(channel) for topic, channel in self._channels.items()}
            case StoreRestored():
                self._restored()
            case TopicCreated(topic=topic):
                if self._channel(topic).deleted:
                    yield f"the deleted {topic} rose again"
            case TopicDeleted(topic=topic):
                self._channel(topic).deleted = True
                if self._channel(topic).written and not self._channel(topic).drained:  # a spare holds nothing
                    yield f"{topic} was deleted before it was drained"
            case _:
                pass

    def _restored(self) -> None:
        """Forgets what was recorded of drains since the backup; written and deleted data stays as it is.

        A spare that was planned since, and deleted without ever holding a record, may be planned again.
        """
        for topic, channel in self._channels.items():
            if topic not in self._backup and not channel.written:
                channel.deleted = False
            before = self._backup.get(topic, _Channel())
            channel.sealed, channel.ends, channel.drained = before.sealed, before.ends, before.drained

    def _ends(self, fact: EndsRecorded) -> Iterator[str]:
        channel = self._channel(fact.topic)
        channel.ends = fact.offsets
        if not channel.sealed:
            yield f"the ends of {fact.topic} were read before it was sealed"
        for partition, end, real in self._real(fact.topic, fact.offsets):
            if end > real:
                yield f"{fact.topic} partition {partition} is recorded to end at {end} and ends at {real}"

    def _drained(self, fact: DrainRecorded) -> Iterator[str]:
        channel = self._channel(fact.topic)
        channel.drained = True
        if not channel.sealed or channel.ends is None:
            yield f"{fact.topic} was drained without a seal"
        # The last reading counts: records that were still being copied may have followed an earlier one.
        for partition, end, real in self._real(fact.topic, channel.ends or ()):
            if end != real:
                yield f"{fact.topic} was drained to {end} of partition {partition}, which ends at {real}"
        for group in self._groups.by_lane.get(fact.lane, ()):
            for partition, end in enumerate(channel.ends or ()):
                log = LogId(*fact.topic, partition)
                left = [offset for offset in range(end) if not self._settled(group, log, offset)]
                if left:
                    yield f"{fact.topic} was drained; {group} has not done {left[:5]} of partition {partition}"

    def _real(self, topic: Topic, ends: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        """Each partition, its recorded end, and its real end."""
        for partition, end in enumerate(ends):
            yield partition, end, self._done.tails.get(LogId(*topic, partition), 0)

    def _settled(self, group: str, log: LogId, offset: int) -> bool:
        return self._done.done(group, log, offset) or self._done.rejected(group, log, offset)

    def _channel(self, topic: Topic) -> _Channel:
        return self._channels.setdefault(topic, _Channel())
