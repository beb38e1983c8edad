"""A new leader's way through all groups, in slices, so that it answers and beats meanwhile.

Until a group had its turn, no member of it loses a lease: its members and revokes have no deadlines yet.
"""

from collections.abc import Callable, Mapping

from braid.kernel.limits.assigner.leases import JOIN_TURN_SECONDS, LEADER_GRACE_SECONDS
from braid.kernel.ports import Task
from braid.kernel.timing.slices import Slices
from braid.runtime.replica import Replica
from services.assigner.liveness.member_deadlines import MemberDeadlines
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.group_queue import GroupQueue


class Takeover:
    """Takes over one group after another: awaits its members, gives its revokes time, and lets it decide.

    Attributes:
        over: Whether every group had its turn.
    """

    def __init__(
        self, replica: Replica, deadlines: MemberDeadlines, queue: GroupQueue, follow: Callable[[Group], None]
    ) -> None:
        """`follow` is given each group once."""
        self.over = False
        self._replica = replica
        self._clock = replica.host.clock
        self._deadlines = deadlines
        self._queue = queue
        self._follow = follow
        self._running: Task | None = None

    def begin(self) -> None:
        """Begins with the groups that the histories have now; a way that has not ended is given up."""
        self.stop()
        self.over = False
        groups = self._replica.aggregates.states(GROUPS)
        self._running = self._replica.host.tasks.spawn(self._run(groups), "takeover")

    def stop(self) -> None:
        """Takes over no further group."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, groups: Mapping[str, Group]) -> None:
        """With thousands of members it takes longer until each had its turn to come back, which is not their fault."""
        least = max(LEADER_GRACE_SECONDS, sum(len(state.members) for state in groups.values()) * JOIN_TURN_SECONDS)
        slices = Slices(self._clock)
        for name in groups:
            state = self._replica.aggregates.state(GROUPS, name)  # as it is by now
            self._deadlines.take_over(state, self._clock.elapsed(), self._clock.now_ms(), least)
            self._follow(state)
            self._queue.add([name], f"{self._replica.instance} leads")
            await slices.turn()
        self.over = True
