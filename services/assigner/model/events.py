"""Events of the kind `group`, as in `events.proto`. Values only; `domain` says what they mean."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from braid.kernel.limits.assigner.leases import GRANTS_PER_DECISION_MAX
from services.assigner.model.backlog_splits import SplitEvent
from services.assigner.model.channels import ChannelClosed, ChannelObserved
from services.assigner.model.group import GroupSpec
from services.assigner.model.lag.response_events import ResponseEvent
from services.assigner.model.lag.scaling_events import ScalingEvent
from services.assigner.model.progress_findings import ProgressDoubted
from services.assigner.model.progress_resets import ResetEvent
from services.assigner.model.rules import RuleEvent
from services.assigner.model.stopped_lanes import StopEvent

_RELEASES_PER_EVENT: Final = GRANTS_PER_DECISION_MAX // 2  # a waived one is named twice


@dataclass(frozen=True, slots=True)
class GroupRegistered:
    """The group exists from now on, registered by a principal of this tenant (empty: `default`)."""

    spec: GroupSpec
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class GroupUpdated:
    """The group's spec has changed."""

    spec: GroupSpec


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The group is deleted; its highest epoch is kept."""


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
    """A process joined, or came back with other properties; see `Member` for the last two fields."""

    member: str
    client_id: str
    zone: str
    capacity: float
    protocol_version: int
    capabilities: tuple[str, ...]
    peer: str
    principal: str = ""
    secret_digest: str = ""


class GoneReason(Enum):
    """Why a member has gone; numbered as in `events.proto`."""

    LEFT = 1
    DISCONNECTED = 2
    EXPIRED = 3


@dataclass(frozen=True, slots=True)
class MemberGone:
    """A process has stopped being a member."""

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
    """The group has a new generation: the cluster refuses every earlier one from now on."""

    cluster: str
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class FencingWaived:
    """Grants on a cluster continue unfenced, because members reach it and the assigner does not."""

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
    """Returns the events that free leases, each small enough for one append; an interruption orphans the rest."""
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
    | ScalingEvent
    | ResponseEvent
)
