"""Commands to the kind `group`. Values only; `domain` says what they mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.assigner.model.backlog_splits import SplitCommand
from services.assigner.model.channels import ChannelCommand, ChannelView
from services.assigner.model.events import GoneReason
from services.assigner.model.group import GroupSpec
from services.assigner.model.lag.response_events import ResponseCommand
from services.assigner.model.lag.scaling_events import ScalingCommand
from services.assigner.model.progress_findings import ReportDoubts
from services.assigner.model.progress_resets import ResetCommand
from services.assigner.model.rules import RuleCommand
from services.assigner.model.stopped_lanes import StopCommand


@dataclass(frozen=True, slots=True)
class Hello:
    """How a member introduces itself.

    Attributes:
        held: The (lease, epoch) pairs it still holds after a reconnect.
        principal: That of its certificate or token; empty where it shows none.
        secret_digest: Of the secret that it shows, or is about to be given; empty for none.
    """

    member: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str
    held: tuple[tuple[str, int], ...] = ()
    principal: str = ""
    secret_digest: str = ""


@dataclass(frozen=True, slots=True)
class RegisterGroup:
    """Registers a group; the channels consumable in the view are those it has a start position in."""

    spec: GroupSpec
    view: ChannelView


@dataclass(frozen=True, slots=True)
class UpdateGroup:
    """Changes the spec of a group. An empty etag changes whatever is there."""

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
    """Records the registry's newest view of channels."""

    view: ChannelView


@dataclass(frozen=True, slots=True)
class FixStart:
    """Records that the group's start in a channel is committed in its cluster."""

    channel: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """One lease that a member gives back."""

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
    """A leader's measurements, which placement uses.

    Attributes:
        costs: Busy seconds per second by lease; what is not named is idle.
        settled: Whether it has measured long enough to move anything by it.
        moved: Partitions asked back within the last minute.
        ruled: Those of them that were asked back because of an operator's rule.
        capacities: What members count for by what they tell; those not named as their hellos declared.
        busy: How many handlers run, on average, by lease.
    """

    costs: Mapping[str, float] = field(default_factory=dict)
    settled: bool = True
    moved: int = 0
    ruled: int = 0
    capacities: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)


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
    """Records that the cluster answered the join."""

    cluster: str
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class WaiveFencing:
    """Records that the cluster did not answer joins for the lease time while members reach it."""

    cluster: str


@dataclass(frozen=True, slots=True)
class RecordAside:
    """Records that the group's progress on a cluster was copied."""

    cluster: str


@dataclass(frozen=True, slots=True)
class EndMembership:
    """Records that the group was deleted on a cluster, and its progress written back."""

    cluster: str


@dataclass(frozen=True, slots=True)
class LookAtIdle:
    """Checks how long the group was waited for, measured by a clock that never steps. Milliseconds.

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
    """Several commands as one decision, each on the state after the ones before it."""

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
    | ScalingCommand
    | ResponseCommand
    | Together
)
