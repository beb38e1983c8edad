"""The contract of `KafkaAdmin`: topics, configuration, offsets of logs, seals, fingerprints."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from braid.kernel.acls import AclScope, acls_of
from braid.kernel.errors import (
    AlreadyExists,
    ClusterUnavailable,
    Invalid,
    NotFound,
    RecordTooLarge,
    Refused,
    TopicSealed,
)
from braid.kernel.ports import LogDir, OffsetAt, TopicPartition
from tests.contract.kafka.rig import (
    CANARY,
    ENOUGH_SECONDS,
    FIRST_MS,
    Body,
    Rig,
    configured,
    seal,
    unseal,
    values_of,
    write,
)


async def a_cluster_describes_itself(rig: Rig) -> None:
    described = await rig.admin.describe_cluster()
    assert described.cluster_id
    assert list(described.brokers.values()) == [rig.bootstrap]
    assert described.controller in described.brokers
    assert not described.auto_creates_topics
    assert described.offset_metadata_max_units == 4096
    assert described.offsets_retention_minutes == 10_080
    assert (await rig.new_admin().describe_cluster()).cluster_id == described.cluster_id


async def a_broker_describes_itself(rig: Rig) -> None:
    survey = await rig.admin.survey([])
    told = await rig.admin.describe_broker(survey.brokers[0])
    assert told.config["auto.create.topics.enable"] == "false"
    assert told.config["offset.metadata.max.bytes"] == "4096"
    assert 7 <= told.finalized["metadata.version"] <= told.supported["metadata.version"]
    with pytest.raises(ClusterUnavailable):
        await rig.admin.describe_broker(99)


async def a_broker_tells_the_room_on_its_disk_and_what_lies_there(rig: Rig) -> None:
    (broker,) = (await rig.admin.survey([])).brokers
    name = await rig.topic(2)
    written, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    before = await _disk(rig, broker, lambda disk: written in disk.sizes and empty in disk.sizes)
    assert 0 < before.usable_bytes <= before.total_bytes
    assert (before.sizes[written], before.sizes[empty]) == (0, 0)
    await write(await rig.producer(), written, *[b"x" * 10_000] * 3)
    (after,) = await rig.admin.log_dirs(broker)
    assert 30_000 < after.sizes[written] < 32_000 and after.sizes[empty] == 0
    await rig.admin.delete_topic(name)
    await _disk(rig, broker, lambda disk: written not in disk.sizes)
    with pytest.raises(ClusterUnavailable):
        await rig.admin.log_dirs(99)


async def _disk(rig: Rig, broker: int, expected: Callable[[LogDir], bool]) -> LogDir:
    """A broker's one disk, once it is as expected: brokers make and delete logs after they have said so."""
    async with asyncio.timeout(ENOUGH_SECONDS):
        while True:
            (disk,) = await rig.admin.log_dirs(broker)
            if expected(disk):
                return disk
            await asyncio.sleep(0.1)


