"""Rounds of looks at the groups that have some policy, while this replica leads: one group after another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from braid.kernel.ports import Task
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.peers import LagPeers
from services.assigner.reconciler.group_loop import GROUPS

M = TypeVar("M")


class GroupLooks(Generic[M]):
    """A term's rounds for one kind of policy. What was seen of a group is forgotten with its policy.

    Attributes:
        memories: What earlier looks saw, by group.
        began_at: When the last round began, on a clock that never steps.
    """

    def __init__(
        self,
        replica: Replica,
        peers: LagPeers,
        seconds: float,
        what: str,
        chosen: Callable[[Group], bool],
        look_at: Callable[[str], Awaitable[None]],
    ) -> None:
        """Prepares a term.

        Args:
            replica: It leads.
            peers: Forgets the streams of groups that are not looked at.
            seconds: Between the beginnings of two rounds.
            what: Names the task of a round.
            chosen: Whether a group is looked at.
            look_at: Looks at the group of a name.
        """
        self.memories: dict[str, M] = {}
        self.began_at = replica.host.clock.elapsed()
        self._replica = replica
        self._peers = peers
        self._seconds = seconds
        self._what = what
        self._chosen = chosen
        self._look_at = look_at
        self._names: set[str] = set()  # of groups that may be chosen
        self._looking: Task | None = None

    def follow(self, state: Group) -> None:
        """Takes a group as it is now: without a look at all groups, those that are chosen are known."""
        if self._chosen(state):
            self._names.add(state.name)
        else:
            self._names.discard(state.name)

    def look(self) -> None:
        """Starts a round when one is due and the last has ended."""
        now = self._replica.host.clock.elapsed()
        if self._looking is not None or now - self.began_at < self._seconds:
            return
        self.began_at = now
        groups = {name: self._replica.aggregates.state(GROUPS, name) for name in sorted(self._names)}
        chosen = {name: state for name, state in groups.items() if self._chosen(state)}  # others are gone by a restore
        self._names = set(chosen)
        self.memories = {name: known for name, known in self.memories.items() if name in chosen}
        self._peers.keep({stream for state in chosen.values() if state.spec for stream in state.spec.streams})
        if chosen:
            self._looking = self._replica.host.tasks.spawn(self._round([*chosen]), self._what)

    def stop(self) -> None:
        """Ends a round that is under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _round(self, groups: Sequence[str]) -> None:
        try:
            for name in groups:
                await self._look_at(name)
        finally:
            self._looking = None
