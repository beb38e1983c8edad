"""Mutants of what follows a restore of the event store: see `mutants`."""

from typing import Final

from services.assigner.model import generations
from services.assigner.model.group import Group
from services.assigner.reconciler.term import Term
from services.registry.model.belonging import Belonging
from services.registry.ownership import deletion, mark_keeper, restoration
from services.registry.ownership.mark_log import MarkLogs
from tests.simulation.mutants import Mutant

RESTORE_FAULTS: Final = (
    *("restore-store",) * 3,
    *("move-stream",) * 5,
    *("evacuate-cluster",) * 2,
    *("kill-cluster", "kill-service", "kill-member", "share-stream", "resize-lane"),
)
RESTORES: Final = {"fault_seconds": 60.0, "settle_seconds": 90.0}


def _compared_already(self: Belonging, incarnation: int) -> Belonging:
    return self


async def _never_written(*arguments: object) -> bool:
    """Every spare is as it was planned."""
    return False


def _bumps_nothing(*arguments: object) -> tuple[()]:
    return ()


def _knows_all_holders(self: Term, state: Group) -> bool:
    return False


async def _keep_spares(self: restoration.Restoration, spares: object) -> None:
    """A spare is one, with a topic or without."""


_NEVER_WRITTEN: Final = [(deletion, "was_written", _never_written), (restoration, "was_written", _never_written)]

RESTORE_MUTANTS: Final = (
    Mutant(
        "restored histories are not compared",
        "I1 zero loss",
        [(Belonging, "as_of", _compared_already)],
        RESTORE_FAULTS,
        RESTORES,
    ),
    Mutant("every spare is taken for empty", "I11 drains", _NEVER_WRITTEN, RESTORE_FAULTS, RESTORES),
    Mutant(
        "holders of before a restore are not fenced",
        "I4 fencing",
        [(generations, "after_restore", _bumps_nothing)],
        RESTORE_FAULTS,
        RESTORES,
    ),
    Mutant(
        "exclusive leases of before a restore are not waited for",
        "I5 exclusive",
        [(Term, "_may_be_held", _knows_all_holders)],
        RESTORE_FAULTS,
        RESTORES,
    ),
    Mutant(
        "a spare is one without a topic",
        "I13 liveness",
        [(restoration.Restoration, "_give_up", _keep_spares)],
        RESTORE_FAULTS,
        RESTORES,
    ),
)


# --- two meshes on one cluster

MESHES_FAULTS: Final = (
    *("move-stream",) * 4,
    *("evacuate-cluster",) * 3,
    *("kill-cluster", "kill-service", "kill-member", "share-stream", "resize-lane"),
)
MESHES: Final = {"fault_seconds": 60.0, "settle_seconds": 90.0, "second_mesh": True}


async def _always_ours(self: MarkLogs, *arguments: object) -> str:
    """Calls every cluster ours, whatever the mark says."""
    return self.mesh


async def _require_nothing(self: MarkLogs, *arguments: object) -> None:
    """Deletes whosever the cluster is."""


def _is_no_orphan(self: Belonging, topic: str) -> bool:
    return False


MESHES_MUTANTS: Final = (
    Mutant("marks are not compared", "marks", [(MarkLogs, "owner", _always_ours)], MESHES_FAULTS, MESHES),
    Mutant(
        "a mesh deletes where it lost the mark",
        "I11 two meshes",
        [(MarkLogs, "require_ours", _require_nothing), (mark_keeper, "MARK_LOOK_SECONDS", 3_600.0)],
        MESHES_FAULTS,
        MESHES,
    ),
    Mutant(
        "an orphan is taken for a leftover",
        "I11 two meshes",
        [(Belonging, "may_be_orphan", _is_no_orphan)],
        MESHES_FAULTS,
        MESHES,
    ),
)
