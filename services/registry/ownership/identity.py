"""Proves that a new address leads to a registered cluster: its id alone proves nothing, because any broker can report
it.

Two proofs, both required where possible. The cluster carries this mesh's mark. And a random record written at the
present address is found at the new one. If the present address does not answer, as after brokers moved, only the mark
remains. A proxy in front of the real cluster is not detected here: TLS detects it, by brokers' names.
"""

import asyncio
import contextlib
from typing import Final

from braid.kernel.errors import AlreadyExists, BraidError, NotFound, Refused
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.ports import Ids, KafkaAdmin, KafkaCluster, OffsetAt, TopicPartition, Written
from services.registry.kafka.canary_looks import prepare_canary
from services.registry.kafka.log_reading import read_records
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.marks import UNMARKED
from services.registry.model.topics import canary_topic
from services.registry.ownership.mark_log import MarkLogs, belongs_to

_PROOF: Final = b"braid: is this the same cluster? "
_FIELD: Final = "spec.bootstrap"


async def require_mark(marks: MarkLogs, admin: KafkaAdmin, reader: KafkaCluster, cluster: Cluster) -> None:
    """Checks that the cluster at a new address carries this mesh's mark.

    Args:
        marks: Mark logs of this mesh, without a cache: ids of topics can be forged too.
        admin: Admin client of the cluster at the new address.
        reader: The Kafka port, to read its logs.
        cluster: The cluster as registered.

    Raises:
        Refused: it carries another mesh's mark, or none.
        ClusterUnavailable: its mark cannot be read.
    """
    owner = await marks.owner(admin, reader, cluster.spec.topic_prefix)
    if owner == UNMARKED:
        message = f"the cluster there says that it is {cluster.name}, and carries no mark of this mesh"
        remedy = "check the address; a cluster gets its mark while it answers at the address that is registered"
        raise Refused(message, field=_FIELD, remedy=remedy)
    if owner != marks.mesh:
        raise belongs_to(cluster.name, owner)


async def require_same_log(
    present: KafkaAdmin, admin: KafkaAdmin, reader: KafkaCluster, cluster: Cluster, ids: Ids
) -> None:
    """Checks that a record written at the present address is found at the new one.

    Checks nothing if no cluster answers at the present address, or another one that took the port over.

    Args:
        present: Admin client at the registered address.
        admin: Admin client at the new address.
        reader: The Kafka port, to read its logs.
        cluster: The cluster as registered.
        ids: Source of unpredictable values.

    Raises:
        Refused: the record is not there.
        ClusterUnavailable: the new address does not answer.
    """
    value = _PROOF + ids.ulid().encode()
    try:
        async with asyncio.timeout(TRY_APPEND_SECONDS):
            if (await present.describe_cluster()).cluster_id != cluster.kafka_cluster_id:
                return
            written = await _write(present, cluster, value)
    except (BraidError, TimeoutError):
        return
    partition = TopicPartition(written.topic, written.partition)
    if not await _holds(admin, reader, partition, written.offset, value):
        message = f"the cluster there says that it is {cluster.name}, and lacks a record just written to {cluster.name}"
        raise Refused(message, field=_FIELD, remedy="check the address: another cluster answers there")


async def _holds(admin: KafkaAdmin, reader: KafkaCluster, partition: TopicPartition, offset: int, value: bytes) -> bool:
    """Whether a log holds a value at an offset."""
    try:
        end = (await admin.offsets_at({partition: OffsetAt.LATEST}))[partition]
        records = await read_records(reader, partition, offset, min(offset + 1, end))
    except (NotFound, Refused):  # no such topic, or a log that begins behind it
        return False
    return [each.value for each in records] == [value]


async def _write(present: KafkaAdmin, cluster: Cluster, value: bytes) -> Written:
    prefix = cluster.spec.topic_prefix
    partition = TopicPartition(canary_topic(prefix), 0)
    try:
        return await present.try_append(partition, value, TRY_APPEND_SECONDS)
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            await prepare_canary(present, prefix)
        return await present.try_append(partition, value, TRY_APPEND_SECONDS)
