"""One lease of a planner: up to where its log is done, and which range of it is handed out."""

import asyncio
import logging
from typing import NamedTuple

from braid.client.delivery.lease_work import LeaseWork
from braid.client.planning.planner_cluster import LogSeen, PlannerCluster
from braid.kernel.errors import BraidError, OffsetOutOfRange
from braid.kernel.progress.ranges import Ranges

_log = logging.getLogger("braid.planner")


class Offer(NamedTuple):
    """The range of a lease that may be planned.

    Attributes:
        start: Everything below is done or handed out.
        end: The log's end.
        skip: Start, end, start, end … of ranges above `start` that other members have done.
        topic_id: Which log it is; empty for unknown.
    """

    start: int
    end: int
    skip: tuple[int, ...] = ()
    topic_id: bytes = b""


class PlannedLease:
    """Work on a lease whose ranges other processes handle, one range at a time."""

    def __init__(self, work: LeaseWork, cluster: PlannerCluster, *, fail_on_data_loss: bool) -> None:
        """`fail_on_data_loss` tells whether records that left the log before they were done are an error."""
        self.work = work
        self.cluster = cluster
        self._fail_on_data_loss = fail_on_data_loss
        self._log_end: int | None = None  # the log as last seen
        self._out: tuple[int, int] | None = None  # the range that is out: its end and its number of rows

    @property
    def known(self) -> bool:
        """Whether the group's progress was read and the work continues."""
        return self.work.restored and not self.work.ended

    def done_below(self, end: int) -> None:
        """Claims what is done once the log is seen to reach so far, and takes a range back that ends there."""
        if not self.known or self._log_end is None or self._log_end < end:
            return  # not known yet; or records were lost, and others may get their offsets
        if self.work.head.progress.fetched < end:
            self.work.pass_to(end)
            self.cluster.settled(0)
        if self._out is not None and self._out[0] <= end:
            self.withdraw()

    def offer(self, log: LogSeen, done: int) -> Offer | None:
        """Returns what may be planned now that the log is done up to an offset; None while a range is out.

        Raises:
            OffsetOutOfRange: the log lost its start before that was done, and this is to be an error.
        """
        self._log_end = log.end
        self.done_below(done)
        if not self.work.working or self._out is not None or self.cluster.committer.stopped:
            return None
        progress = self.work.head.progress
        if log.start > progress.fetched:
            self.judge_loss(progress.done_ranges.gaps(progress.fetched, log.start))
            self.work.expire(log.start)
            self.cluster.settled(0)
        return Offer(progress.fetched, log.end, progress.done_ranges.edges, self.work.topic_id)

    def judge_loss(self, lost: Ranges) -> None:
        """Expires, with a warning, records that left the log before they were done; raises if loss is an error."""
        lease = self.work.lease.id
        if lost and self._fail_on_data_loss:
            raise OffsetOutOfRange(
                f"offsets {lost} of {lease} left the log before they were done",
                field="failOnDataLoss",
                remedy="set failOnDataLoss to false to go on without them",
                metadata={"lease": str(lease), "start": str(lost.start), "end": str(lost.end)},
            )
        if lost:
            _log.warning("offsets %s of %s left the log before they were done; they are stated as expired", lost, lease)

    def hand_out(self, start: int, end: int) -> None:
        """Hands out a range that was offered."""
        if self.work.head.hand_out(end - start):
            self._out = end, end - start

    def withdraw(self) -> None:
        """Takes back the range that is out, if there is one: it is done, or will not be done."""
        if self._out is not None:
            self.work.head.finished(self._out[1], 0)
            self._out = None

    async def last_commit(self, seconds: float) -> bool:
        """Commits before the lease is given back; False if the commit is waived."""
        try:
            async with asyncio.timeout(seconds):
                await self.cluster.committer.commit([self.work], final=True)
        except (TimeoutError, BraidError) as error:
            _log.warning("last commit of %s is waived: %s", self.work.lease.id, error)
            return False
        return True

    def end(self) -> None:
        """Ends the work on a lease that is gone; the next holder handles the range that is out, too."""
        self.work.end()
        self.cluster.committer.remove(self.work)
        self._out = None
