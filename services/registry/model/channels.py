"""A channel's life, and nothing else: states, what may follow what, facts recorded on the way. Pure.

    PROVISIONING → STANDBY → ACTIVE → DRAINING → DRAINED → RETIRED (topic deleted)
                                └──────┴─ stranded (flag: cluster unreachable; work resumes when it returns)

A spare (PROVISIONING, STANDBY) that is not wanted any more goes to RETIRED directly. One whose topic holds records that
the history does not know of (the store was restored from a backup) becomes ACTIVE and DRAINING in one append. Deleting
its stream discards a channel: it is DRAINED by decree and retired at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from braid.kernel.ids import ChannelId
from braid.kernel.limits.health import STRETCHES_MAX
from braid.kernel.limits.registry import OFFSET_MAX
from braid.kernel.offset_ranges import OPEN, OffsetRanges
from braid.kernel.resumptions import Resumption


class ChannelState(Enum):
    """Where a channel is in its life."""

    PROVISIONING = "PROVISIONING"
    STANDBY = "STANDBY"
    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    RETIRED = "RETIRED"


class DrainStep(Enum):
    """What a draining channel waits for, in this order."""

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
    """A channel within its stream."""

    lane: str
    generation: int

    def __str__(self) -> str:
        return f"{self.lane}/{self.generation}"


def checked(told: Sequence[Resumption], partitions: int) -> list[Resumption]:
    """Those that make sense; a client may say anything."""
    return [
        each
        for each in told
        if 0 <= each.partition < partitions and 0 <= each.first < each.next <= OFFSET_MAX
        if 0 <= each.resumed <= OFFSET_MAX and _rises(each)
    ]


def _rises(told: Resumption) -> bool:
    """Whether what it says of its own records follows one another, and ends where the whole does."""
    stretches, after = told.stretches, 0
    if len(stretches) > STRETCHES_MAX or (stretches and (told.producer < 0 or stretches[-1].next != told.next)):
        return False
    for each in stretches:
        if not (after <= each.first < each.next and each.sequence >= 0):
            return False
        after = each.next
    return True


class ChannelWeight(NamedTuple):
    """A channel that takes a share of its lane's traffic."""

    ref: ChannelRef
    weight: float


@dataclass(frozen=True, slots=True)
class Channel:
    """One generation of one lane on one cluster.

    Attributes:
        topic_id: The topic's own identity, once it exists.
        kafka_cluster_id: The Kafka cluster the topic was created on.
        activated_epoch: Epoch of the leader that put it on the route: that leader has seen every producer of it.
        drain_revision: Route revision that dropped it; 0 before.
        planned: Whether its cluster was well when it was dropped.
        endangered: Its cluster was away while it carried traffic, and its topic is not known to keep everything since.
        retention_lifted: Its topic keeps everything.
        producers_left, sealed, end_offsets: Steps of the drain that are done.
        retention_restored: Its topic keeps its stream's retention again.
        retiring: Its topic is going to be deleted.
        discarded: Its stream was deleted.
        acknowledged: Per partition, below which offset producers that left it have receipts, or its log was seen to go;
            empty when nobody knows any.
        untold: Some producer stopped counting, or may have died unheard, before it told how far its own go.
        lost, lost_evidence: What its cluster lost of it, and what showed that.
        overwritten: What of that never comes back: other records lie at its offsets.
        closed: A person ended its drain, and gave up what it still held.
        released: A person lets it be consumed beside older ones of an ordered stream.
        copies: Of each partition, as they were last brought about or found; 0 while the history does not know.
        copies_intended: Of each partition, what a reassignment under way leads to; 0 when none is.
        throttle_bytes_per_s: What brokers may copy for that; 0 where the throttle is not ours.
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
        """Whether its topic's retention is lifted, or is to be before anything else."""
        return self.endangered or self.retention_lifted or self.state is ChannelState.DRAINING

    @property
    def known_ends(self) -> tuple[int, ...]:
        """Per partition, below which offset its log had records; `OPEN` where nobody knows.

        What producers that died had acknowledged only the sealed log tells.
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
        """What the drain waits for; None when it does not drain."""
        if self.state is not ChannelState.DRAINING:
            return None
        if not self.producers_left:
            return DrainStep.PRODUCERS
        if not self.sealed:
            return DrainStep.SEAL
        return DrainStep.END_OFFSETS if self.end_offsets is None else DrainStep.GROUPS

    def id(self, stream: str) -> ChannelId:
        """Its name in the whole mesh."""
        return ChannelId(stream, self.ref.lane, self.ref.generation)

    def enter(self, state: ChannelState, now_ms: int) -> "Channel":
        """The channel in its next state. A step that is not legal is a defect of the decider.

        Raises:
            ValueError: the state may not follow.
        """
        if state not in LEGAL[self.state]:
            raise ValueError(f"{self.ref} cannot go from {self.state.name} to {state.name}")
        stranded = self.stranded and state in CONSUMABLE
        return replace(self, state=state, state_since_ms=now_ms, stranded=stranded)
