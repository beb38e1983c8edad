"""What is asked of all cursors of a lease, and of a backlog cursor's range."""

from braid.client.delivery.partition_work import PartitionWork


def oldest_unfinished_ms(work: PartitionWork) -> int | None:
    """Ingestion time of the oldest record of any cursor that is fetched and not done."""
    found = [each.progress.oldest_unfinished() for each in work.cursors if each.restored]
    return min((oldest[1] for oldest in found if oldest), default=None)


def undone_below(work: PartitionWork, end: int) -> int:
    """Offsets of one cursor's range below `end` that are not done."""
    return work.progress.done_ranges.add(0, work.progress.base).gaps(0, end).count
