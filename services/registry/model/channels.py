"""The life of a channel: its states, the transitions between them, and the facts recorded on the way. Pure.

    PROVISIONING → STANDBY → ACTIVE → DRAINING → DRAINED → RETIRED (topic deleted)
                                └──────┴─ stranded (flag: cluster unreachable; work resumes when it returns)

A spare (PROVISIONING, STANDBY) that is no longer wanted goes to RETIRED directly. If the store was restored from a
backup and a spare's topic holds records that the history does not know of, it becomes ACTIVE and DRAINING in one
append. Deleting its stream discards a channel: it is set to DRAINED without a drain and retired at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from braid.kernel.ids import ChannelId
from braid.kernel.limits.registry.health import STRETCHES_MAX
from braid.kernel.limits.registry.resources import OFFSET_MAX
from braid.kernel.offset_ranges import OPEN, OffsetRanges
from braid.kernel.resumptions import Resumption


class ChannelState(Enum):
    """The state of a channel in its life."""

    PROVISIONING = "PROVISIONING"
    STANDBY = "STANDBY"
    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    RETIRED = "RETIRED"


class DrainStep(Enum):
    """The steps a draining channel waits for, in this order."""

    PRODUCERS = "PRODUCERS"
    SEAL = "SEAL"
    END_OFFSETS = "END_OFFSETS"
    GROUPS = "GROUPS"


LEGAL = {
    ChannelState.PROVISIONING: {ChannelState.STANDBY, ChannelState.DRAINED, ChannelState.RETIRED},
    ChannelState.STANDBY: {ChannelState.ACTIVE, ChannelState.DRAINED, ChannelState.RETIRED},
    ChannelState.ACTIVE: {ChannelState.DRAINING, ChannelState.DRAINED},
    ChannelState.DRAINING: {ChannelState.DRAINED},
    ChannelState.DRAINED: {ChannelState.RETIRED},
    ChannelState.RETIRED: frozenset[ChannelState](),
}
SPARE = (ChannelState.PROVISIONING, ChannelState.STANDBY)
CONSUMABLE = (ChannelState.ACTIVE, ChannelState.DRAINING)
IN_USE = (ChannelState.STANDBY, ChannelState.ACTIVE)  # its topic takes records, or may soon


class ChannelRef(NamedTuple):
    """A channel's name within its stream."""

    lane: str
    generation: int

    def __str__(self) -> str:
        return f"{self.lane}/{self.generation}"


def checked(told: Sequence[Resumption], partitions: int) -> list[Resumption]:
    """The reports of resumed logs that are consistent; a client may send anything."""
    return [
        each
        for each in told
        if 0 <= each.partition < partitions and 0 <= each.first < each.next <= OFFSET_MAX
        if 0 <= each.resumed <= OFFSET_MAX and _rises(each)
    ]


def _rises(told: Resumption) -> bool:
    """Whether a producer's positions rise with its offsets, and end where the whole does."""
    stretches, after = told.stretches, 0
    if len(stretches) > STRETCHES_MAX or (stretches and (told.producer < 0 or stretches[-1].next != told.next)):
        return False
    for each in stretches:
        if not (after <= each.first < each.next and each.sequence >= 0):
            return False
        after = each.next
    return True


