"""The offset ranges of a read, and their division into tasks. Pure: no I/O, no clock."""

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
    """Divides ranges until there are about `min_partitions`, longer ones into more parts; empty ones are left out.

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


def gather(ranges: Sequence[LogRange], rows_min: int) -> list[tuple[LogRange, ...]]:
    """Makes tasks of ranges. Small ranges of one cluster share a task, because a task costs more than a few rows.

    A task stops growing once it has `rows_min` rows. Ranges of different clusters stay apart, so that one that waits
    for its cluster keeps no other waiting.
    """
    tasks: list[list[LogRange]] = []
    rows = 0
    for each in sorted(ranges, key=lambda part: (part.cluster, part.lease, part.start)):
        if not tasks or rows >= rows_min or tasks[-1][0].cluster != each.cluster:
            tasks.append([])
            rows = 0
        tasks[-1].append(each)
        rows += each.end - each.start
    return [tuple(task) for task in tasks]


def beside(ranges: Sequence[LogRange], rows_max: int) -> list[tuple[LogRange, ...]]:
    """Divides a task's ranges into groups that can be read at once: small ones of one topic, each another partition.

    Ranges of more than `rows_max` rows stay alone, in their places.
    """
    groups: list[list[LogRange]] = []
    taken: set[LeaseId] = set()
    for each in ranges:
        if not groups or each.lease in taken or not _are_small_and_alike(groups[-1][-1], each, rows_max):
            groups.append([])
            taken.clear()
        groups[-1].append(each)
        taken.add(each.lease)
    return [tuple(group) for group in groups]


def _are_small_and_alike(one: LogRange, other: LogRange, rows_max: int) -> bool:
    """Whether neither has too many rows, and both are of one topic."""
    places = {(each.cluster, each.bootstrap, each.security_profile, each.topic) for each in (one, other)}
    return len(places) == 1 and max(each.end - each.start for each in (one, other)) <= rows_max


def share_limit(backlogs: Mapping[LeaseId, int], rows_max: int) -> dict[LeaseId, int]:
    """Divides a limit on rows over partitions in proportion to what waits in each, as Spark's Kafka source does.

    Every partition with a backlog gets at least one row where the limit allows it, else the longest backlogs do. The
    sum is exactly the smaller of the limit and all that waits.
    """
    waiting = {lease: backlog for lease, backlog in backlogs.items() if backlog > 0}
    if sum(waiting.values()) <= rows_max:
        return waiting
    longest = sorted(waiting, key=lambda lease: (-waiting[lease], lease))
    if rows_max <= len(longest):
        return dict.fromkeys(longest[:rows_max], 1)
    free, beyond = rows_max - len(longest), sum(waiting.values()) - len(longest)
    shares = {lease: 1 + (waiting[lease] - 1) * free // beyond for lease in longest}
    left = rows_max - sum(shares.values())
    for lease in longest:
        more = min(left, 1, waiting[lease] - shares[lease])
        shares[lease] += more
        left -= more
    return shares
