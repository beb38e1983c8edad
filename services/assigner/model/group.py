"""The values of a group: its spec, members, channels and leases, and the state they make up. Pure; no rules here.

Rules live in `domain`; what may come in from outside is checked in `admission`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, cast

import numpy as np

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.limits.assigner.leases import LEASE_MS_DEFAULT
from braid.kernel.offset_ranges import OffsetRanges
from services.assigner.model.lag.responses import NO_RESPONSES, Responses
from services.assigner.model.lag.scaling import NO_SCALING, Scaling
from services.assigner.model.leases.columns import LeaseColumns
from services.assigner.model.leases.lease import Lease as Lease
from services.assigner.model.leases.lease import LeaseState as LeaseState
from services.assigner.model.leases.lease import channel_of as channel_of
from services.assigner.model.leases.lease import partition_of as partition_of
from services.assigner.model.leases.table import Leases
from services.assigner.model.members import Member as Member
from services.assigner.model.members import MemberColumns, Members
from services.assigner.model.rules import NO_RULES, GroupRules

DEAD_LETTER_LANE: Final = "dlq"
SMALL: Final = 1_000  # leases that are looked through sooner than put into columns, and without the memory for these


class Ownership(Enum):
    """The fate of a lost member's leases; numbered as in `group.proto`."""

    AT_LEAST_ONCE = 1
    EXCLUSIVE = 2


class Fencing(Enum):
    """The party that refuses commits of a former holder; numbered as in `group.proto`."""

    GENERATION = 1
    NONE = 2


class StartKind(Enum):
    """Where a group without progress begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a group without progress begins; `time_ms` counts only with `StartKind.TIME`."""

    kind: StartKind = StartKind.EARLIEST
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The declaration of a group: its streams, lanes and rules.

    Attributes:
        streams: Sorted names.
        lanes: Sorted (lane, share); empty for every lane but `dlq`.
        ownership: What happens to the leases of a lost member.
        lease_ms: Time without a heartbeat after which a member has lost its leases.
        start: Where the group begins in channels that exist at its registration.
        fencing: Who refuses commits of a former holder; histories that do not say it mean nobody.
    """

    streams: tuple[str, ...]
    lanes: tuple[tuple[str, int], ...] = ()
    ownership: Ownership = Ownership.AT_LEAST_ONCE
    lease_ms: int = LEASE_MS_DEFAULT
    start: StartPosition = StartPosition()
    fencing: Fencing = Fencing.NONE

    def wants(self, channel: ChannelId) -> bool:
        """Whether the group consumes this lane of this stream."""
        if channel.stream not in self.streams:
            return False
        if not self.lanes:
            return channel.lane != DEAD_LETTER_LANE
        return any(lane == channel.lane for lane, _ in self.lanes)


@dataclass(frozen=True, slots=True)
class Channel:
    """The assigner's observation of a channel.

    Attributes:
        id: Its name, parsed.
        cluster: The cluster that holds it.
        topic: Its Kafka topic there.
        partitions: Its number of partitions.
        consumable: Whether the registry says it holds, or may get, records to consume.
        registry_revision: Where the registry said so; only a higher one changes anything.
        appeared_later: It came after the group's registration, so members begin at its log start.
        start: Offsets the group begins at, per partition; None until they are fixed.
        closed: Its topic is going to be deleted; it is never granted again.
        zone: Of its cluster; empty when the registry did not say.
        reset: Offsets that are to replace the group's progress in it, per partition; None for none.
        reading: It is drained, and the group has yet to read what its topic keeps. Rules are in `drained`.
        ending: Its topic is about to be deleted: holders give their leases back, then it is closed.
        unproved: The drain may end without the group: it first saw it draining, or its progress there was reset.
        left_revision: The route revision that dropped it; 0 while it is on the route, and where order does not matter.
        in_order: Channels of its lane are consumed one after the other.
        unread: What the group had not done in it when it was closed.
    """

    id: ChannelId
    cluster: str
    topic: str
    partitions: int
    consumable: bool
    registry_revision: int
    appeared_later: bool
    start: tuple[int, ...] | None = None
    closed: bool = False
    zone: str = ""
    reset: tuple[int, ...] | None = None
    reading: bool = False
    ending: bool = False
    unproved: bool = False
    left_revision: int = 0
    in_order: bool = False
    unread: OffsetRanges = ()

    @property
    def awaits_start(self) -> bool:
        """Whether the group's start in it is still to be fixed before anything is granted."""
        return self.consumable and not self.closed and not self.appeared_later and self.start is None

    @property
    def grantable(self) -> bool:
        """Whether leases on it may be granted now."""
        started = self.appeared_later or self.start is not None
        return self.consumable and not self.closed and started and self.reset is None


