"""Rules for backups of event stores: their identity, the stores that accept them, and the next incarnation. Pure.

A backup belongs to the mesh whose store it is a copy of. A restore keeps the mesh's id and begins an incarnation of the
store that none before had, so that epochs rise and every service reads its histories anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from braid.kernel.errors import Invalid, Refused

TEN_MINUTES_MS: Final = 600_000  # as many since 1970 as fit into an incarnation until 2129


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Identity of a store or of a backup.

    Attributes:
        mesh: The id of its mesh; '' where an earlier release made none.
        incarnation: The store's.
        histories: How many it holds.
    """

    mesh: str
    incarnation: int
    histories: int


def check_mesh(backup: StoreFacts, store: StoreFacts | None, name: str) -> None:
    """Raises `Invalid` for a backup of another mesh than the store's; a store that is lost takes any."""
    if store is not None and backup.mesh and store.mesh and backup.mesh != store.mesh:
        raise Invalid(
            f"{name} is a backup of mesh {backup.mesh}, this store belongs to mesh {store.mesh}",
            field="FILE",
            remedy="name a backup of this mesh, or another store",
        )


def check_stopped(running: Sequence[str]) -> None:
    """Raises `Refused` while services use the store."""
    if running:
        message = f"services use the store: {', '.join(sorted(running))}"
        raise Refused(message, field="--store", remedy="stop all services, wait ten seconds, then restore")


def next_incarnation(backup: StoreFacts, store: StoreFacts | None, now_ms: int) -> int:
    """An incarnation that no store of the mesh had before.

    Of a store that is lost, or was put back by other means, nobody knows how often it was restored from this backup:
    the calendar, in units of ten minutes, counts on beyond that.
    """
    if store is not None:
        return max(backup.incarnation, store.incarnation) + 1
    return max(backup.incarnation + 1, now_ms // TEN_MINUTES_MS)
