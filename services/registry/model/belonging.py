"""Ownership of a registered cluster by a mesh, and its comparison with the histories. Pure.

A cluster carries its mesh's mark (`marks.py`). The registry records here whether the mark log names this mesh or
another one. After a restore of the store, the cluster's topics and groups are compared with the histories, once per
incarnation. A topic or group that no history knows is an orphan: it is listed and left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.registry.model.clusters.specs import ClusterSpec


@dataclass(frozen=True, slots=True)
class Belonging:
    """Ownership of a cluster, as far as the registry knows it.

    Attributes:
        mesh: This mesh's id, once its mark was read back there.
        foreign_mesh: Another mesh's id, while the cluster carries its mark.
        incarnation: The store incarnation in which topics and groups were last compared with the histories.
        orphan_topics, orphan_groups: The first of those that no history knows.
        orphans: How many there are of both.
        uncompared: The store was restored since the last comparison. Never recorded: `as_of` computes it.
    """

    mesh: str = ""
    foreign_mesh: str = ""
    incarnation: int = 0
    orphan_topics: tuple[str, ...] = ()
    orphan_groups: tuple[str, ...] = ()
    orphans: int = 0
    uncompared: bool = False

    def as_of(self, incarnation: int) -> "Belonging":
        """The ownership as seen in an incarnation of the store."""
        return replace(self, uncompared=True) if self.incarnation < incarnation else self

    def may_be_orphan(self, topic: str) -> bool:
        """Whether a topic may have existed before the histories knew of it; true for any if there are too many to
        name."""
        return topic in self.orphan_topics or self.orphans > len(self.orphan_topics) + len(self.orphan_groups)

    @property
    def refusal(self) -> str:
        """Why the cluster accepts nothing new, for people; '' if it does."""
        if self.foreign_mesh:
            return f"marked by mesh {self.foreign_mesh}"
        return "not compared with the histories yet, which were restored" if self.uncompared else ""


# --- commands


@dataclass(frozen=True, slots=True)
class RecordMark:
    """Records that the cluster's mark log names this mesh."""

    mesh: str


@dataclass(frozen=True, slots=True)
class RecordForeignMark:
    """Records that the cluster's mark log names another mesh."""

    mesh: str


@dataclass(frozen=True, slots=True)
class RecordCompared:
    """Records that the cluster's topics and groups were compared with the histories of the store's incarnation."""

    incarnation: int
    orphan_topics: tuple[str, ...]
    orphan_groups: tuple[str, ...]
    orphans: int


BelongingCommand = RecordMark | RecordForeignMark | RecordCompared


# --- events; `spec` is the present declaration, for releases that know nothing else of them


@dataclass(frozen=True, slots=True)
class ClusterMarked:
    """The cluster carries this mesh's mark."""

    mesh: str
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ForeignMarkSeen:
    """The cluster carries another mesh's mark: nothing new is placed there and nothing is deleted there."""

    mesh: str
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterCompared:
    """The cluster's topics and groups were compared with the histories. Orphans are those that no history knows."""

    incarnation: int
    orphan_topics: tuple[str, ...]
    orphan_groups: tuple[str, ...]
    orphans: int
    spec: ClusterSpec


BelongingEvent = ClusterMarked | ForeignMarkSeen | ClusterCompared


def decide(state: Belonging, command: BelongingCommand, spec: ClusterSpec) -> Sequence[BelongingEvent]:
    """The events that a command leads to; none if it is recorded already."""
    match command:
        case RecordMark():
            known = (state.mesh, state.foreign_mesh) == (command.mesh, "")
            return [] if known else [ClusterMarked(command.mesh, spec)]
        case RecordForeignMark():
            return [] if state.foreign_mesh == command.mesh else [ForeignMarkSeen(command.mesh, spec)]
        case RecordCompared():
            event = ClusterCompared(
                command.incarnation, command.orphan_topics, command.orphan_groups, command.orphans, spec
            )
            return [] if evolve(state, event) == state else [event]


def evolve(state: Belonging, event: BelongingEvent) -> Belonging:
    """The state after an event."""
    match event:
        case ClusterMarked():
            return replace(state, mesh=event.mesh, foreign_mesh="")
        case ForeignMarkSeen():
            return replace(state, foreign_mesh=event.mesh)
        case ClusterCompared():
            return Belonging(
                state.mesh,
                state.foreign_mesh,
                event.incarnation,
                event.orphan_topics,
                event.orphan_groups,
                event.orphans,
            )
