"""A lease as an application sees it. Pure."""

from typing import NamedTuple

from braid.client.delivery.partition_work import PartitionWork


class Lease(NamedTuple):
    """A lease as `Consumer.leases` tells of it.

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


def view(work: PartitionWork, now_ms: int) -> Lease:
    """What is to be told of the work on a lease."""
    oldest = work.oldest_unfinished_ms()
    lag = max(0.0, (now_ms - oldest) / 1000) if oldest is not None else 0.0
    cursors = [each for each in work.cursors if each.restored]
    base = cursors[0].progress.base if cursors else -1
    in_flight, skipped = sum(each.progress.in_flight for each in cursors), sum(each.skipped for each in work.cursors)
    lease = work.lease
    return Lease(str(lease.id), lease.cluster.name, lease.epoch, work.stage.name.lower(), base, in_flight, lag, skipped)
