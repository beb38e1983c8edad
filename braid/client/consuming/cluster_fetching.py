"""Fetches one cluster's leases: their logs at the head and, for leases that are split, older ranges beside."""

from collections.abc import Callable
from typing import Final

from braid.client.consuming.fetch_loop import FetchLoop
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.client.tasks import Run
from braid.kernel.limits.client import BACKLOG_PARTITION_BYTES, FETCH_PARTITION_BYTES
from braid.kernel.ports import Contact, Task

_HEADS: Final = "intake"
_BEHIND: Final = "intake-behind"


class ClusterFetching:
    """Two fetch loops, so that no backlog delays new records; the loop for backlogs starts with the first split."""

    def __init__(self, open_loop: Callable[[int], FetchLoop], watch: Callable[[Run, str], Task]) -> None:
        """`open_loop` takes the bytes of a partition that one fetch may return; `watch` runs a loop."""
        self._open_loop = open_loop
        self._watch = watch
        self._heads = open_loop(FETCH_PARTITION_BYTES)
        self._behind: FetchLoop | None = None
        self._tasks: list[Task] = []

    def start(self) -> None:
        """Starts fetching."""
        self._tasks.append(self._watch(self._heads.run, _HEADS))

    def add(self, work: LeaseWork) -> None:
        """Starts to fetch a restored lease, or its new head."""
        self._heads.add(work.head)
        self.read_behind(work)

    def read_behind(self, work: LeaseWork, done: Cursor | None = None) -> None:
        """Fetches the range of a lease's oldest backlog cursor, if it has one, after the one that is done."""
        if self._behind is not None and done is not None:
            self._behind.remove(done)
        if not (work.behind and work.working):
            return
        if self._behind is None:
            self._behind = self._open_loop(BACKLOG_PARTITION_BYTES)
            self._tasks.append(self._watch(self._behind.run, _BEHIND))
        self._behind.add(work.behind[0])

    def leave_head(self, cursor: Cursor) -> None:
        """Notes that a cursor is no longer at the head of its log."""
        self._heads.remove(cursor)

    def remove(self, work: LeaseWork) -> None:
        """Stops fetching a lease, with all its cursors."""
        if work.restored:
            self._heads.remove(work.head)
        if self._behind is not None:
            for older in work.behind:
                self._behind.remove(older)

    def review(self) -> None:
        """Resumes partitions that may be fetched again."""
        self._heads.review()
        if self._behind is not None:
            self._behind.review()

    def contact(self) -> Contact:
        """Says whether the cluster answers fetches."""
        found = self._heads.contact()
        return found if self._behind is None else found.joined(self._behind.contact())

    async def close(self) -> None:
        """Stops the loops and their clients, whatever state the cluster is in."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.ended()
        await self._heads.close()
        if self._behind is not None:
            await self._behind.close()