@dataclass(frozen=True, slots=True)
class ClusterFence:
    """The group's single membership on one cluster, as far as the history tells. Rules are in `generations`.

    Attributes:
        member_id: With which it is joined; empty before the first time.
        generation: The newest one made with this member id; 0 for none.
        due: Somebody who holds the newest generation lost a lease without giving it back: a newer one is needed.
        intended: It may be under way.
        waived: Grants do not wait for it.
        aside: The membership ends, and the group's progress there has been copied to another name (`unfencing`).
    """

    member_id: str = ""
    generation: int = 0
    due: bool = True
    intended: bool = False
    waived: bool = False
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """A lane that a member has stopped. Rules are in `stopped_lanes`.

    Attributes:
        member: Its id.
        lane: The lane.
        reason: Its own words.
        since_ms: When that was recorded, wall clock.
        asked: An operator wants it to go on.
    """

    member: str
    lane: str
    reason: str
    since_ms: int
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """A lease that is worked on at its head and on a backlog, or was asked to be. Rules are in `backlog_splits`.

    Attributes:
        lease: Its name.
        epoch: Under which that was asked or told.
        share: What the backlog may have of memory, turns and handlers.
        since_ms: When the last of this was recorded, wall clock.
        at: Where the live cursor began; -1 while it is not split.
        asked: An operator wants it; the holder has not answered.
        relaxed: The order of a key may be kept within each cursor alone.
        refused: Why the holder did not.
    """

    lease: str
    epoch: int
    share: float
    since_ms: int
    at: int = -1
    asked: bool = False
    relaxed: bool = False
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Committed progress that the holder of a lease could not trust. Rules are in `progress_findings`.

    Attributes:
        lease: Its name.
        epoch: Under which that was found.
        kind: How it is not as committed.
        start: First offset it is about.
        end: First offset beyond.
        reason: For people.
    """

    lease: str
    epoch: int
    kind: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Group:
    """State of one history of kind `group`. Partitions that were never granted have no entry in `leases`.

    Members and leases are kept so that what an event changes costs what it changes (`members`, `leases`).

    Attributes:
        name: The group's name.
        spec: None before its registration and after its deletion.
        spec_changes: Counts registrations and updates; the etag.
        created_at_ms: When it was registered, wall clock.
        members: By id.
        channels: By name (`<stream>/<lane>/<generation>`).
        leases: By name (`<channel>/<partition>`).
        last_epoch: The highest epoch ever granted; survives the group's deletion.
        idle_since_ms: When its last member went; 0 while it has one.
        idle_expired: Idle for so long that it holds no drain any more.
        fences: By cluster; only of groups that are fenced by generations.
        rules: What operators asked for.
        stops: By `<member>/<lane>`, lanes that members have stopped with.
        doubts: By `<lease>/<kind>`, what holders could not believe of committed progress.
        splits: By lease, those that are split or were asked to be.
        idle_alerted: It has been told that drains will stop waiting for it.
        resets: How many resets of its progress were recorded, intents and results.
        bumped_in: By cluster, the store's incarnation in which its generation was bumped, until something is granted in
            that incarnation; only after the store was restored.
        tenant: The tenant that registered it.
        scaling: How many members it should have, and by which policy.
        responses: How it answers lag.
    """

    name: str
    spec: GroupSpec | None = None
    spec_changes: int = 0
    created_at_ms: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    last_epoch: int = 0
    idle_since_ms: int = 0
    idle_expired: bool = False
    fences: Mapping[str, ClusterFence] = field(default_factory=dict)
    rules: GroupRules = NO_RULES
    stops: Mapping[str, Stop] = field(default_factory=dict)
    splits: Mapping[str, Split] = field(default_factory=dict)
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    idle_alerted: bool = False
    resets: int = 0
    bumped_in: Mapping[str, int] = field(default_factory=dict)
    tenant: str = DEFAULT_TENANT
    scaling: Scaling = NO_SCALING
    responses: Responses = NO_RESPONSES

    def __post_init__(self) -> None:
        """Converts plain mappings, which are accepted too."""
        if not isinstance(self.members, Members):
            object.__setattr__(self, "members", Members(self.members))
        if not isinstance(self.leases, Leases):
            object.__setattr__(self, "leases", Leases(self.leases))

    @property
    def registry_revision(self) -> int:
        """The newest registry revision that changed anything here."""
        return max((channel.registry_revision for channel in self.channels.values()), default=0)

    def held_by(self, member: str) -> dict[str, Lease]:
        """The leases a member holds, those it is asked to give back included."""
        return cast("Leases", self.leases).held_by(member)

    @property
    def lease_columns(self) -> LeaseColumns:
        """The leases as columns; read them before asking for those of another state."""
        return cast("Leases", self.leases).columns

    @property
    def member_columns(self) -> MemberColumns:
        """The members in columns."""
        return cast("Members", self.members).columns

    def leases_of(self, channel: str) -> Iterator[tuple[str, Lease]]:
        """Returns the leases on a channel by partition number."""
        return cast("Leases", self.leases).of_channel(channel)

    def held(self) -> Iterator[tuple[str, int, str]]:
        """Yields channel, partition and holder of each lease with a holder, without a name for each."""
        return cast("Leases", self.leases).held()

    def revoking(self) -> Iterator[tuple[str, Lease]]:
        """Returns leases that are asked back; those of a large group are found in columns."""
        if len(self.leases) <= SMALL:
            yield from ((name, lease) for name, lease in self.leases.items() if lease.state is LeaseState.REVOKING)
            return
        columns = self.lease_columns
        for channel in self.channels:
            states = columns.states([(channel, columns.extent(channel))])
            for partition in np.flatnonzero(states == LeaseState.REVOKING.value).tolist():
                name = f"{channel}/{partition}"
                yield name, self.leases[name]

    def with_leases(self, changes: Mapping[str, Lease | None]) -> "Group":
        """The state with some leases replaced, or (None) forgotten."""
        return replace(self, leases=cast("Leases", self.leases).changed(changes)) if changes else self

    def idle_from(self, now_ms: int) -> "Group":
        """Returns the group with its idle wait begun: without members from now on, or waited for anew."""
        return replace(self, idle_since_ms=now_ms, idle_expired=False, idle_alerted=False)

    def with_member(self, member: Member) -> "Group":
        """The state with one member more, or another under its id."""
        return replace(self, members=cast("Members", self.members).with_member(member))

    def without_members(self, *ids: str) -> "Group":
        """Returns the state without some members; their leases stay as they were."""
        return replace(self, members=cast("Members", self.members).without(*ids))


def lease_name(channel: ChannelId, partition: int) -> str:
    """The name of the lease on a partition."""
    return str(LeaseId(channel, partition))
