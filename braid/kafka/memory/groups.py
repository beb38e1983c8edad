"""Groups of one cluster in memory: committed offsets, and the single member whose generation fences them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import ClusterUnavailable, Fenced, GroupOccupied, Invalid, Refused
from braid.kernel.ports import Committed, Generation, TopicPartition

METADATA_MAX_UNITS: Final = 4096
_NONE: Final = Committed(-1, "")


@dataclass(slots=True)
class _Group:
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    generation: int = 0
    member_id: str | None = None
    reserved: set[str] = field(default_factory=set)
    stray: bool = False


class Groups:
    """The group coordinator's state and rules."""

    def __init__(self, members: str = "member") -> None:
        """`members` begins the ids it gives out."""
        self._groups: dict[str, _Group] = {}
        self._members = members
        self.metadata_max_units = METADATA_MAX_UNITS
        self.counts_bytes = False  # as brokers do that are not Kafka's
        self._ids = 0

    def commit(self, name: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
        """Stores offsets. Raises `Fenced`, `Invalid`."""
        group = self._groups.get(name, _Group())
        held = None if group.member_id is None else Generation(group.generation, group.member_id)
        if generation != held:
            raise _fenced(name, held, generation)
        for partition, committed in offsets.items():
            if self._size(committed.metadata) > self.metadata_max_units:
                raise Invalid(f"the commit metadata of group {name}, {partition} is too large", field="metadata")
        self._groups[name] = group
        group.offsets.update(offsets)

    def _size(self, metadata: str) -> int:
        return len(metadata.encode()) if self.counts_bytes else len(metadata.encode("utf-16-le")) // 2

    def committed(self, name: str, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Committed]:
        """Committed offsets, -1 where there is none; without `partitions` all there are."""
        offsets = self._groups[name].offsets if name in self._groups else {}
        if partitions is None:
            return dict(offsets)
        return {partition: offsets.get(partition, _NONE) for partition in partitions}

    def names(self) -> list[str]:
        """All groups, sorted."""
        return sorted(self._groups)

    def state(self, name: str) -> str:
        """The state's name, as in Kafka's protocol."""
        if name not in self._groups:
            return "Dead"
        return "Empty" if self._groups[name].member_id is None else "Stable"

    def delete(self, name: str) -> None:
        """Deletes an empty group. Raises `Refused` while it has its member."""
        if self.state(name) == "Stable":
            raise Refused(f"group {name} has members", remedy="stop them first")
        self._groups.pop(name, None)

    def join(self, name: str, member_id: str) -> Generation:
        """A member joins, or rejoins: the group's next generation."""
        group = self._groups.setdefault(name, _Group())
        group.generation += 1
        group.member_id = member_id
        return Generation(group.generation, member_id)

    def check_vacant(self, name: str) -> None:
        """See `KafkaMembership.check_vacant`."""
        self._vacant(name)

    def reserve(self, name: str) -> str:
        """See `KafkaMembership.reserve`."""
        group = self._vacant(name)
        if group.member_id is None:
            self._ids += 1
            group.reserved.add(f"{self._members}-{self._ids}")
            self._groups[name] = group
            return f"{self._members}-{self._ids}"
        return group.member_id

    def join_reserved(self, name: str, member_id: str) -> Generation:
        """See `KafkaMembership.join`. A rebalance waits for all who reserved; here they lapse during the first wait."""
        group = self._vacant(name)
        if member_id != group.member_id and (member_id not in group.reserved or group.member_id is not None):
            raise _fenced(name, None, Generation(group.generation, member_id))
        group.reserved.discard(member_id)
        if group.member_id is not None and group.reserved:
            group.reserved.clear()
            raise ClusterUnavailable(f"join of group {name}: the cluster did not answer in time")
        return self.join(name, member_id)

    def renew(self, name: str, generation: Generation) -> None:
        """See `KafkaMembership.renew`."""
        group = self._groups.get(name, _Group())
        held = None if group.member_id is None else Generation(group.generation, group.member_id)
        if generation != held:
            raise _fenced(name, held, generation)

    def leave(self, name: str, member_id: str | None = None) -> None:
        """The member is gone, or the one named if it is that; generations go on counting."""
        group = self._groups.get(name)
        if group is not None and member_id in (None, group.member_id):
            group.member_id = None

    def occupy(self, name: str) -> bool:
        """A consumer of somebody else joins; whether it is let in."""
        group = self._groups.setdefault(name, _Group())
        if group.member_id is None:
            group.member_id, group.stray = "stray", True
            group.generation += 1
        return group.stray

    def _vacant(self, name: str) -> _Group:
        group = self._groups.get(name, _Group())
        if group.stray:
            raise GroupOccupied(f"group {name} has members of other Kafka consumers", field="group")
        return group

    def forget_topic(self, topic: str) -> None:
        """Drops what was committed for a deleted topic."""
        for group in self._groups.values():
            group.offsets = {at: committed for at, committed in group.offsets.items() if at.topic != topic}


def _fenced(name: str, held: Generation | None, generation: Generation | None) -> Fenced:
    known = held is not None and generation is not None and held.member_id == generation.member_id
    text = f"group {name}: the generation or member is not the group's current one"
    return Fenced(text, metadata=None if known else {"unknown_member": "true"})
