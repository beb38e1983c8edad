"""What a consumer asks of whoever keeps its leases, and what it is told of them. No session here."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.records.delivery import OwnedLease
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Generation


class LeaseListener(Protocol):
    """Does the work that leases allow. Calls come in order, from one task."""

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """These are ours from now on."""
        ...

    def lent(self, cluster: str, generation: Generation) -> None:
        """From now on commits on the cluster carry this, for the leases held there at this moment and later."""
        ...

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """Asked back: drain, commit for the last time, then call `LeaseSession.release`."""
        ...

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """No longer ours: drop them without another commit."""
        ...

    def busy(self) -> bool:
        """Whether anything that was handed out under a lost lease is still worked on (exclusive groups)."""
        ...

    def refused(self, error: BraidError) -> None:
        """The assigner refuses this member; trying again cannot mend it."""
        ...

    def resumed(self, lane: str) -> None:
        """An operator wants a lane that was stopped to go on."""
        ...

    def split(self, asked: wire.SplitBacklog) -> None:
        """An operator wants a lease to be worked on at its head too; what comes of it goes to `divided`."""
        ...


class LeaseKeeper(Protocol):
    """Where a consumer's leases come from: `LeaseSession` over an assigner, or a test's fixed split."""

    @property
    def member_id(self) -> str:
        """This member's id; empty before it joined."""
        ...

    @property
    def attached(self) -> bool:
        """Whether the leases held are certain."""
        ...

    def may_start(self) -> bool:
        """Whether a handler may start now."""
        ...

    async def joined(self) -> None:
        """Waits until this member belongs to its group."""
        ...

    async def run(self) -> None:
        """Keeps the membership until cancelled or refused."""
        ...

    async def guard(self) -> None:
        """Watches the deadline of leases until cancelled."""
        ...

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        """Gives a lease back after its last commit."""
        ...

    async def refused(self, cluster: str, generation: Generation) -> None:
        """Tells that a cluster refused a commit with what was lent; something newer is lent in time."""
        ...

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Tells all lanes that are stopped, each with its reason, whenever that has changed."""
        ...

    async def divided(self, splits: Sequence[wire.SplitLease]) -> None:
        """Tells all leases that are split, whenever that has changed, and beside them one that was refused to be."""
        ...

    async def found(self, findings: wire.RestoreFindings) -> None:
        """Tells what was not as committed where work on a lease began."""
        ...

    async def leaving(self) -> None:
        """Tells that nothing more is to be granted: what is held will be released, then `leave` comes."""
        ...

    async def leave(self, reason: str) -> None:
        """Leaves the group."""
        ...
