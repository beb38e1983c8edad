"""What a consumer does with its leases now, and what keeps it from doing more. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from braid.client.partition_work import PartitionWork
from braid.client.settling import Stage


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
        behind: Where the lease is split: offsets below its live cursor that backlog cursors have not done.
        head_oldest_seconds: The same as `oldest_seconds`, of the live cursor alone.
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
    behind: int = 0
    head_oldest_seconds: float = 0.0

    def __str__(self) -> str:
        """One line for a log."""
        now = f"{self.handled} handled ({self.overdue} overdue), {self.waiting} waiting"
        what = f"{now}, {self.parked} parked, {self.copying} copied"
        why = f"; {'; '.join(self.blocked)}" if self.blocked else ""
        head = f"; split: {self.behind:,} offsets behind a head {self.head_oldest_seconds:.1f} s old"
        split = head if self.behind else ""
        return f"{self.lease} {self.stage}: {what}, the oldest {self.oldest_seconds:.1f} s old{split}{why}"


def explained(
    work: PartitionWork, parked: Iterable[PartitionWork], now_ms: int, blocked: Sequence[str], overdue: int, ahead: int
) -> Explained:
    """What is to be told of one lease.

    `parked` is the work of every record that waits for another attempt; `ahead` counts those that were taken from their
    queue for whoever asks next.
    """
    waits = sum(each in work.cursors for each in parked)
    handled, copying = work.handled - ahead, work.copying
    in_flight = sum(each.progress.in_flight for each in work.cursors if each.restored)
    oldest, head = work.oldest_unfinished_ms(), work.progress.oldest_unfinished() if work.restored else None
    return Explained(
        str(work.lease.id),
        work.stage.name.lower(),
        handled,
        overdue,
        max(0, in_flight - handled - copying - waits),
        waits,
        copying,
        _age_seconds(now_ms, oldest),
        (("its committed progress is being read",) if work.stage is Stage.RESTORING else ()) + tuple(blocked),
        sum(each.undone_below(each.until or 0) for each in work.behind),
        _age_seconds(now_ms, head[1] if head else None),
    )


def _age_seconds(now_ms: int, then_ms: int | None) -> float:
    return max(0.0, (now_ms - then_ms) / 1000) if then_ms is not None else 0.0
