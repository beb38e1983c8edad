"""What a member's session tells whoever works on its leases. No session here."""

from collections.abc import Sequence
from typing import Protocol

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.records.delivery import OwnedLease
from braid.kernel.errors import BraidError
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
