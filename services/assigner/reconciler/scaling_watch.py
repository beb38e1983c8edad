"""Looks at groups with a scaling policy while this replica leads, and asks for the number of members that follows.

A look that does not learn a group's lag changes nothing. What was seen so far is then forgotten, so a number always
follows from looks in a row.
"""

from collections.abc import Callable, Collection, Mapping

from braid.kernel.limits.scaling import SCALING_LOOK_SECONDS, SCALING_PREVIEWS_MAX, SCALING_RESTORED_SECONDS
from braid.kernel.ports import Task
from braid.runtime.replica import Replica
from services.assigner.domain.fewer_members import enough_members
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.scaling import ScalingMode, is_restored
from services.assigner.model.scaling_events import DesireCapacity
from services.assigner.peers import LagPeers
from services.assigner.policy.desired_capacity import ScalingMemory, Wish, after_restore
from services.assigner.policy.group_facts import facts_of
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper
from services.assigner.reconciler.shadow_loop import sliced


class ScalingWatch:
    """A term's looks at groups with a scaling policy, one group after another."""

    def __init__(self, replica: Replica, peers: LagPeers, keeper: Callable[[str], GroupKeeper]) -> None:
        self._replica = replica
        self._clock = replica.host.clock
        self._peers = peers
        self._keeper = keeper
        self._memories: dict[str, ScalingMemory] = {}
        self._looked_at = self._began_at = self._clock.elapsed()
        self._looking: Task | None = None

    def look(self) -> None:
        """Starts a round of looks when one is due and the last has ended."""
        now = self._clock.elapsed()
        if self._looking is None and now - self._looked_at >= SCALING_LOOK_SECONDS:
            self._looked_at = now
            self._looking = self._replica.host.tasks.spawn(self._look(), "members that groups need")

    def stop(self) -> None:
        """Ends a round that is under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        try:
            groups = self._replica.aggregates.states(GROUPS)
            scaled = {name: state for name, state in groups.items() if _is_scaled(state)}
            self._memories = {name: known for name, known in self._memories.items() if name in scaled}
            self._peers.keep({stream for state in scaled.values() if state.spec for stream in state.spec.streams})
            for name in scaled:
                await self._look_at(name)
        finally:
            self._looking = None

    async def _look_at(self, name: str) -> None:
        scaling = self._state(name).scaling
        if is_restored(scaling, self._replica.aggregates.incarnation):
            self._look_after_restore(name)
            return
        lanes = _lanes(self._state(name))
        lag = await self._peers.lag(name)
        targets = await self._targets(name, lanes)
        state = self._state(name)  # as it is after the answers
        if not _is_scaled(state):
            return
        loads = self._keeper(name).loads()
        facts = None if lag is None or targets is None else facts_of(state, loads, lag, targets)
        memory = self._memories.setdefault(name, ScalingMemory(self._looked_at))
        wish = memory.look(state.scaling, facts, self._clock.elapsed())
        if wish is not None:
            wish = await self._checked(state, loads, wish)
        if wish is not None:
            self._keeper(name).desire(DesireCapacity(*wish, state.scaling))

    def _look_after_restore(self, name: str) -> None:
        """Takes the members that are here for the number, once those of the backup that are gone have expired."""
        state = self._state(name)
        if self._clock.elapsed() - self._began_at < SCALING_RESTORED_SECONDS:
            return
        wish = after_restore(state.scaling, len(state.members))
        if wish is not None:
            self._keeper(name).desire(DesireCapacity(*wish, state.scaling))

    async def _targets(self, group: str, lanes: Mapping[str, Collection[str]]) -> Mapping[str, float] | None:
        """Returns the group's targets by `<stream>/<lane>`; None when one stream's are not known."""
        found: dict[str, float] = {}
        for stream, names in lanes.items():
            told = await self._peers.targets(group, stream, names)
            if told is None:
                return None
            found |= {f"{stream}/{lane}": seconds for lane, seconds in told.items()}
        return found

    async def _checked(self, state: Group, loads: Loads, wish: Wish) -> Wish | None:
        """Returns a wish for fewer members as far as a preview of the placement bears it out."""
        desired, present = state.scaling.desired, len(state.members)
        if desired is None or wish.members >= min(desired.members, present):
            return wish
        for members in range(wish.members, min(wish.members + SCALING_PREVIEWS_MAX, desired.members, present)):
            work = enough_members(state, loads, members, self._clock.now_ms())
            if await sliced(work, self._clock):
                return wish._replace(members=members)
        return None

    def _state(self, name: str) -> Group:
        return self._replica.aggregates.state(GROUPS, name)


def _lanes(state: Group) -> Mapping[str, Collection[str]]:
    lanes: dict[str, set[str]] = {}
    for channel in state.channels.values():
        if state.spec is not None and state.spec.wants(channel.id) and channel.consumable and not channel.closed:
            lanes.setdefault(channel.id.stream, set()).add(channel.id.lane)
    return lanes


def _is_scaled(state: Group) -> bool:
    return state.spec is not None and state.scaling.policy.mode is not ScalingMode.OFF
