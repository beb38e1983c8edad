"""The port between a consumer and the keeper of its leases: what it asks for and what it is told. No session here."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.records.delivery import OwnedLease
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Generation


class LeaseListener(Protocol):
    """Does the work that leases allow. Calls come in order, from one task."""

    @property
    def divides_work(self) -> bool:
        """Whether the assigner may say how handlers are divided between lanes, and how many run."""
        ...

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """Begins work on leases that belong to this member from now on."""
        ...

    def lent(self, cluster: str, generation: Generation) -> None:
        """Uses this generation for commits on the cluster, for the leases held there now and later."""
        ...

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """Drains leases that are asked back, commits for the last time, then calls `LeaseSession.release`."""
        ...

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """Drops leases that belong to this member no longer, without another commit."""
        ...

    def busy(self) -> bool:
        """Whether records handed out under a lost lease are still handled (exclusive groups)."""
        ...

    def refused(self, error: BraidError) -> None:
        """Ends the consumer, because the assigner refuses this member for good."""
        ...

    def resumed(self, lane: str) -> None:
        """Resumes a stopped lane, as an operator asks."""
        ...

    def split(self, asked: wire.SplitBacklog) -> None:
        """Splits a lease, as an operator asks, so that its head is worked on too; the result goes to `divided`."""
        ...

    def work_divided(self, told: wire.WorkDivision) -> None:
        """Divides handlers between lanes as told from now on; an empty word means the member's own settings."""
        ...


class LeaseKeeper(Protocol):
    """Keeps a consumer's leases: `LeaseSession` over an assigner, or a test's fixed split."""

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
        """Reports that a cluster refused a commit with the lent generation; a newer one is lent in time."""
        ...

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Reports all stopped lanes with their reasons, whenever that has changed."""
        ...

    async def divided(self, splits: Sequence[wire.SplitLease]) -> None:
        """Reports all split leases, whenever that has changed, and a split that was refused."""
        ...

    async def found(self, findings: wire.RestoreFindings) -> None:
        """Reports findings about committed progress, where work on a lease began."""
        ...

    async def leaving(self) -> None:
        """Asks for no more grants: what is held will be released, then `leave` comes."""
        ...

    async def leave(self, reason: str) -> None:
        """Leaves the group."""
        ...
