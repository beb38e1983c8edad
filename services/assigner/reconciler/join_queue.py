"""Joins of members that are decided together: every member of a group that waits when a decision begins, up to a bound.

If thousands join at once, one append serves a hundred of them. A member that comes alone is decided at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.assigner.leases import JOINS_AT_ONCE
from braid.runtime.histories.kinds import Asked
from braid.runtime.replica import Replica
from services.assigner.model.commands import Command
from services.assigner.reconciler.group_loop import GROUPS


class _Waiting(NamedTuple):
    asked: Asked[Command]
    gone: Callable[[], bool]
    decided: "asyncio.Future[None]"


class JoinQueue:
    """Members that wait for their join to be decided, by group."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._queues: dict[str, deque[_Waiting]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def enter(self, group: str, asked: Asked[Command], gone: Callable[[], bool]) -> "asyncio.Future[None]":
        """Queues a join; a caller that stops waiting cancels the future.

        Args:
            group: The group's name.
            asked: The join.
            gone: Whether the member is known to be gone: then nothing is decided.

        Returns:
            Done once the join is decided; else it has the `BraidError` that it was refused with.
        """
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = deque()
            self._replica.host.tasks.spawn(self._decide(group, queue), f"joins of {group}")
        waiting = _Waiting(asked, gone, asyncio.get_running_loop().create_future())
        waiting.decided.add_done_callback(lambda decided: decided.cancelled() or decided.exception())  # nobody may ask
        queue.append(waiting)
        return waiting.decided

    async def _decide(self, group: str, queue: deque[_Waiting]) -> None:
        try:
            while queue:
                if some := _first(queue):
                    await self._decide_some(group, some)
        finally:
            del self._queues[group]
            for each in queue:
                each.decided.cancel()

    async def _decide_some(self, group: str, some: list[_Waiting]) -> None:
        try:
            asked = [each.asked for each in some]
            outcomes = [*await self._replica.aggregates.execute_together(GROUPS, group, asked)]
        except BraidError as error:  # none of them is decided, or nobody knows: each member tries again
            for each in some:
                _refuse(each, error)
            return
        for each, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, BraidError):
                _refuse(each, outcome)
            elif not each.decided.done():
                each.decided.set_result(None)


def _first(queue: deque[_Waiting]) -> list[_Waiting]:
    """Takes as many joins as are decided together, without those that no caller waits for any more."""
    some: list[_Waiting] = []
    while queue and len(some) < JOINS_AT_ONCE:
        each = queue.popleft()
        if each.gone():
            _refuse(each, Unavailable("the member did not wait to be welcomed", remedy="join again"))
        elif not each.decided.done():
            some.append(each)
    return some


def _refuse(waiting: _Waiting, error: BraidError) -> None:
    if not waiting.decided.done():
        waiting.decided.set_exception(error)
