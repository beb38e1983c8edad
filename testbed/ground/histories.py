"""The services' histories, read through the public `ListEvents` during a run, and converted to facts.

An event that was read once must never read differently, from whichever replica, unless an older store was restored.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from braid.api.assigner.v1.events_pb2 import AssignerEvent
from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.events_pb2 import ChannelPlanned, ChannelRef, RegistryEvent
from braid.kernel.ports import HistoryId
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.histories.kinds import AnyKind
from services.assigner.reconciler.group_loop import GROUPS
from services.registry.codec.events import read_ranges
from services.registry.histories import CLUSTERS, STREAMS
from testbed.checkers import facts
from testbed.checkers.facts import Fact, Topic
from testbed.ground.clock_offsets import ClockOffsets, now_ms
from testbed.ground.load import GROUP

PAGE = 500
KINDS: Mapping[tuple[str, str], AnyKind] = {
    ("registry", CLUSTERS.name): CLUSTERS,
    ("registry", STREAMS.name): STREAMS,
    ("assigner", GROUPS.name): GROUPS,
}
Records = dict[str, dict[int, EventRecord]]
_NEVER_MS = 1 << 62


class Restore(NamedTuple):
    """A restore of the store from a backup.

    Attributes:
        backed_up_ms: When the backup was taken (wall clock).
        restored_ms: When it replaced the store.
        kept: Sequence of the last event in the backup, by history.
        records: All events read before, by history and sequence.
    """

    backed_up_ms: int
    restored_ms: int
    kept: Mapping[str, int]
    records: Records


class HistoryPart(NamedTuple):
    """A part of a history, and the period in which it was written."""

    first_ms: int
    last_ms: int
    records: Sequence[EventRecord]


@dataclass
class Histories:
    """All events that were read so far.

    Attributes:
        records: Events of the present store, by history and sequence.
        changed: Events that read differently a second time.
        absent: Events that were read before and were missing at the last reading, by service.
        offsets: Offsets of the wall clocks that date events.
        restores: Restores, in order.
    """

    records: Records = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    absent: dict[str, list[str]] = field(default_factory=dict)
    offsets: ClockOffsets = field(default_factory=ClockOffsets)
    restores: list[Restore] = field(default_factory=list)
    _read_ms: dict[str, int] = field(default_factory=dict)

    async def read(self, name: str, service: ServiceClient) -> None:
        """Reads all present events of a service. Raises `BraidError` if it does not answer."""
        begun, token = now_ms(), ""
        told: set[tuple[str, int]] = set()
        while True:
            request = ListEventsRequest(page_size=PAGE, page_token=token)
            answer = await service.unary("ListEvents", request, ListEventsResponse)
            for record in answer.events:
                self.keep(record, self._read_ms.get(name, 0), now_ms())
                told.add((record.history, record.sequence))
            token = answer.next_page_token
            if not token:
                break
        self._read_ms[name] = begun
        self.absent[name] = self._absent(name, told)

    def _absent(self, name: str, told: Collection[tuple[str, int]]) -> list[str]:
        return [
            f"{history}@{sequence} is told no more"
            for history, records in self.records.items()
            if history.startswith(f"{name}/")
            for sequence in records
            if (history, sequence) not in told
        ]

    def restored(self, backed_up_ms: int, restored_ms: int, kept: Mapping[str, int]) -> None:
        """Notes a restore: histories continue from the kept events; later ones belong to another past."""
        self.restores.append(Restore(backed_up_ms, restored_ms, kept, self.records))
        self.records = {
            history: {sequence: record for sequence, record in records.items() if sequence <= kept[history]}
            for history, records in self.records.items()
            if history in kept
        }

    def of(self, service: str, stream: str) -> list[EventRecord]:
        """A stream's events, in the order in which they were written."""
        history = str(HistoryId(service, "stream", stream))
        return [record for stretch in self.stretches(history) for record in stretch.records]

    def stretches(self, history: str) -> Iterator[HistoryPart]:
        """The parts of a history: up to a backup, from there to its restore, and since the last restore."""
        first_ms, told = 0, 0
        for restore in self.restores:
            records, kept = restore.records.get(history, {}), restore.kept.get(history, 0)
            yield HistoryPart(first_ms, restore.backed_up_ms - 1, _between(records, told, kept))
            yield HistoryPart(restore.backed_up_ms + 1, restore.restored_ms - 1, _between(records, max(told, kept)))
            first_ms, told = restore.restored_ms + 1, kept
        yield HistoryPart(first_ms, _NEVER_MS, _between(self.records.get(history, {}), told))

    def facts(self, refuses: Mapping[Topic, bool]) -> list[tuple[int, Fact]]:
        """The facts in the histories, each with its wall-clock time in milliseconds; in order per history.

        Args:
            refuses: For topics recorded as sealed, whether they refused an append when it was tried.
        """
        histories = {*self.records, *(history for each in self.restores for history in each.records)}
        told = (_Telling(history, list(self.stretches(history)), refuses) for history in sorted(histories))
        return [*self._restore_facts(), *(fact for each in told for fact in each.facts())]

    def _restore_facts(self) -> Iterator[tuple[int, Fact]]:
        for restore in self.restores:
            yield restore.backed_up_ms, facts.StoreBackedUp()
            yield restore.restored_ms, facts.StoreRestored()

    def sealed_ms(self, stream: str) -> dict[Topic, int]:
        """When each of a stream's topics was recorded as sealed."""
        history = str(HistoryId("registry", "stream", stream))
        told = _Telling(history, list(self.stretches(history)), {}).facts()
        return {fact.topic: at for at, fact in told if isinstance(fact, facts.SealRecorded)}

    def failovers(self, stream: str, since_ms: int) -> int:
        """How often a stream has left a cluster automatically since a moment."""
        events = (
            RegistryEvent.FromString(record.data).traffic_moved
            for record in self.of("registry", stream)
            if record.metadata.time_ms >= since_ms
        )
        return sum(bool(event.draining) and not event.planned and not event.asked_for for event in events)

    def keep(self, record: EventRecord, since_ms: int = 0, until_ms: int = _NEVER_MS) -> None:
        """Stores an event; notes it if it was read before with other content.

        Args:
            record: The event. Its date is converted to the machine's time, whatever its leader's clock was.
            since_ms: When the last reading began that did not contain this event, if it is new (wall clock).
            until_ms: The present.
        """
        if (known := self.records.setdefault(record.history, {}).get(record.sequence)) is None:
            record.metadata.time_ms = self.offsets.true_ms(record.metadata.time_ms, since_ms, until_ms)
            self.records[record.history][record.sequence] = record
        elif known.data != record.data:
            self.changed.append(f"{record.history}@{record.sequence} is not what it was")


