"""Explains what a consumer does with its leases now, and what blocks them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from braid.client.consuming.backlogs import LaneBacklog, undone_below
from braid.client.consuming.cluster_session import silent_seconds
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.client.records.delivery import Delivery
from braid.kernel.limits.assigner.leases import CLUSTER_REACHED_SECONDS
from braid.kernel.ports import Contact


class Explained(NamedTuple):
    """The explanation of one lease, as `Consumer.explain` returns it.

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
        """Formats the explanation as one line for a log."""
        now = f"{self.handled} handled ({self.overdue} overdue), {self.waiting} waiting"
        what = f"{now}, {self.parked} parked, {self.copying} copied"
        why = f"; {'; '.join(self.blocked)}" if self.blocked else ""
        head = f"; split: {self.behind:,} offsets behind a head {self.head_oldest_seconds:.1f} s old"
        split = head if self.behind else ""
        return f"{self.lease} {self.stage}: {what}, the oldest {self.oldest_seconds:.1f} s old{split}{why}"


class Sight(NamedTuple):
    """The state of a consumer that is looked up once for all its leases.

    Attributes:
        parked: How many records wait for another attempt, by whose they are.
        contacts: By cluster, whether it answers.
        backlogs: By lane with leases that are split, all their backlog cursors.
        slots: How many handlers may run at once; 0 where the application takes records by itself.
    """

    parked: Counter[Delivery]
    contacts: Mapping[str, Contact]
    backlogs: Mapping[str, LaneBacklog]
    slots: int


def sight(works: Iterable[LeaseWork], parked: Iterable[Delivery], contacts: Mapping[str, Contact], slots: int) -> Sight:
    """Looks up the consumer's state; `parked` has the work of every record that waits for another attempt."""
    backlogs: dict[str, LaneBacklog] = {}
    for work in works:
        if work.behind:
            lane = work.lease.id.channel.lane
            backlog = backlogs.setdefault(lane, LaneBacklog(lane, lambda: slots))
            backlog.add(*work.behind)
            backlog.divide(max(backlog.permille, work.backlog_permille))
    return Sight(Counter(parked), contacts, backlogs, slots)


def explained(work: LeaseWork, seen: Sight, now_ms: int, blocked: Sequence[str], overdue: int, ahead: int) -> Explained:
    """Explains one lease.

    `ahead` counts records that were taken from their queue for the next handler.
    """
    waits = sum(seen.parked[each] for each in work.cursors)
    handled, copying = work.handled - ahead, work.copying
    in_flight = sum(each.progress.in_flight for each in work.cursors)
    head = work.head.progress.oldest_unfinished() if work.restored else None
    return Explained(
        str(work.lease.id),
        work.stage.name.lower(),
        handled,
        overdue,
        max(0, in_flight - handled - copying - waits),
        waits,
        copying,
        _age_seconds(now_ms, work.oldest_unfinished_ms),
        tuple(blocked),
        sum(undone_below(each, each.until or 0) for each in work.behind),
        _age_seconds(now_ms, head[1] if head else None),
    )


def silent(work: LeaseWork, seen: Sight) -> Iterator[str]:
    """Says how long a cluster has owed this consumer answers; empty while that is only a hiccup."""
    cluster = work.lease.cluster.name
    contact = seen.contacts.get(cluster, Contact())
    if contact.denied:
        yield f"cluster {cluster} gives this client no access: {contact.denied}"
    seconds = silent_seconds(contact)
    if seconds > CLUSTER_REACHED_SECONDS:
        yield f"cluster {cluster} has answered nothing for {seconds:.0f} s"


def out_of_turn(work: LeaseWork, seen: Sight, *, by_key: bool) -> Iterator[str]:
    """Says how many records wait for their order while some before them are parked.

    With `by_key`, only records after one of their own key wait. While records of their lane wait for handlers, the
    ordered ones may be among them, and are not reported.
    """
    before = behind = 0
    for each in work.cursors:
        if seen.parked[each] and each.ordered and each.working:
            waiting = _waiting(each, seen) - (each.memory.waiting if by_key else 0)
            if waiting > 0:
                before, behind = before + seen.parked[each], behind + waiting
    if behind and by_key:
        yield f"{_records(behind)} for an earlier one of the same key, and {before:,} parked"
    elif behind:
        yield f"{_records(behind)} in order behind {before:,} parked"


def behind_waits(work: LeaseWork, seen: Sight) -> Iterator[str]:
    """Says which share a split lease's backlog has used up: of memory, or of handlers."""
    if not (work.behind and work.working):
        return
    lane, oldest = work.lease.id.channel.lane, work.behind[0]
    memory, backlog = oldest.memory, seen.backlogs[lane]
    if memory.held_back and not memory.blocked and not oldest.read_up:
        full = f"{memory.used:,} bytes, {memory.waiting:,} records that nobody asked for yet"
        yield f"the backlog of lane {lane} fills its part of memory ({full}): its fetching pauses"
    waiting = sum(_waiting(each, seen) for each in work.behind)
    if waiting > 0 and memory.waiting and backlog.room() <= 0:
        yield f"{_records(waiting)} behind {backlog.out:,} that take up the backlog's share of {seen.slots:,} handlers"


def _waiting(cursor: Cursor, seen: Sight) -> int:
    """Counts the fetched records of one cursor that no handler has and that are not parked."""
    return cursor.progress.in_flight - cursor.out - seen.parked[cursor]


def _records(count: int) -> str:
    return f"{count:,} record waits" if count == 1 else f"{count:,} records wait"


def _age_seconds(now_ms: int, then_ms: int | None) -> float:
    return max(0.0, (now_ms - then_ms) / 1000) if then_ms is not None else 0.0


class Lease(NamedTuple):
    """A lease as `Consumer.leases` returns it.

    `lag_seconds` is the age of the oldest record that was fetched and is not done; 0 when there is none. `skipped` are
    records that were passed unseen since it was granted (`Where`).
    """

    name: str
    cluster: str
    epoch: int
    stage: str
    base: int
    in_flight: int
    lag_seconds: float
    skipped: int = 0


def view(work: LeaseWork, now_ms: int) -> Lease:
    """Returns the public view of the work on a lease."""
    lease, stage, lag = work.lease, work.stage.name.lower(), _age_seconds(now_ms, work.oldest_unfinished_ms)
    base = work.cursors[0].progress.base if work.restored else -1
    in_flight = sum(each.progress.in_flight for each in work.cursors)
    return Lease(str(lease.id), lease.cluster.name, lease.epoch, stage, base, in_flight, lag, work.skipped)
