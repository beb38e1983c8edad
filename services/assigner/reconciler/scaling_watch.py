"""Looks at groups with a scaling policy while this replica leads, and asks for the number of members that follows.

A look that does not learn a group's lag changes nothing. What was seen so far is then forgotten, so a number always
follows from looks in a row.
"""

from collections.abc import Callable, Collection, Mapping

from braid.kernel.limits.assigner.scaling import SCALING_LOOK_SECONDS, SCALING_PREVIEWS_MAX, SCALING_RESTORED_SECONDS
from braid.kernel.timing.slices import in_turns
from braid.runtime.replica import Replica
from services.assigner.domain.fewer_members import enough_members
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.lag.scaling import ScalingMode, is_restored
from services.assigner.model.lag.scaling_events import DesireCapacity
from services.assigner.peers import LagPeers
from services.assigner.policy.desired_capacity import ScalingMemory, Wish, after_restore
from services.assigner.policy.group_facts import facts_of
from services.assigner.reconciler.group_looks import GroupLooks
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper


class ScalingWatch:
    """A term's looks at groups with a scaling policy, one group after another."""

    def __init__(self, replica: Replica, peers: LagPeers, keeper: Callable[[str], GroupKeeper]) -> None:
        self._replica = replica
        self._clock = replica.host.clock
        self._peers = peers
        self._keeper = keeper
        self._began_at = self._clock.elapsed()
        self._looks: GroupLooks[ScalingMemory] = GroupLooks(
            replica, peers, SCALING_LOOK_SECONDS, "members that groups need", _is_scaled, self._look_at
        )

    def follow(self, state: Group) -> None:
        """Takes a group as it is now."""
        self._looks.follow(state)

    def look(self) -> None:
        """Starts a round of looks when one is due and the last has ended."""
        self._looks.look()

    def stop(self) -> None:
        """Ends a round that is under way."""
        self._looks.stop()

    async def _look_at(self, name: str) -> None:
        scaling = self._state(name).scaling
        if is_restored(scaling, self._replica.aggregates.incarnation):
            self._look_after_restore(name)
            return
        lanes = _lanes(self._state(name))
        lag = await self._peers.lag(name)
        targets = await self._peers.targets(name, lanes)
        state = self._state(name)  # as it is after the answers
        if not _is_scaled(state):
            return
        loads = self._keeper(name).loads()
        facts = None if lag is None or targets is None else facts_of(state, loads, lag, targets)
        memory = self._looks.memories.setdefault(name, ScalingMemory(self._looks.began_at))
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

    async def _checked(self, state: Group, loads: Loads, wish: Wish) -> Wish | None:
        """Returns a wish for fewer members as far as a preview of the placement bears it out."""
        desired, present = state.scaling.desired, len(state.members)
        if desired is None or wish.members >= min(desired.members, present):
            return wish
        for members in range(wish.members, min(wish.members + SCALING_PREVIEWS_MAX, desired.members, present)):
            work = enough_members(state, loads, members, self._clock.now_ms())
            if await in_turns(self._clock, work):
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
