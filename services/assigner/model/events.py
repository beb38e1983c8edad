"""Events and commands of kind `group`, as in `events.proto`. Values only; what they mean is in `domain`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from braid.kernel.limits.leases import GRANTS_PER_DECISION_MAX
from services.assigner.model.backlog_splits import SplitCommand, SplitEvent
from services.assigner.model.channels import ChannelClosed as ChannelClosed
from services.assigner.model.channels import ChannelCommand
from services.assigner.model.channels import ChannelObserved as ChannelObserved
from services.assigner.model.channels import ChannelView as ChannelView
from services.assigner.model.channels import CloseChannel as CloseChannel
from services.assigner.model.channels import EndReading as EndReading
from services.assigner.model.channels import FinishReading as FinishReading
from services.assigner.model.channels import Presence as Presence
from services.assigner.model.channels import SeenChannel as SeenChannel
from services.assigner.model.group import GroupSpec
from services.assigner.model.progress_findings import ProgressDoubted, ReportDoubts
from services.assigner.model.progress_resets import ResetCommand, ResetEvent
from services.assigner.model.rules import RuleCommand, RuleEvent
from services.assigner.model.stopped_lanes import StopCommand, StopEvent

_RELEASES_PER_EVENT: Final = GRANTS_PER_DECISION_MAX // 2  # a waived one is named twice

# --- events


@dataclass(frozen=True, slots=True)
class GroupRegistered:
    """The group exists from now on."""

    spec: GroupSpec


@dataclass(frozen=True, slots=True)
class GroupUpdated:
    """The group is to consume otherwise from now on."""

    spec: GroupSpec


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The group is forgotten, its epochs are not."""


@dataclass(frozen=True, slots=True)
class GroupIdleAlerted:
    """Drains will soon stop waiting for the group; its present spec travels beside (see `codec`)."""

    spec: GroupSpec
    left_ms: int


@dataclass(frozen=True, slots=True)
class GroupIdleExpired:
    """No member for so long that it holds no drain any more."""


@dataclass(frozen=True, slots=True)
class StartFixed:
    """The group's start in one channel was written as committed progress, or found there."""

    channel: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A process joined, or came back with other properties."""

    member: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str


class GoneReason(Enum):
    """Why a member is gone; numbered as in `events.proto`."""

    LEFT = 1
    DISCONNECTED = 2
    EXPIRED = 3


@dataclass(frozen=True, slots=True)
class MemberGone:
    """A process is no member any more."""

    member: str
    reason: GoneReason


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A lease under one epoch: the unit of granting, revoking and releasing."""

    lease: str
    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LeasesGranted:
    """Free leases have holders now, each under a new epoch."""

    grants: tuple[LeaseGrant, ...]


@dataclass(frozen=True, slots=True)
class RevokesStarted:
    """Holders are asked to give leases back until a wall-clock time."""

    leases: tuple[LeaseGrant, ...]
    deadline_ms: int
    reason: str


class ReleaseReason(Enum):
    """Why leases are free again; numbered as in `events.proto`."""

    RELEASED = 1
    MEMBER_GONE = 2
    TAKEN = 3
    CHANNEL_GONE = 4


@dataclass(frozen=True, slots=True)
class LeasesReleased:
    """Leases are free again; of those in `commit_waived` the final commit could not be made."""

    leases: tuple[LeaseGrant, ...]
    reason: ReleaseReason
    commit_waived: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BumpIntended:
    """The group's membership on a cluster is about to be joined, or joined again, with this id."""

    cluster: str
    member_id: str


@dataclass(frozen=True, slots=True)
class GenerationBumped:
    """The cluster refuses every earlier generation from now on."""

    cluster: str
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class FencingWaived:
    """Members reach the cluster and the assigner does not: grants there go on unfenced."""

    cluster: str


@dataclass(frozen=True, slots=True)
class ProgressSetAside:
    """The group is fenced no more: its progress on a cluster was copied, before its membership there ends."""

    cluster: str


@dataclass(frozen=True, slots=True)
class MembershipEnded:
    """The group has no membership on a cluster any more, and its progress there is its own again."""

    cluster: str


def released(
    leases: Sequence[LeaseGrant], reason: ReleaseReason, commit_waived: Collection[str] = frozenset()
) -> "list[LeasesReleased]":
    """The events that free leases, however many: each fits one append; what an interruption leaves is orphaned."""
    parts = [leases[at : at + _RELEASES_PER_EVENT] for at in range(0, len(leases), _RELEASES_PER_EVENT)]
    return [
        LeasesReleased(tuple(part), reason, tuple(each.lease for each in part if each.lease in commit_waived))
        for part in parts
    ]


