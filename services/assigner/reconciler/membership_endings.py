"""Ends one group's memberships while this replica leads, once the group is no longer fenced; `unfencing` says why.

Every step is repeated from the last event until its cluster answers. A cluster that is away follows when it returns,
and nothing is granted there before.
"""

from collections.abc import Awaitable, Callable, Mapping

from braid.kernel.errors import BraidError, CorruptHistory, NotLeader, Unavailable
from braid.kernel.limits.assigner.leases import COMMITS_COPIED_AT_ONCE
from braid.kernel.ports import Committed, Kafka, KafkaOffsets, Task, TopicPartition
from braid.kernel.timing.backoff import Backoff
from braid.runtime.replica import Replica
from services.assigner.domain import unfencing
from services.assigner.model.commands import (
    Command,
    EndMembership,
    RecordAside,
)
from services.assigner.model.group import Group
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.peers import RegistryFollower
from services.assigner.reconciler.memberships import Memberships


class MembershipEnder:
    """Ends the memberships of one group, so that its commits are plain again."""

    def __init__(
        self,
        replica: Replica,
        kafka: Kafka,
        registry: RegistryFollower,
        memberships: Memberships,
        name: str,
        *,
        state: Callable[[], Group],
        execute: Callable[[Command, str], Awaitable[bool]],
    ) -> None:
        """`execute` decides a command at once, and balances."""
        self._replica = replica
        self._kafka = kafka
        self._registry = registry
        self._memberships = memberships
        self._name = name
        self._state = state
        self._execute = execute
        self._tasks: dict[str, Task] = {}

    def look(self) -> None:
        """Starts what the state asks for."""
        for cluster in unfencing.ending(self._state()):
            if cluster not in self._tasks:
                task = self._replica.host.tasks.spawn(self._end(cluster), f"{self._name} leaves {cluster}")
                self._tasks[cluster] = task

    @property
    def active(self) -> bool:
        """Whether a membership is being ended."""
        return bool(self._tasks)

    def stop(self) -> None:
        """Ends the tasks that were started here."""
        for task in self._tasks.values():
            task.cancel()

    async def _end(self, cluster: str) -> None:
        """Tries until no step is left."""
        backoff = Backoff(self._replica.host)
        try:
            while cluster in unfencing.ending(self._state()):
                try:
                    await self._attempt(cluster)
                except (NotLeader, CorruptHistory):
                    return  # the next leader goes on from the last event
                except BraidError as error:
                    self._replica.log.info(
                        "a membership ends later", group=self._name, cluster=cluster, error=str(error)
                    )
                    await backoff.wait()
        finally:
            self._tasks.pop(cluster, None)

    async def _attempt(self, cluster: str) -> None:
        view = self._registry.view
        place = view.clusters.get(cluster) if view else None
        if place is None:
            raise Unavailable(f"the registry does not know {cluster}", remedy="try again")
        offsets = self._kafka.cluster(place.bootstrap, place.security_profile).offsets()
        try:
            if not self._state().fences[cluster].aside:
                await self._set_aside(cluster, offsets)
            await self._write_back(cluster, place, offsets)
        finally:
            await offsets.close()

    async def _set_aside(self, cluster: str, offsets: KafkaOffsets) -> None:
        """Copies the progress to another name; the copy of an earlier attempt is replaced."""
        aside = unfencing.aside_name(self._name)
        progress = await offsets.committed(self._name, None)
        self._replica.require_leader()
        await offsets.delete_group(aside)
        await self._copy(offsets, progress, aside)
        await self._execute(RecordAside(cluster), f"progress on {cluster} is set aside")

    async def _write_back(self, cluster: str, place: ClusterPlace, offsets: KafkaOffsets) -> None:
        """Deletes the group, with Kafka's record of its last member, and writes its progress back."""
        aside = unfencing.aside_name(self._name)
        progress = await offsets.committed(aside, None)
        self._replica.require_leader()
        await self._memberships.of(place).leave(self._name, self._state().fences[cluster].member_id)
        self._replica.require_leader()
        await offsets.delete_group(self._name)
        await self._copy(offsets, progress, self._name)
        await self._execute(EndMembership(cluster), f"commits on {cluster} are plain")
        await offsets.delete_group(aside)

    async def _copy(self, offsets: KafkaOffsets, progress: Mapping[TopicPartition, Committed], group: str) -> None:
        """Commits progress under a name, and reads it back."""
        listed = list(progress.items())
        for at in range(0, len(listed), COMMITS_COPIED_AT_ONCE):
            self._replica.require_leader()
            await offsets.commit(group, dict(listed[at : at + COMMITS_COPIED_AT_ONCE]), None)
        if await offsets.committed(group, None) != progress:
            raise Unavailable(f"{group} was committed meanwhile by another program", remedy="try again")
