"""Ownership of a registered cluster by a mesh, and its comparison with the histories. Pure.

A cluster carries its mesh's mark (`marks.py`). What the mark log says is recorded here: that it names this mesh, or
another one. After a restore of the store the cluster's topics and groups are compared with the histories, once for each
incarnation; what no history knows is an orphan: it is listed and left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.registry.model.cluster_specs import ClusterSpec


@dataclass(frozen=True, slots=True)
class Belonging:
    """Ownership of a cluster as far as the registry knows it.

    Attributes:
        mesh: This mesh's id, once its mark was read back there.
        foreign_mesh: Another mesh's id, while the cluster carries that one's mark.
        incarnation: The store's, in which topics and groups were last compared with the histories.
        orphan_topics, orphan_groups: The first of those that no history knows.
        orphans: How many there are of both.
        uncompared: The store was restored since they were compared. Never recorded: `as_of` says so.
    """

    mesh: str = ""
    foreign_mesh: str = ""
    incarnation: int = 0
    orphan_topics: tuple[str, ...] = ()
    orphan_groups: tuple[str, ...] = ()
    orphans: int = 0
    uncompared: bool = False

    def as_of(self, incarnation: int) -> "Belonging":
        """This, seen in an incarnation of the store."""
        return replace(self, uncompared=True) if self.incarnation < incarnation else self

    def may_be_orphan(self, topic: str) -> bool:
        """Whether a topic was there before the histories knew of it; any may be where there are too many to name."""
        return topic in self.orphan_topics or self.orphans > len(self.orphan_topics) + len(self.orphan_groups)

    @property
    def refusal(self) -> str:
        """The reason why the cluster takes nothing new, for people; '' if it does."""
        if self.foreign_mesh:
            return f"marked by mesh {self.foreign_mesh}"
        return "not compared with the histories yet, which were restored" if self.uncompared else ""


# --- commands


@dataclass(frozen=True, slots=True)
class RecordMark:
    """The cluster's mark log names this mesh."""

    mesh: str


@dataclass(frozen=True, slots=True)
class RecordForeignMark:
    """The cluster's mark log names another mesh."""

    mesh: str


@dataclass(frozen=True, slots=True)
class RecordCompared:
    """Topics and groups of the cluster were compared with the histories of the store's incarnation."""

    incarnation: int
    orphan_topics: tuple[str, ...]
    orphan_groups: tuple[str, ...]
    orphans: int


BelongingCommand = RecordMark | RecordForeignMark | RecordCompared


# --- events; `spec` is the present declaration, for releases that know nothing else of them


@dataclass(frozen=True, slots=True)
class ClusterMarked:
    """It carries this mesh's mark."""

    mesh: str
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ForeignMarkSeen:
    """It carries another mesh's mark: nothing new goes there and nothing is deleted there."""

    mesh: str
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterCompared:
    """Its topics and groups were compared with the histories. Orphans are those that no history knows."""

    incarnation: int
    orphan_topics: tuple[str, ...]
    orphan_groups: tuple[str, ...]
    orphans: int
    spec: ClusterSpec


BelongingEvent = ClusterMarked | ForeignMarkSeen | ClusterCompared


def decide(state: Belonging, command: BelongingCommand, spec: ClusterSpec) -> Sequence[BelongingEvent]:
    """Events that follow; what is recorded already leads to none."""
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
