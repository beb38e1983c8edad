"""What a consumer does with its leases now, and what keeps it from doing more. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from braid.client.partition_work import PartitionWork, Stage


class Explained(NamedTuple):
    """One lease, as `Consumer.explain` tells of it.

    Attributes:
        lease: `<stream>/<lane>/<generation>/<partition>`.
        stage: `restoring`, `working`, `draining` or `ended`.
        handled: Records the application has, not settled yet.
        overdue: Handlers that run on though their time is over, and cannot be ended: each keeps its slot.
        waiting: Records fetched that nobody has yet, those behind one of their key included.
        parked: Records that wait for another attempt.
        copying: Records on their way to the dlq lane.
        oldest_seconds: Age of the oldest of all these; 0 when there is none.
        blocked: What keeps records from being fetched, handed out or committed, for people; empty when nothing does.
    """

    lease: str
    stage: str
    handled: int
    overdue: int
    waiting: int
    parked: int
    copying: int
    oldest_seconds: float
    blocked: tuple[str, ...]

    def __str__(self) -> str:
        """One line for a log."""
        what = f"{self.handled} handled ({self.overdue} overdue), {self.waiting} waiting, {self.parked} parked, {self.copying} copied"
        why = f"; {'; '.join(self.blocked)}" if self.blocked else ""
        return f"{self.lease} {self.stage}: {what}, the oldest {self.oldest_seconds:.1f} s old{why}"


def explained(
    work: PartitionWork, parked: Iterable[PartitionWork], now_ms: int, blocked: Sequence[str], overdue: int
) -> Explained:
    """What is to be told of one lease; `parked` is the work of every record that waits for another attempt."""
    waits = sum(each is work for each in parked)
    handled, copying = work.handled, work.copying
    in_flight = work.progress.in_flight if work.restored else 0
    oldest = work.oldest_unfinished_ms()
    return Explained(
        str(work.lease.id),
        work.stage.name.lower(),
        handled,
        overdue,
        max(0, in_flight - handled - copying - waits),
        waits,
        copying,
        max(0.0, (now_ms - oldest) / 1000) if oldest is not None else 0.0,
        (("its committed progress is being read",) if work.stage is Stage.RESTORING else ()) + tuple(blocked),
    )
