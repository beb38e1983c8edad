"""Which offset ranges a read is made of, and how they are divided into tasks. Pure: no I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from braid.kernel.ids import LeaseId


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets `[start, end)` of one partition, and how a task reaches them.

    Attributes:
        lease: The channel partition.
        cluster: Its cluster's name.
        bootstrap: The cluster's brokers.
        security_profile: Names the credentials; they are resolved where the task runs.
        topic: The channel's topic.
        start: First offset.
        end: Offset after the last.
        skip: Start, end, start, end … of ranges in it that the group has done already.
    """

    lease: LeaseId
    cluster: str
    bootstrap: str
    security_profile: str
    topic: str
    start: int
    end: int
    skip: tuple[int, ...] = ()


def split(ranges: Sequence[LogRange], min_partitions: int) -> list[LogRange]:
    """Divides ranges until there are about `min_partitions`, the longer ones into more parts; empty ones are left out.

    Parts of a range differ in length by one offset at most; together they are the range.
    """
    whole = [each for each in ranges if each.start < each.end]
    total = sum(each.end - each.start for each in whole)
    if len(whole) >= min_partitions:
        return whole
    divided: list[LogRange] = []
    for each in whole:
        length = each.end - each.start
        parts = min(length, max(1, -(-length * min_partitions // total)))
        edges = [each.start + length * number // parts for number in range(parts + 1)]
        divided += [replace(each, start=low, end=high) for low, high in pairwise(edges)]
    return divided


def share_limit(backlogs: Mapping[LeaseId, int], rows_max: int) -> dict[LeaseId, int]:
    """Divides a limit on rows over partitions in proportion to what waits in each, as Spark's Kafka source does.

    Every partition with a backlog gets at least one row as long as the limit allows; what rounding leaves goes to
    the longest backlogs. The sum is exactly the smaller of the limit and all that waits.
    """
    waiting = {lease: backlog for lease, backlog in backlogs.items() if backlog > 0}
    total = sum(waiting.values())
    if total <= rows_max:
        return waiting
    shares = {lease: backlog * rows_max // total for lease, backlog in waiting.items()}
    left = rows_max - sum(shares.values())
    hungry = sorted(waiting, key=lambda lease: (shares[lease] > 0, -waiting[lease], lease))
    for lease in hungry[:left]:
        shares[lease] += 1
    return {lease: share for lease, share in shares.items() if share}
