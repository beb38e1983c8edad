"""The services' histories as anybody can read them, through `ListEvents`: gathered while a run goes on, told as facts.

What was read once must read the same ever after, whichever replica answers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from braid.api.assigner.v1.events_pb2 import AssignerEvent
from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.events_pb2 import ChannelPlanned, ChannelRef, RegistryEvent
from braid.kernel.ports import HistoryId
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.kinds import AnyKind
from services.assigner.reconciler_group import GROUPS
from services.registry.codec import read_ranges
from services.registry.histories import CLUSTERS, STREAMS
from tests.e2e.chaos.load import GROUP
from tests.support.checkers import facts
from tests.support.checkers.facts import Fact, Topic

PAGE = 500
KINDS: Mapping[tuple[str, str], AnyKind] = {
    ("registry", CLUSTERS.name): CLUSTERS,
    ("registry", STREAMS.name): STREAMS,
    ("assigner", GROUPS.name): GROUPS,
}


@dataclass
class Histories:
    """All events read so far.

    Attributes:
        records: By history and sequence.
        changed: What read differently a second time.
    """

    records: dict[str, dict[int, EventRecord]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    async def read(self, service: ServiceClient) -> None:
        """Reads everything a service tells now. Raises `BraidError` when it does not answer."""
        token = ""
        while True:
            request = ListEventsRequest(page_size=PAGE, page_token=token)
            answer = await service.unary("ListEvents", request, ListEventsResponse)
            for record in answer.events:
                self.keep(record)
            token = answer.next_page_token
            if not token:
                return

    def of(self, service: str, stream: str) -> list[EventRecord]:
        """A stream's events, in order."""
        records = self.records.get(str(HistoryId(service, "stream", stream)), {})
        return [records[sequence] for sequence in sorted(records)]

    def facts(self, refuses: Mapping[Topic, bool]) -> list[tuple[int, Fact]]:
        """What they tell, with the wall clock of each in milliseconds; each history in order.

        Args:
            refuses: Of topics that are recorded as sealed, whether they refused when that was tried.
        """
        told = (_Telling(history, self.records[history], refuses) for history in sorted(self.records))
        return [fact for each in told for fact in each.facts()]

    def sealed_ms(self, stream: str) -> dict[Topic, int]:
        """When each of a stream's topics was recorded as sealed."""
        history = str(HistoryId("registry", "stream", stream))
        told = _Telling(history, self.records.get(history, {}), {}).facts()
        return {fact.topic: at for at, fact in told if isinstance(fact, facts.SealRecorded)}

    def keep(self, record: EventRecord) -> None:
        """Takes an event; notes it when it was read before and was another."""
        known = self.records.setdefault(record.history, {}).setdefault(record.sequence, record)
        if known.data != record.data:
            self.changed.append(f"{record.history}@{record.sequence} is not what it was")


class _Telling:
    """Tells one history as facts. Its clock never runs backwards: sequences say what was first."""

    def __init__(self, history: str, records: Mapping[int, EventRecord], refuses: Mapping[Topic, bool]) -> None:
        self._history = HistoryId(*history.split("/", 2))
        self._records = [records[sequence] for sequence in sorted(records)]
        self._topics: dict[tuple[str, int], Topic] = {}
        self._refuses = refuses

    def facts(self) -> Iterator[tuple[int, Fact]]:
        now = 0
        for batch in self._decisions():
            now = max(now, batch[0].metadata.time_ms)
            events = tuple(record.data for record in batch)
            yield now, facts.BatchAppended(self._history, batch[0].sequence, events, batch[0].revision)
            for record in batch:  # who really led then is not in a history
                epoch = record.metadata.leader_epoch
                yield now, facts.EventDecided(self._history.service, epoch, epoch)
                told = self._assigner if self._history.service == "assigner" else self._registry
                for fact in told(record):
                    yield now, fact

    def _decisions(self) -> list[list[EventRecord]]:
        """Events of one decision share who, when and why."""
        return [list(batch) for _, batch in groupby(self._records, key=lambda record: str(record.metadata))]

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