Event = (
    GroupRegistered
    | GroupUpdated
    | GroupDeleted
    | GroupIdleAlerted
    | GroupIdleExpired
    | StartFixed
    | ChannelObserved
    | ChannelClosed
    | MemberJoined
    | MemberGone
    | LeasesGranted
    | RevokesStarted
    | LeasesReleased
    | BumpIntended
    | GenerationBumped
    | FencingWaived
    | ProgressSetAside
    | MembershipEnded
    | ResetEvent
    | StopEvent
    | SplitEvent
    | ProgressDoubted
    | RuleEvent
)

# --- what commands carry


@dataclass(frozen=True, slots=True)
class Hello:
    """How a member introduces itself; `held` are the (lease, epoch) pairs it still holds after a reconnect."""

    member: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str
    held: tuple[tuple[str, int], ...] = ()


# --- commands


@dataclass(frozen=True, slots=True)
class RegisterGroup:
    """Registers a group; the channels consumable in the view are those it has a start position in."""

    spec: GroupSpec
    view: ChannelView


@dataclass(frozen=True, slots=True)
class UpdateGroup:
    """Changes a group's spec. An empty etag changes whatever is there."""

    spec: GroupSpec
    view: ChannelView
    etag: str = ""


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Deletes a group without members."""

    etag: str = ""


@dataclass(frozen=True, slots=True)
class JoinMember:
    """A member opens its stream; the first one registers the group by `view`.

    Attributes:
        hello: Who joins, and what it still holds.
        spec: What it wants to consume; parts named in `unsaid` were left to the group as registered.
        unsaid: Fields of the spec the hello did not set.
        view: The registry's channels; only needed when the group is not registered yet.
    """

    hello: Hello
    spec: GroupSpec
    unsaid: frozenset[str] = frozenset()
    view: ChannelView | None = None


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """A member left, was disconnected, or expired."""

    member: str
    reason: GoneReason


@dataclass(frozen=True, slots=True)
class ObserveChannels:
    """The registry spoke."""

    view: ChannelView


@dataclass(frozen=True, slots=True)
class FixStart:
    """The group's start in a channel stands in its cluster as committed progress."""

    channel: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One lease a member gives back."""

    lease: str
    epoch: int
    commit_waived: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseLeases:
    """A member gives leases back."""

    member: str
    releases: tuple[Release, ...]


@dataclass(frozen=True, slots=True)
class TakeOverdue:
    """Holders let their revoke deadlines pass; (lease, epoch) each."""

    leases: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Loads:
    """What a leader measured, as placement goes by it.

    Attributes:
        costs: Busy seconds per second by lease; what is not named is idle.
        settled: Whether it has measured long enough to move anything by it.
        moved: Partitions asked back within the last minute.
        ruled: Those of them that were asked back because of an operator's rule.
    """

    costs: Mapping[str, float] = field(default_factory=dict)
    settled: bool = True
    moved: int = 0
    ruled: int = 0


@dataclass(frozen=True, slots=True)
class Balance:
    """Places partitions: grants free ones, asks back misplaced ones. `live` are the members that can be told."""

    live: tuple[str, ...]
    loads: Loads | None = None


@dataclass(frozen=True, slots=True)
class IntendBump:
    """The membership on a cluster is to be joined, or joined again, with this id.

    With a generation that was `refused`, only while that is the newest.
    """

    cluster: str
    member_id: str
    refused: int = 0


@dataclass(frozen=True, slots=True)
class RecordBump:
    """The cluster answered the join."""

    cluster: str
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class WaiveFencing:
    """The cluster did not answer joins for the lease time, and members reach it."""

    cluster: str


@dataclass(frozen=True, slots=True)
class RecordAside:
    """The group's progress on a cluster was copied."""

    cluster: str


@dataclass(frozen=True, slots=True)
class EndMembership:
    """The group was deleted on a cluster, and its progress written back."""

    cluster: str


@dataclass(frozen=True, slots=True)
class LookAtIdle:
    """Looks at how long the group is waited for, as measured by a clock that never steps. Milliseconds.

    Attributes:
        since_ms: Which wait that is about, by when it began.
        whole_ms: How long groups are waited for.
        waited_ms: How long this one was.
        alerted_ms: How long ago that was told; 0 when it was not.
    """

    since_ms: int
    whole_ms: int
    waited_ms: int
    alerted_ms: int


@dataclass(frozen=True, slots=True)
class Together:
    """Several commands as one decision, each on the state the ones before it led to."""

    commands: "tuple[Command, ...]"


Command = (
    RegisterGroup
    | UpdateGroup
    | DeleteGroup
    | JoinMember
    | RemoveMember
    | ObserveChannels
    | ChannelCommand
    | FixStart
    | ReleaseLeases
    | TakeOverdue
    | Balance
    | IntendBump
    | RecordBump
    | WaiveFencing
    | RecordAside
    | EndMembership
    | LookAtIdle
    | ResetCommand
    | StopCommand
    | SplitCommand
    | ReportDoubts
    | RuleCommand
    | Together
)
