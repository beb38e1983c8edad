"""What operators ask of a group beyond its spec: pins, bans, drains, capacities, a freeze. Values, events, commands.

Members are named by their client id, or by the id of one process; a rule waits for a name nobody carries. What the
rules mean for placement is in `constraints`, what may be asked for in `operations`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

# --- state


class Zones(Enum):
    """Whether members are to consume from clusters of their own zone; numbered as in `rules.proto`."""

    ANY = 1
    PREFER = 2  # where a member of the zone may hold the partition, nobody else does
    STRICT = 3  # nobody else ever does


@dataclass(frozen=True, slots=True)
class Pin:
    """A lease belongs to a member. Unless `strict`, it goes elsewhere while that member is away."""

    member: str
    strict: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Ban:
    """A member is given nothing of a part of the group, whatever happens.

    Attributes:
        member: Its client id or id.
        path: `<stream>`, `<stream>/<lane>`, a channel or a lease; empty with a cluster.
        cluster: All that lies on a cluster; empty with a path.
    """

    member: str
    path: str = ""
    cluster: str = ""

    def covers(self, lease: str, cluster: str) -> bool:
        """Whether a lease, or a channel, on a cluster is meant."""
        if self.cluster:
            return cluster == self.cluster
        return lease == self.path or lease.startswith(f"{self.path}/")

    @property
    def what(self) -> str:
        """For people: of what."""
        return f"cluster {self.cluster}" if self.cluster else self.path


@dataclass(frozen=True, slots=True)
class Drain:
    """A member is given nothing more and gives back what it holds; `drained_at_ms` is 0 until it holds nothing."""

    since_ms: int
    reason: str = ""
    drained_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing that is held moves; what is free is placed as ever."""

    since_ms: int
    reason: str = ""


class Basis(Enum):
    """What a placement evens out; numbered as in `rules.proto`."""

    LOAD = 1
    COUNT = 2


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """How leases are placed.

    Attributes:
        basis: What is evened out.
        high: Leases move by load once a member is so far above the mean, a part of it; 0 for the default.
        low: Or below it.
    """

    basis: Basis = Basis.LOAD
    high: float = 0.0
    low: float = 0.0


@dataclass(frozen=True, slots=True)
class Shadow:
    """A policy that is computed beside the real one, and never acted upon."""

    policy: PlacementPolicy
    since_ms: int


@dataclass(frozen=True, slots=True)
class GroupRules:
    """All rules of a group.

    Attributes:
        pins: By lease.
        bans: Sorted.
        drains: By member.
        capacities: What members bear instead of what they declared, by member.
        freeze: None when the group is not frozen.
        zones: Whether members keep to clusters of their zone.
        spread: Whether partitions of one lane are kept apart over hosts.
        policy: How leases are placed.
        shadow: Another policy that is tried beside it; None for none.
    """

    pins: Mapping[str, Pin] = field(default_factory=dict)
    bans: tuple[Ban, ...] = ()
    drains: Mapping[str, Drain] = field(default_factory=dict)
    capacities: Mapping[str, float] = field(default_factory=dict)
    freeze: Freeze | None = None
    zones: Zones = Zones.ANY
    spread: bool = False
    policy: PlacementPolicy = PlacementPolicy()
    shadow: Shadow | None = None

    @property
    def count(self) -> int:
        """How many there are, for their bound."""
        return len(self.pins) + len(self.bans) + len(self.drains) + len(self.capacities)

    @property
    def constrain(self) -> bool:
        """Whether any of them may keep a lease from a member."""
        return bool(self.pins or self.bans or self.drains or self.spread or self.zones is not Zones.ANY)

    @property
    def names(self) -> frozenset[str]:
        """The members they name."""
        pinned = {pin.member for pin in self.pins.values()}
        return frozenset({*pinned, *(ban.member for ban in self.bans), *self.drains, *self.capacities})


NO_RULES = GroupRules()

# --- events


@dataclass(frozen=True, slots=True)
class LeasePinned:
    """A lease belongs to a member from now on."""

    lease: str
    member: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class LeaseUnpinned:
    """A lease belongs to nobody in particular."""

    lease: str


@dataclass(frozen=True, slots=True)
class MemberBanned:
    """A member is given nothing of a part of the group."""

    member: str
    path: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class MemberUnbanned:
    """A ban is lifted."""

    member: str
    path: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class GroupFrozen:
    """Nothing that is held moves from now on."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupUnfrozen:
    """Leases move again."""


@dataclass(frozen=True, slots=True)
class MemberDrainStarted:
    """A member is given nothing more, and gives back what it holds."""

    member: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MemberDrained:
    """A member that is being drained holds nothing any more."""

    member: str


@dataclass(frozen=True, slots=True)
class MemberDrainEnded:
    """A member is given leases again."""

    member: str


@dataclass(frozen=True, slots=True)
class CapacitySet:
    """A member bears so much, whatever it declares: busy seconds per second."""

    member: str
    capacity: float


@dataclass(frozen=True, slots=True)
class CapacityUnset:
    """A member bears what it declares."""

    member: str


@dataclass(frozen=True, slots=True)
class SpreadingSet:
    """How the group keeps to zones and apart over hosts from now on."""

    zones: Zones
    hosts: bool


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Leases are placed by this policy from now on."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class ShadowSet:
    """A policy is computed beside the real one from now on."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class ShadowEnded:
    """It is not computed any more."""


RuleEvent = (
    LeasePinned
    | LeaseUnpinned
    | MemberBanned
    | MemberUnbanned
    | GroupFrozen
    | GroupUnfrozen
    | MemberDrainStarted
    | MemberDrained
    | MemberDrainEnded
    | CapacitySet
    | CapacityUnset
    | SpreadingSet
    | PolicySet
    | ShadowSet
    | ShadowEnded
)

# --- commands. With `absent` a member's name is taken although nobody carries it now.


@dataclass(frozen=True, slots=True)
class PinLease:
    """Gives a lease to a member for good."""

    lease: str
    member: str
    strict: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class UnpinLease:
    """Takes a pin away."""

    lease: str


@dataclass(frozen=True, slots=True)
class BanMember:
    """Keeps a part of the group from a member."""

    ban: Ban
    absent: bool = False


@dataclass(frozen=True, slots=True)
class UnbanMember:
    """Lifts a ban."""

    ban: Ban


@dataclass(frozen=True, slots=True)
class FreezeGroup:
    """Stops all moves of what is held, or lets them go on."""

    frozen: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DrainMember:
    """Empties a member, or gives it leases again."""

    member: str
    drained: bool
    reason: str = ""
    absent: bool = False


@dataclass(frozen=True, slots=True)
class SetCapacity:
    """Overrides what a member declared; None no longer does."""

    member: str
    capacity: float | None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class SetSpreading:
    """Sets how the group keeps to zones and apart over hosts; None leaves as it is."""

    zones: Zones | None = None
    hosts: bool | None = None


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Places leases by another policy."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class SetShadow:
    """Tries a policy beside the real one; None no longer does."""

    policy: PlacementPolicy | None


RuleCommand = (
    PinLease
    | UnpinLease
    | BanMember
    | UnbanMember
    | FreezeGroup
    | DrainMember
    | SetCapacity
    | SetSpreading
    | SetPolicy
    | SetShadow
)
