"""Progress records beside commits that do not fit."""

from braid.kafka.memory import MemoryCluster
from braid.kernel.envelope import decode
from braid.kernel.envelope.spill import TOPIC
from braid.kernel.errors import NotFound
from braid.kernel.ports import Committed, TopicPartition


def beside(cluster: MemoryCluster, committed: Committed) -> tuple[bytes | None, bytes | None] | None:
    """Key and value of the record that a commit points to; None for a commit that points to none."""
    pointer = decode(committed.offset, committed.metadata).fields.spill
    if pointer is None:
        return None
    try:
        log = cluster.log(TopicPartition(TOPIC, pointer.partition))
    except NotFound:
        return None, None
    found = (record for batch in log.batches for record in batch.records if record.offset == pointer.offset)
    return next(((record.key, record.value) for record in found), (None, None))
