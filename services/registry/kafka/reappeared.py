"""Checks whether records that were recorded as lost are in their log again.

A log's end may show late, because leaders learn late what all copies have. Such records were written by the leader that
wrote the record before them. Records written after a truncation belong to a later leader, whose epoch begins there
(KIP-101): records of late producers, or the canary of a seal, which has no producer id.
"""

from braid.kernel.offset_ranges import OPEN, OffsetRange
from braid.kernel.ports import KafkaAdmin, TopicPartition


async def lies_there(admin: KafkaAdmin, topic: str, told: OffsetRange) -> bool:
    """Whether a log holds exactly the records again that it had lost; for a loss without an end, the first of them.

    If the log begins with them, only their producers' ids can tell.

    Raises:
        ClusterUnavailable: the cluster does not answer.
    """
    partition = TopicPartition(topic, told.partition)
    first = await admin.batch_head(partition, told.first)
    last = first if told.last == OPEN else await admin.batch_head(partition, told.last)
    if first is None or last is None or first.producer < 0 or last.producer < 0:
        return False
    before = await admin.batch_head(partition, told.first - 1) if told.first else None
    return (before or first).leader_epoch == last.leader_epoch
