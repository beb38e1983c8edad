"""Checks groups without members: records that drains wait for them, and judges how long that was."""

from collections.abc import Callable, Mapping

from braid.kernel.ports import Task
from braid.kernel.timing.days import DAY_MS
from braid.kernel.timing.slices import Slices
from braid.runtime.replica import Replica
from braid.runtime.telemetry import AssignerMetrics
from services.assigner.domain import idle_wait
from services.assigner.domain.idle_wait import IdleWait, alert_name, wait_name
from services.assigner.model.commands import LookAtIdle
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper


def measured(replica: Replica, state: Group, whole_ms: int) -> IdleWait:
    """Returns how long drains have waited for a group, as this replica knows."""
    name, since_ms = state.name, state.idle_since_ms
    waited_ms = replica.waits.waited_ms(wait_name(name), since_ms)
    alerted_ms = replica.waits.waited_ms(alert_name(name), since_ms) if state.idle_alerted else 0
    return IdleWait(whole_ms, waited_ms, alerted_ms)


class IdleWatch:
    """A term's checks of idle groups. While clocks disagree no group expires."""

    def __init__(
        self, replica: Replica, metrics: AssignerMetrics, whole_ms: int, keeper: Callable[[str], GroupKeeper]
    ) -> None:
        self._replica = replica
        self._metrics = metrics
        self._whole_ms = whole_ms
        self._keeper = keeper
        self._names: set[str] = set()  # of groups that are idle, or were told to be
        self._looking: Task | None = None

    def follow(self, state: Group) -> None:
        """Takes a group as it is now."""
        if idle_wait.waiting(state) or state.idle_alerted or state.idle_expired:
            self._names.add(state.name)
        else:
            self._names.discard(state.name)

    def look(self) -> None:
        """Starts a check, unless one is under way."""
        if self._looking is None:
            self._looking = self._replica.host.tasks.spawn(self._look(), "idle groups")

    def stop(self) -> None:
        """Ends a check that is under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        try:
            groups = {name: self._replica.aggregates.state(GROUPS, name) for name in sorted(self._names)}
            await self._replica.waits.keep(idle_wait.waits(groups))
            if not self._replica.waits.stopped:
                await self._judge(groups)
            self._metrics.idle_alerted.set(sum(x.idle_alerted or x.idle_expired for x in groups.values()))
        finally:
            self._looking = None

    async def _judge(self, groups: Mapping[str, Group]) -> None:
        slices = Slices(self._replica.host.clock)
        for name, state in groups.items():
            await slices.turn()
            if not idle_wait.waiting(state):
                continue
            wait = measured(self._replica, state, self._whole_ms)
            if not wait.left_ms or (wait.alert_due and not state.idle_alerted):
                look = LookAtIdle(state.idle_since_ms, wait.whole_ms, wait.waited_ms, wait.alerted_ms)
                self._keeper(name).look_at_idle(look)
                if not state.idle_alerted:
                    days = wait.left_ms / DAY_MS
                    self._replica.log.warning("a group is idle", group=name, drains_wait_for_days=round(days, 2))