def _between(records: Mapping[int, EventRecord], after: int, last: int = _NEVER_MS) -> list[EventRecord]:
    return [records[sequence] for sequence in sorted(records) if after < sequence <= last]


class _Telling:
    """Converts one history to facts. Its clock never runs backwards: sequences determine the order."""

    def __init__(self, history: str, stretches: Sequence[HistoryPart], refuses: Mapping[Topic, bool]) -> None:
        self._history = HistoryId(*history.split("/", 2))
        self._stretches = stretches
        self._topics: dict[tuple[str, int], Topic] = {}
        self._refuses = refuses

    def facts(self) -> Iterator[tuple[int, Fact]]:
        for first_ms, last_ms, records in self._stretches:
            now = first_ms
            for _, decided in groupby(records, key=lambda record: str(record.metadata)):  # who, when and why
                batch = list(decided)
                now = min(max(now, batch[0].metadata.time_ms), last_ms)
                for fact in self._decision(batch):
                    yield now, fact

    def _decision(self, batch: Sequence[EventRecord]) -> Iterator[Fact]:
        events = tuple(record.data for record in batch)
        yield facts.BatchAppended(self._history, batch[0].sequence, events, batch[0].revision)
        for record in batch:  # who really led then is not in a history
            epoch = record.metadata.leader_epoch
            yield facts.EventDecided(self._history.service, epoch, epoch)
            yield from (self._assigner if self._history.service == "assigner" else self._registry)(record)

    def _assigner(self, record: EventRecord) -> Iterator[Fact]:
        event, group = AssignerEvent.FromString(record.data), self._history.id
        for grant in event.leases_granted.grants:
            yield facts.LeaseGranted(group, grant.lease, grant.member, grant.epoch, record.metadata.time_ms)
        for freed in event.leases_released.leases:
            yield facts.LeaseFreed(group, freed.lease, freed.epoch)
        # Of the mesh's own group on the dlq lane no log of work is kept here; its own tests hold its promises.
        if event.HasField("group_registered") and group == GROUP:
            for lane in event.group_registered.spec.lanes or ("live", "bulk"):
                yield facts.Subscribed(group, lane)

    def _registry(self, record: EventRecord) -> Iterator[Fact]:
        event = RegistryEvent.FromString(record.data)
        match event.WhichOneof("event"):
            case "channel_planned":
                self._planned(event.channel_planned)
            case "channel_sealed":  # where its cluster died at once nobody could try it: that is no evidence against it
                topic = self._topic(event.channel_sealed.channel)
                yield facts.SealRecorded(topic, self._refuses.get(topic, True))
            case "end_offsets_read":
                topic = self._topic(event.end_offsets_read.channel)
                yield facts.EndsRecorded(topic, tuple(event.end_offsets_read.offsets))
            case "channel_drained":
                ref = event.channel_drained.channel
                yield facts.DrainRecorded(self._topic(ref), ref.lane)
            case "records_lost":
                yield facts.LossRecorded(
                    self._topic(event.records_lost.channel), read_ranges(event.records_lost.ranges)
                )
            case "channel_closed":
                yield facts.GivenUp(
                    self._topic(event.channel_closed.channel), read_ranges(event.channel_closed.given_up)
                )
            case _:
                pass

    def _planned(self, planned: ChannelPlanned) -> None:
        self._topics[planned.lane, planned.generation] = Topic(planned.cluster, planned.topic)

    def _topic(self, ref: ChannelRef) -> Topic:
        return self._topics[ref.lane, ref.generation]
