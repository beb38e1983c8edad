"""What members were told of leases, and what the assigner's history says about them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTold:
    """A member of a group, in a process, works on a lease under an epoch from now on."""

    process: str
    group: str
    lease: str
    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseDropped:
    """The process takes up nothing more of it: it was asked back, taken, or given up."""

    process: str
    group: str
    lease: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Steady:
    """From now on nothing befalls a group's members; or, where not `steady`, something may again."""

    group: str
    steady: bool


@dataclass(frozen=True, slots=True)
class EventDecided:
    """A leader of a service wrote an event; `leading` is the epoch of whom the store held for the leader just then."""

    service: str
    leader_epoch: int
    leading: int


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """A member holds a lease under an epoch; decided at a wall-clock time (ms) of its leader."""

    group: str
    lease: str
    member: str
    epoch: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class LeaseFreed:
    """A lease is nobody's: what was granted under the epoch has ended."""

    group: str
    lease: str
    epoch: int
