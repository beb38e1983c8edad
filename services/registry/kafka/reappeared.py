"""Whether records that were told as lost lie in their log again: a look at the cluster itself.

The end of a log may show late, as leaders learn late what all copies have. Then the records were taken by the leader
that took the one before them. What was written after a cut was taken by a later leader, whose epoch begins there
(KIP-101): records of producers that came late, or the canary of a seal, which bears no producer's id.
"""

from braid.kernel.offset_ranges import OPEN, OffsetRange
from braid.kernel.ports import KafkaAdmin, TopicPartition


async def lies_there(admin: KafkaAdmin, topic: str, told: OffsetRange) -> bool:
    """Whether a log has the very records again that it was told to have lost; of a loss without an end, the first.

    Where the log begins with them only their producers' ids tell.

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
