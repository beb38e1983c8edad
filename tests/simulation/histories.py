"""Reads the services' histories from the bytes at rest: facts for the checkers, and the state of channels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from braid.kernel.decider import Context
from braid.kernel.ids import ChannelId
from braid.kernel.ports import HistoryId
from braid.runtime.access import approval_history as approvals
from braid.runtime.access import tenant_history as tenants
from braid.runtime.access.approval_codec import APPROVALS
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.clocks.led_time import HISTORIES
from braid.runtime.clocks.led_time_codec import CLOCK
from braid.runtime.histories.kinds import AnyKind
from services.assigner.model.events import GroupDeleted, GroupRegistered, LeasesGranted
from services.assigner.model.group import GroupSpec
from services.assigner.model.progress_resets import ResetIntended
from services.assigner.reconciler.group_loop import GROUPS
from services.dlq.codec.events import REPLAYS
from services.dlq.model import events as dlq
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.model import stream_events as registry
from services.registry.model.channels import ChannelRef
from testbed.checkers import facts
from testbed.checkers.facts import approvals as approval_facts
from testbed.checkers.facts.tenants import GroupMade
from tests.simulation.journal import Journal

KINDS: Mapping[tuple[str, str], AnyKind] = {
    ("registry", CLUSTERS.name): CLUSTERS,
    ("registry", STREAMS.name): STREAMS,
    ("assigner", GROUPS.name): GROUPS,
    ("dlq", REPLAYS.name): REPLAYS,
    (HISTORIES, CLOCK.name): CLOCK,
    (approvals.HISTORIES, APPROVALS.name): APPROVALS,
    (tenants.HISTORIES, TENANTS.name): TENANTS,
}


def _told(history: HistoryId, event: object, context: Context) -> str:
    return f"EVENT {history} {event!r:.400} by {context.actor} cause {context.cause!r:.60}"


@dataclass
class ChannelSeen:
    """A channel as its history has it by now."""

    id: ChannelId
    topic: facts.Topic
    partitions: int
    state: str = "planned"


@dataclass
class Histories:
    """Reads every batch as the store writes it.

    Attributes:
        journal: Told what it means.
        refuses: Whether a topic refuses appends right now, as its cluster itself would say.
        channels: By (stream, reference), as of now.
    """

    journal: Journal
    refuses: Callable[[facts.Topic], bool]
    channels: dict[tuple[str, ChannelRef], ChannelSeen] = field(default_factory=dict)

    def appended(self, history: HistoryId, events: Sequence[bytes], leading: int) -> None:
        """A batch was written while the leader of this epoch led."""
        kind = KINDS[history.service, history.kind].erased()
        for data in events:
            event, context = kind.codec.decode(data)
            self.journal.say(partial(_told, history, event, context))
            deciding = history.id if history.service == HISTORIES else history.service
            self.journal.note(facts.EventDecided(deciding, context.leader_epoch, leading))
            self._read(history, event, context.now_ms)
            if isinstance(event, GroupRegistered):
                self.journal.note(GroupMade(history.id, context.tenant))
            elif isinstance(event, GroupDeleted):
                self.journal.note(approval_facts.GroupDeleted(history.id, context.request_id))
            elif history.kind == APPROVALS.name:
                self._read_approval(event, context)

    def backup(self) -> Mapping[tuple[str, ChannelRef], ChannelSeen]:
        """A copy of what the histories tell by now."""
        return {key: replace(channel) for key, channel in self.channels.items()}

    def restore(self, backup: Mapping[tuple[str, ChannelRef], ChannelSeen]) -> None:
        """The store is an earlier one again."""
        self.channels = {key: replace(channel) for key, channel in backup.items()}

    def in_state(self, *states: str) -> list[ChannelSeen]:
        """Channels in any of these states."""
        return [channel for channel in self.channels.values() if channel.state in states]

    def _read(self, history: HistoryId, event: object, now_ms: int) -> None:
        match event:
            case GroupRegistered(spec=spec):
                self._subscribe(history.id, spec)
            case LeasesGranted(grants=grants):
                for grant in grants:
                    self.journal.note(facts.LeaseGranted(history.id, grant.lease, grant.member, grant.epoch, now_ms))
            case ResetIntended(channel=name, offsets=offsets):
                asked = ChannelId.parse(name)
                seen = self.channels[asked.stream, ChannelRef(asked.lane, asked.generation)]
                self.journal.note(facts.ResetAsked(history.id, seen.topic, offsets))
            case registry.ChannelPlanned():
                channel = ChannelId(history.id, event.ref.lane, event.ref.generation)
                topic = facts.Topic(event.cluster, event.topic)
                self.channels[history.id, event.ref] = ChannelSeen(channel, topic, event.partitions)
            case registry.TrafficMoved(activated=activated, draining=draining):
                self._set(history.id, [weighted.ref for weighted in activated], "active")
                self._set(history.id, draining, "draining")
            case _ if history.service == "dlq":
                self._read_replay(history.id, event)
            case _:
                self._read_drain(history.id, event)

    def _read_approval(self, event: object, context: Context) -> None:
        match event:
            case approvals.ApprovalAsked(id=id, request=request):
                self.journal.note(approval_facts.ApprovalAsked(id, request.asked_by))
            case approvals.ApprovalDecided(id=id, refused=refused):
                self.journal.note(approval_facts.ApprovalDecided(id, context.actor, refused))
            case approvals.ApprovalUsed(id=id, request_id=request_id):
                self.journal.note(approval_facts.ApprovalUsed(id, request_id))
            case _:
                pass

    def _read_drain(self, stream: str, event: object) -> None:
        match event:
            case registry.ChannelSealed(ref=ref):
                topic = self.channels[stream, ref].topic
                self.journal.note(facts.SealRecorded(topic, self.refuses(topic)))
            case registry.EndOffsetsRead(ref=ref, offsets=offsets):
                self.journal.note(facts.EndsRecorded(self.channels[stream, ref].topic, tuple(offsets)))
            case registry.ChannelDrained(ref=ref):
                self._set(stream, [ref], "drained")
                self.journal.note(facts.DrainRecorded(self.channels[stream, ref].topic, ref.lane))
            case registry.RecordsLost(ref=ref, ranges=ranges):
                self.journal.note(facts.LossRecorded(self.channels[stream, ref].topic, ranges))
            case registry.ChannelClosed(ref=ref, given_up=given_up):
                self._set(stream, [ref], "drained")
                self.journal.note(facts.GivenUp(self.channels[stream, ref].topic, given_up))
            case registry.ChannelRetired(ref=ref):
                self._set(stream, [ref], "retired")
            case _:
                pass

    def _read_replay(self, replay: str, event: object) -> None:
        match event:
            case dlq.ReplayCreated(matched=letters):
                self.journal.note(facts.ReplayMade(replay, letters))
            case dlq.ReplayAdvanced(cursor=at, skipped=skipped):
                letter = (at.generation, at.partition, at.offset)
                self.journal.note(facts.ReplayMoved(replay, letter, sum(each.letters for each in skipped)))
            case dlq.ReplayFinished():
                self.journal.note(facts.ReplayEnded(replay, ""))
            case dlq.ReplayCancelled() | dlq.ReplayFailed():
                self.journal.note(facts.ReplayEnded(replay, repr(event)))
            case _:
                pass

    def _set(self, stream: str, refs: Sequence[ChannelRef], state: str) -> None:
        for ref in refs:
            self.channels[stream, ref].state = state

    def _subscribe(self, group: str, spec: GroupSpec) -> None:
        lanes = [lane for lane, _ in spec.lanes] or ["live", "bulk"]
        for lane in lanes:
            self.journal.note(facts.Subscribed(group, lane))
