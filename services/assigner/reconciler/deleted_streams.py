"""Ends the members of a group whose streams were all deleted: nothing will ever come for them again.

The registry's channels raise the suspicion, the registry itself confirms it: a stream may be between two channels, or
have been created again under its name.
"""

from collections.abc import Callable, Sequence

from braid.kernel.errors import NotFound
from braid.kernel.ports import Task
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.peers import RegistryFollower


def streams_deleted(group: str, streams: Sequence[str]) -> NotFound:
    """Returns the error for members of a group whose streams are all deleted."""
    named = ", ".join(streams)
    many = len(streams) > 1
    return NotFound(
        f"stream{'s' if many else ''} {named} {'were' if many else 'was'} deleted: "
        f"group {group} has nothing left to consume",
        field="spec.streams",
        remedy=f"create {'one of them' if many else 'it'} again, or delete the group: braid delete group {group}",
    )


class DeletedStreams:
    """Watches for one group, while this replica leads, whether its streams were deleted."""

    def __init__(
        self,
        replica: Replica,
        registry: RegistryFollower,
        *,
        state: Callable[[], Group],
        present: Callable[[], bool],
        end_members: Callable[[NotFound], None],
    ) -> None:
        """`present` says whether any member is connected; `end_members` ends the streams of all that are."""
        self._replica = replica
        self._registry = registry
        self._state = state
        self._present = present
        self._end_members = end_members
        self._asking: Task | None = None

    def look(self) -> None:
        """Asks the registry if all channels of the group's streams are gone or about to go, and members wait."""
        spec = self._state().spec
        if self._asking is None and spec is not None and self._present() and self._registry.suspects(spec.streams):
            asking = self._ask(spec.streams)
            self._asking = self._replica.host.tasks.spawn(asking, f"streams of {self._state().name}")

    @property
    def active(self) -> bool:
        """Whether the registry is asked."""
        return self._asking is not None

    def stop(self) -> None:
        """Ends the tasks that were started here."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, streams: Sequence[str]) -> None:
        try:
            deleted = await self._registry.deleted(streams)
        finally:
            self._asking = None
        spec = self._state().spec
        if deleted and spec is not None and spec.streams == streams:
            self._end_members(streams_deleted(self._state().name, streams))
