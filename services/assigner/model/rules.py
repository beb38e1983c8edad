"""Rules that operators set for a group beyond its spec: pins, bans, drains, capacities, a freeze.

Values, events and commands only. Members are named by their client id, or by the id of one process; a rule may name a
member that is not there yet. `policy.constraints` says what rules mean for placement, `domain.operator_rules` which
rules are accepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

# --- state


class Zones(Enum):
    """Whether members are to consume from clusters of their own zone; numbered as in `rules.proto`."""

    ANY = 1
    PREFER = 2  # members of the zone hold it, as far as they are not loaded beyond the band
    STRICT = 3  # nobody else ever does


@dataclass(frozen=True, slots=True)
class Pin:
    """A lease belongs to a member. Unless `strict`, it goes elsewhere while that member is away."""

    member: str
    strict: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Ban:
    """A member never gets a part of the group.

    Attributes:
        member: Its client id or id.
        path: `<stream>`, `<stream>/<lane>`, a channel or a lease; empty with a cluster.
        cluster: All that lies on a cluster; empty with a path.
    """

    member: str
    path: str = ""
    cluster: str = ""

    def covers(self, lease: str, cluster: str) -> bool:
        """Whether the ban covers a lease, or a channel, on a cluster."""
        if self.cluster:
            return cluster == self.cluster
        return lease == self.path or lease.startswith(f"{self.path}/")

    @property
    def what(self) -> str:
        """Describes the banned part for people."""
        return f"cluster {self.cluster}" if self.cluster else self.path


@dataclass(frozen=True, slots=True)
class Drain:
    """A member gets no more leases and gives back those it holds; `drained_at_ms` is 0 until it holds none."""

    since_ms: int
    reason: str = ""
    drained_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Freeze:
    """Held leases do not move; free ones are placed as usual."""

    since_ms: int
    reason: str = ""


class Basis(Enum):
    """The measure that a placement evens out; numbered as in `rules.proto`."""

    LOAD = 1
    COUNT = 2


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """How the leases of a group are placed.

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
        """Counts the rules, for their bound."""
        return len(self.pins) + len(self.bans) + len(self.drains) + len(self.capacities)

    @property
    def constrain(self) -> bool:
        """Whether any rule may keep a lease from a member."""
        return bool(self.pins or self.bans or self.drains or self.spread or self.zones is not Zones.ANY)

    @property
    def names(self) -> frozenset[str]:
        """The members that rules name."""
        pinned = {pin.member for pin in self.pins.values()}
        return frozenset({*pinned, *(ban.member for ban in self.bans), *self.drains, *self.capacities})


NO_RULES = GroupRules()

# --- events


@dataclass(frozen=True, slots=True)
class LeasePinned:
    """A lease was pinned to a member."""

    lease: str
    member: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class LeaseUnpinned:
    """The pin of a lease was removed."""

    lease: str


@dataclass(frozen=True, slots=True)
class MemberBanned:
    """A member was banned from a part of the group."""

    member: str
    path: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class MemberUnbanned:
    """The ban of a member was lifted."""

    member: str
    path: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class GroupFrozen:
    """The group was frozen: held leases do not move."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupUnfrozen:
    """The group was unfrozen: leases move again."""


@dataclass(frozen=True, slots=True)
class MemberDrainStarted:
    """A member's drain began: it gets no more leases and gives back those it holds."""

    member: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MemberDrained:
    """A member that is being drained holds no lease any more."""

    member: str


@dataclass(frozen=True, slots=True)
class MemberDrainEnded:
    """A member's drain ended: it gets leases again."""

    member: str


@dataclass(frozen=True, slots=True)
class CapacitySet:
    """An operator set a member's capacity, whatever it declares: busy seconds per second."""

    member: str
    capacity: float


@dataclass(frozen=True, slots=True)
class CapacityUnset:
    """A member's declared capacity counts again."""

    member: str


@dataclass(frozen=True, slots=True)
class SpreadingSet:
    """The group's rules for zones and hosts were set."""

    zones: Zones
    hosts: bool


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The group's placement policy was set."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class ShadowSet:
    """A shadow policy was set: it is computed beside the real one."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class ShadowEnded:
    """The shadow policy was removed."""


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
    """Pins a lease to a member."""

    lease: str
    member: str
    strict: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class UnpinLease:
    """Removes the pin of a lease."""

    lease: str


@dataclass(frozen=True, slots=True)
class BanMember:
    """Bans a member from a part of the group."""

    ban: Ban
    absent: bool = False


@dataclass(frozen=True, slots=True)
class UnbanMember:
    """Lifts the ban of a member."""

    ban: Ban


@dataclass(frozen=True, slots=True)
class FreezeGroup:
    """Freezes or unfreezes a group."""

    frozen: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DrainMember:
    """Drains a member, or ends its drain."""

    member: str
    drained: bool
    reason: str = ""
    absent: bool = False


@dataclass(frozen=True, slots=True)
class SetCapacity:
    """Sets a member's capacity; None goes back to the declared one."""

    member: str
    capacity: float | None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class SetSpreading:
    """Sets the group's rules for zones and hosts; None leaves a rule as it is."""

    zones: Zones | None = None
    hosts: bool | None = None


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Sets a group's placement policy."""

    policy: PlacementPolicy


@dataclass(frozen=True, slots=True)
class SetShadow:
    """Sets the shadow policy; None removes it."""

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
