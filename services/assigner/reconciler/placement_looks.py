"""Looks at the placement of groups while this replica leads: whether loads have become uneven, or a shadow is due."""

from collections.abc import Callable, Collection

from braid.kernel.limits.assigner.placement import BALANCE_LOOK_SECONDS
from braid.kernel.ports import Task
from braid.kernel.timing.slices import Slices
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper


class PlacementLooks:
    """A term's rounds through the groups in which something can move: those with connected members, and shadows."""

    def __init__(
        self, replica: Replica, keeper: Callable[[str], GroupKeeper], connected: Callable[[], Collection[str]]
    ) -> None:
        """`connected` returns the groups with connected members."""
        self._replica = replica
        self._clock = replica.host.clock
        self._keeper = keeper
        self._connected = connected
        self._shadowed: set[str] = set()
        self._began_at = self._clock.elapsed()
        self._looking: Task | None = None

    def follow(self, state: Group) -> None:
        """Takes a group as it is now."""
        if state.rules.shadow is not None:
            self._shadowed.add(state.name)

    def look(self) -> None:
        """Starts a round when one is due and the last has ended."""
        now = self._clock.elapsed()
        if self._looking is None and now - self._began_at >= BALANCE_LOOK_SECONDS:
            self._began_at = now
            self._looking = self._replica.host.tasks.spawn(self._round(), "placements")

    def stop(self) -> None:
        """Ends a round that is under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _round(self) -> None:
        slices = Slices(self._clock)
        try:
            for name in sorted({*self._connected(), *self._shadowed}):
                self._keeper(name).look()  # at one whose shadow has ended once more: it is forgotten there
                if self._replica.aggregates.state(GROUPS, name).rules.shadow is None:
                    self._shadowed.discard(name)
                await slices.turn()
        finally:
            self._looking = None