async def settings_of_many_topics_are_read_at_once(rig: Rig) -> None:
    plain, own = await rig.topic(1), await rig.topic(1, {"min.insync.replicas": "2"})
    names = ["min.insync.replicas", "unclean.leader.election.enable"]
    assert await rig.admin.topic_configs([plain, "no-such-topic", own], names) == {
        plain: {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"},
        own: {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
    }
    assert (await rig.admin.describe_topics([own]))[own].copies == 1


async def topics_are_created_described_and_deleted(rig: Rig) -> None:
    name = await rig.topic(3)
    with pytest.raises(AlreadyExists):
        await rig.admin.create_topic(name, 1, 1, {})
    described = await rig.admin.describe_topics([name, "no-such-topic"])
    assert list(described) == [name]
    assert described[name].partitions == 3
    assert all(leader >= 0 for leader in described[name].leaders)
    assert len(described[name].topic_id) == 16
    assert name in await rig.admin.list_topics()

    await rig.admin.delete_topic(name)
    assert name not in await rig.admin.list_topics()
    await rig.admin.delete_topic(name)
    await rig.admin.create_topic(name, 1, 1, {})
    assert (await rig.admin.describe_topics([name]))[name].topic_id != described[name].topic_id


async def a_survey_tells_brokers_controller_and_topics_at_once(rig: Rig) -> None:
    name = await rig.topic(2)
    survey = await rig.admin.survey([name, "no-such-topic"])
    assert survey.controller in survey.brokers and len(survey.brokers) == 1
    assert survey.topics == await rig.admin.describe_topics([name])
    assert not survey.topics[name].under_replicated
    producer = await rig.producer()
    assert not producer.leaderless(name)
    await write(producer, TopicPartition(name, 1), b"x")
    assert not producer.leaderless(name)


async def bad_topics_are_refused(rig: Rig) -> None:
    name = f"{rig.prefix}.bad"
    with pytest.raises(Invalid):
        await rig.admin.create_topic(name, 0, 1, {})
    with pytest.raises(Invalid):
        await rig.admin.create_topic(name, 1, 5, {})
    with pytest.raises(Invalid):
        await rig.admin.create_topic(name, 1, 1, {"no.such.setting": "1"})
    with pytest.raises(Invalid):
        await rig.admin.create_topic(name, 1, 1, {"min.insync.replicas": "x"})
    assert name not in await rig.admin.list_topics()


async def asking_for_a_topic_does_not_create_it(rig: Rig) -> None:
    missing = TopicPartition(f"{rig.prefix}.missing", 0)
    assert await rig.admin.describe_topics([missing.topic]) == {}
    with pytest.raises(NotFound):
        await rig.admin.topic_config(missing.topic)
    with pytest.raises(NotFound):
        await rig.admin.offsets_at({missing: OffsetAt.LATEST})
    with pytest.raises(NotFound):
        await rig.admin.try_append(missing, b"canary", 2.0)
    with pytest.raises(NotFound):
        await rig.admin.fingerprint(missing, 1)
    assert missing.topic not in await rig.admin.list_topics()


async def a_topic_that_is_only_tried_is_not_created(rig: Rig) -> None:
    name = f"{rig.prefix}.tried"
    for _ in range(2):
        await rig.admin.try_create_topic(name, 3, 1, {"retention.ms": "1000"})
    assert name not in await rig.admin.list_topics()
    for partitions, copies, config in ((0, 1, {}), (1, 5, {}), (1, 1, {"no.such.setting": "1"})):
        with pytest.raises(Invalid):
            await rig.admin.try_create_topic(name, partitions, copies, config)
    await rig.admin.create_topic(name, 1, 1, {})
    with pytest.raises(AlreadyExists):
        await rig.admin.try_create_topic(name, 1, 1, {})


async def a_partition_that_is_not_there_is_not_found(rig: Rig) -> None:
    beyond = TopicPartition(await rig.topic(1), 7)
    with pytest.raises(NotFound):
        await rig.admin.offsets_at({beyond: OffsetAt.LATEST})
    with pytest.raises(NotFound):
        await rig.admin.try_append(beyond, b"canary", 2.0)


async def configuration_is_altered_by_the_piece(rig: Rig) -> None:
    name = await rig.topic(1, {"retention.ms": "1000000"})
    await rig.admin.alter_topic_config(name, {"retention.ms": "-1", "segment.ms": "60000"})
    await rig.admin.alter_topic_config(name, {"max.message.bytes": "5000"})
    altered = {"retention.ms": "-1", "segment.ms": "60000", "max.message.bytes": "5000"}
    await configured(rig, name, {**altered, "cleanup.policy": "delete"})
    with pytest.raises(Invalid):
        await rig.admin.alter_topic_config(name, {"no.such.setting": "1"})


async def offsets_are_found_by_end_and_time(rig: Rig) -> None:
    name = await rig.topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    await write(await rig.producer(), first, b"a", b"b", b"c")
    assert await rig.admin.offsets_at({first: OffsetAt.LATEST, second: OffsetAt.LATEST}) == {first: 3, second: 0}
    assert await rig.admin.offsets_at({first: OffsetAt.EARLIEST}) == {first: 0}
    assert await rig.admin.offsets_at({first: FIRST_MS + 1, second: 0}) == {first: 1, second: 0}
    assert await rig.admin.offsets_at({first: 0}) == {first: 0}
    assert await rig.admin.offsets_at({first: 10**15}) == {first: 3}


async def a_sealed_topic_refuses_and_an_unsealed_takes_again(rig: Rig) -> None:
    partition = await rig.partition()
    assert (await rig.admin.try_append(partition, b"before", 2.0)).offset == 0
    late = await seal(rig, partition)
    with pytest.raises(TopicSealed):
        await rig.admin.try_append(partition, b"sealed", 2.0)
    canaries = late + await unseal(rig, partition, 1_000)
    with pytest.raises(RecordTooLarge):
        await rig.admin.try_append(partition, b"x" * 2_000, 2.0)
    written = await rig.admin.try_append(partition, b"after", 2.0)
    assert (written.topic, written.partition, written.offset) == (partition.topic, 0, canaries + 1)
    assert written.timestamp_ms > 1_600_000_000_000
    assert await values_of(rig, partition) == [b"before", *[CANARY] * canaries, b"after"]


async def fingerprints_tell_logs_apart(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer()
    await write(producer, partition, b"a")
    await write(producer, partition, b"b")
    one, two = await rig.admin.fingerprint(partition, 1), await rig.admin.fingerprint(partition, 2)
    assert one is not None
    assert two is not None
    assert one != two
    assert (
        one.topic_id == two.topic_id == (await rig.admin.describe_topics([partition.topic]))[partition.topic].topic_id
    )
    assert await rig.new_admin().fingerprint(partition, 2) == two
    for nothing_there in (0, 3, 100):
        assert await rig.admin.fingerprint(partition, nothing_there) is None

    await rig.admin.delete_topic(partition.topic)
    await rig.admin.create_topic(partition.topic, 1, 1, {})
    await write(producer, partition, b"a", b"b")
    other = await rig.admin.fingerprint(partition, 1)
    assert other is not None
    assert other != one


async def heads_of_batches_tell_whose_records_they_hold(rig: Rig) -> None:
    partition = await rig.partition()
    one, other = await rig.producer(linger_ms=20), await rig.producer()
    written = [
        *await write(one, partition, b"a", b"b", b"c"),
        *await write(other, partition, b"d"),
        *await write(one, partition, b"e"),
    ]
    await rig.admin.try_append(partition, b"of nobody", 2.0)
    heads = [await rig.admin.batch_head(partition, offset) for offset in range(6)]
    for record, head in zip(written, heads[:5], strict=True):
        assert head is not None and head.base <= record.offset <= head.last
        assert head.producer == record.producer >= 0
        assert head.sequence + record.offset - head.base == record.sequence
    assert [each.sequence for each in written] == [0, 1, 2, 0, 3]
    assert heads[5] is not None and heads[5].producer == -1
    assert len({each.leader_epoch for each in heads if each}) == 1
    assert await rig.admin.batch_head(partition, 6) is None


async def acls_are_refused_where_nobody_keeps_them(rig: Rig) -> None:
    with pytest.raises(Refused, match="no authorizer"):
        await rig.admin.create_acls("User:shop", acls_of("producer", AclScope()))


BODIES: Final[list[Body]] = [
    a_cluster_describes_itself,
    a_broker_describes_itself,
    a_broker_tells_the_room_on_its_disk_and_what_lies_there,
    settings_of_many_topics_are_read_at_once,
    topics_are_created_described_and_deleted,
    a_survey_tells_brokers_controller_and_topics_at_once,
    bad_topics_are_refused,
    asking_for_a_topic_does_not_create_it,
    a_topic_that_is_only_tried_is_not_created,
    a_partition_that_is_not_there_is_not_found,
    configuration_is_altered_by_the_piece,
    offsets_are_found_by_end_and_time,
    a_sealed_topic_refuses_and_an_unsealed_takes_again,
    fingerprints_tell_logs_apart,
    heads_of_batches_tell_whose_records_they_hold,
    acls_are_refused_where_nobody_keeps_them,
]