class ChannelWeight(NamedTuple):
    """An active channel and its share of the lane's traffic."""

    ref: ChannelRef
    weight: float


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel: one generation of one lane on one cluster.

    Attributes:
        topic_id: The topic's id, once it exists.
        kafka_cluster_id: The Kafka cluster the topic was created on.
        activated_epoch: Epoch of the leader that put it on the route: that leader has seen all its producers.
        drain_revision: Route revision that dropped it; 0 before.
        planned: Whether its cluster was well when it was dropped.
        endangered: Its cluster was away while it carried traffic; its topic may not have kept everything since.
        retention_lifted: Its topic keeps everything.
        producers_left, sealed, end_offsets: Completed steps of the drain.
        retention_restored: Its topic has its stream's retention again.
        retiring: Its topic is about to be deleted.
        discarded: Its stream was deleted.
        acknowledged: Per partition, the offset below which producers that left have receipts, or its log was read;
            empty
            if unknown.
        untold: Some producer stopped counting, or may have died unnoticed, before it reported its receipts.
        lost, lost_evidence: Records that its cluster lost, and what showed that.
        overwritten: Lost records that never come back: other records have their offsets.
        closed: An operator ended its drain, and gave up what it still held.
        released: An operator lets it be consumed beside older channels of an ordered stream.
        copies: Copies of each partition, as last reassigned or found; 0 if unknown.
        copies_intended: Copies of each partition after the reassignment under way; 0 if there is none.
        throttle_bytes_per_s: Rate limit of that reassignment; 0 if the throttle is not ours.
    """

    ref: ChannelRef
    cluster: str
    topic: str
    partitions: int
    state: ChannelState = ChannelState.PROVISIONING
    state_since_ms: int = 0
    stranded: bool = False
    weight: float = 0.0
    topic_id: bytes = b""
    kafka_cluster_id: str = ""
    activated_epoch: int = 0
    drain_revision: int = 0
    planned: bool = False
    endangered: bool = False
    retention_lifted: bool = False
    producers_left: bool = False
    sealed: bool = False
    end_offsets: tuple[int, ...] | None = None
    retention_restored: bool = False
    retiring: bool = False
    discarded: bool = False
    acknowledged: tuple[int, ...] = ()
    untold: bool = False
    lost: OffsetRanges = ()
    lost_evidence: str = ""
    overwritten: OffsetRanges = ()
    closed: bool = False
    released: bool = False
    copies: int = 0
    copies_intended: int = 0
    throttle_bytes_per_s: int = 0

    @property
    def spare(self) -> bool:
        """Whether it may still become active."""
        return self.state in SPARE and not self.retiring

    @property
    def live(self) -> bool:
        """Whether its topic exists or may exist."""
        return self.state is not ChannelState.RETIRED

    @property
    def keeps_everything(self) -> bool:
        """Whether its topic's retention is lifted, or must be lifted before any other step."""
        return self.endangered or self.retention_lifted or self.state is ChannelState.DRAINING

    @property
    def known_ends(self) -> tuple[int, ...]:
        """Per partition, the offset below which its log had records; `OPEN` if unknown.

        Records that were acknowledged to dead producers show only in the sealed log.
        """
        known = [each for each in (self.end_offsets, self.acknowledged) if each]
        if not known or (self.untold and self.end_offsets is None):
            return (OPEN,) * self.partitions
        ends = list(map(max, zip(*known, strict=True)))
        for each in self.overwritten:
            ends[each.partition] = max(ends[each.partition], each.last + 1)
        return tuple(ends)

    @property
    def drain_step(self) -> DrainStep | None:
        """The step that the drain waits for; None if it does not drain."""
        if self.state is not ChannelState.DRAINING:
            return None
        if not self.producers_left:
            return DrainStep.PRODUCERS
        if not self.sealed:
            return DrainStep.SEAL
        return DrainStep.END_OFFSETS if self.end_offsets is None else DrainStep.GROUPS

    def id(self, stream: str) -> ChannelId:
        """The channel's name in the whole mesh."""
        return ChannelId(stream, self.ref.lane, self.ref.generation)

    def enter(self, state: ChannelState, now_ms: int) -> "Channel":
        """The channel in its next state. An illegal transition is a defect of the decider.

        Raises:
            ValueError: the transition is illegal.
        """
        if state not in LEGAL[self.state]:
            raise ValueError(f"{self.ref} cannot go from {self.state.name} to {state.name}")
        stranded = self.stranded and state in CONSUMABLE
        return replace(self, state=state, state_since_ms=now_ms, stranded=stranded)
