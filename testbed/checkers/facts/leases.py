"""Facts about leases: what members were sent, and what the assigner's history records."""

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
    """The process starts no more work on the lease: it was revoked, taken, or given up."""

    process: str
    group: str
    lease: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Steady:
    """Nothing affects a group's members from now on; or, if not `steady`, something may again."""

    group: str
    steady: bool


@dataclass(frozen=True, slots=True)
class EventDecided:
    """A leader of a service wrote an event; `leading` is the epoch of the leader in the store at that moment."""

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
    """A lease has no holder: the grant under this epoch has ended."""

    group: str
    lease: str
    epoch: int
