"""Parts of a running consumer that no application sees, for tests of those parts and for mutants."""

from braid.client.consuming.cluster import ClusterWork
from braid.client.consuming.consumer import Consumer
from braid.client.consuming.leases import LeaseWorks
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.ready_queue import ReadyQueue
from braid.kernel.ids import LeaseId


def lease_works(consumer: Consumer) -> LeaseWorks:
    """Its leases and clusters."""
    return consumer._works


def cluster_work(consumer: Consumer, name: str = "east") -> ClusterWork:
    """Its work on one cluster."""
    return lease_works(consumer).clusters[name]


def lease_work(consumer: Consumer, lease: str) -> LeaseWork:
    """Its work on one lease."""
    (found,) = (each for each in lease_works(consumer) if each.lease.id == LeaseId.parse(lease))
    return found


def ready_queue(consumer: Consumer) -> ReadyQueue:
    """Its queue of fetched records."""
    return consumer._ready
