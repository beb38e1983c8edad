"""Groups of one cluster in memory: committed offsets, and the single member whose generation fences them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import Fenced, Invalid, Refused
from braid.kernel.ports import Committed, Generation, TopicPartition

METADATA_MAX_UNITS: Final = 4096
_NONE: Final = Committed(-1, "")


@dataclass(slots=True)
class _Group:
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    generation: int = 0
    member_id: str | None = None


class Groups:
    """The group coordinator's state and rules."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def commit(self, name: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
        """Stores offsets. Raises `Fenced`, `Invalid`."""
        group = self._groups.get(name, _Group())
        held = None if group.member_id is None else Generation(group.generation, group.member_id)
        if generation != held:
            raise Fenced(f"group {name}: the generation or member is not the group's current one")
        for partition, committed in offsets.items():
            if len(committed.metadata.encode("utf-16-le")) // 2 > METADATA_MAX_UNITS:
                raise Invalid(f"the commit metadata of group {name}, {partition} is too large", field="metadata")
        self._groups[name] = group
        group.offsets.update(offsets)

    def committed(self, name: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Committed offsets, -1 where there is none."""
        offsets = self._groups[name].offsets if name in self._groups else {}
        return {partition: offsets.get(partition, _NONE) for partition in partitions}

    def state(self, name: str) -> str:
        """As Kafka names it."""
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

    def leave(self, name: str) -> None:
        """The member is gone; generations go on counting."""
        if name in self._groups:
            self._groups[name].member_id = None

    def forget_topic(self, topic: str) -> None:
        """Drops what was committed for a deleted topic."""
        for group in self._groups.values():
            group.offsets = {at: committed for at, committed in group.offsets.items() if at.topic != topic}
