"""Committed offsets of consumer groups, and memberships in them, as clusters keep them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from braid.kernel.ports.kafka.records import TopicPartition


class Generation(NamedTuple):
    """A borrowed group generation (KIP-394): brokers themselves refuse commits that carry an older one."""

    generation: int
    member_id: str


class Committed(NamedTuple):
    """A committed offset and its metadata; offset -1 when there is none.

    `leader_epoch` is the newest leader epoch among the records that the commit claims (KIP-320), stored beside the
    metadata; -1 where the commit does not say.
    """

    offset: int
    metadata: str
    leader_epoch: int = -1


class KafkaOffsets(Protocol):
    """Committed offsets of groups on one cluster."""

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        """Commits offsets with their metadata in one request; all or nothing is reported.

        Raises:
            Fenced: the broker refused the generation or member (never fall back to a plain commit then);
                `metadata["unknown_member"]` is there when it does not know the member at all.
            Invalid: the metadata is too large for the cluster.
            ClusterUnavailable: no answer in time; the commit may or may not have happened.
        """
        ...

    async def committed(
        self, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Committed]:
        """Reads committed offsets; offset -1 where there is none. None for `partitions`: all that is committed."""
        ...

    async def groups(self) -> Sequence[str]:
        """Lists all groups that the cluster keeps, of any protocol, sorted."""
        ...

    async def group_state(self, group: str) -> str:
        """Returns the group's state as Kafka names it: `Empty`, `Stable`, `Dead` (unknown) and others."""
        ...

    async def delete_group(self, group: str) -> None:
        """Deletes an empty group and its offsets; an unknown group is fine."""
        ...

    async def close(self) -> None:
        """Frees the client's connections."""
        ...


class KafkaMembership(Protocol):
    """The single classic membership that Braid holds of a group on one cluster, to lend its generation (KIP-394).

    Joining has two steps, so that the member id can be written down before it counts: whoever comes after a crash in
    between takes over with it. Every method raises `ClusterUnavailable` when the cluster does not answer in time.
    """

    async def check_vacant(self, group: str) -> None:
        """Checks that no other Kafka consumer uses the group's name; changes nothing in the group.

        Raises:
            GroupOccupied: other Kafka consumers do.
        """
        ...

    async def reserve(self, group: str) -> str:
        """Returns a member id to join with; that of Braid's own membership, if the group has one already.

        The cluster waits for every member that reserved an id. So joins of others may get no answer until an unused id
        lapses.

        Raises:
            GroupOccupied: other Kafka consumers use the group's name.
        """
        ...

    async def join(self, group: str, member_id: str) -> Generation:
        """Joins, or joins again, and thereby begins the group's next generation.

        Once this is answered, the broker refuses every earlier generation.

        Raises:
            Fenced: the cluster does not know the member id (any more): reserve another.
            GroupOccupied: other Kafka consumers use the group's name.
        """
        ...

    async def renew(self, group: str, generation: Generation) -> None:
        """Keeps the membership for another session. Raises `Fenced` when the generation is not the group's."""
        ...

    async def leave(self, group: str, member_id: str) -> None:
        """Ends the membership; one that is not there is fine. From then on the group takes plain commits."""
        ...

    async def close(self) -> None:
        """Frees the client's connections."""
        ...
