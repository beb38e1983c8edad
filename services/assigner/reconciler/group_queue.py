"""Groups that are to decide for a common cause, a few at a time: a new term, a changed channel.

A decision takes a fraction of a millisecond, and 45,000 of them most of a minute. What is urgent for one group, as a
lost member, does not wait for them: it wakes the group's loop at once, and finds few decisions before it.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from braid.kernel.limits.assigner.leases import GROUPS_AT_ONCE
from braid.kernel.ports import Task, Tasks
from services.assigner.reconciler.group_loop import GroupKeeper


class _Waking(NamedTuple):
    cause: str
    trace: str


class GroupQueue:
    """One term's groups that wait for their turn, in the order in which they were first named."""

    def __init__(self, tasks: Tasks, keeper: Callable[[str], GroupKeeper]) -> None:
        """`keeper` returns the loop of a group by its name."""
        self._tasks = tasks
        self._keeper = keeper
        self._waiting: dict[str, _Waking] = {}
        self._running: Task | None = None

    def add(self, groups: Iterable[str], cause: str, trace: str = "") -> None:
        """Lets groups decide once it is their turn. One that waits already keeps its turn, and names the new cause."""
        self._waiting |= dict.fromkeys(groups, _Waking(cause, trace))
        if self._waiting and self._running is None:
            self._running = self._tasks.spawn(self._run(), "groups in turn")

    def stop(self) -> None:
        """Wakes no further group."""
        self._waiting = {}
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        """Wakes some groups, waits until each has decided or failed to, and goes on."""
        try:
            while self._waiting:
                some = list(islice(self._waiting, GROUPS_AT_ONCE))
                attempts = [self._wake(group) for group in some]
                for attempt in attempts:
                    await attempt.wait()
        finally:
            self._running = None

    def _wake(self, group: str) -> asyncio.Event:
        keeper, waking = self._keeper(group), self._waiting.pop(group)
        keeper.poke(waking.cause, waking.trace)
        return keeper.attempt
