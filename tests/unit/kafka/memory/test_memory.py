"""Faults that only the twin can simulate: cut networks, lost data, missing answers, processes that die."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from braid.kafka.memory import MemoryCluster, MemoryKafka, MemoryProcess
from braid.kernel.errors import ClusterUnavailable, Invalid, OffsetOutOfRange, TopicSealed
from braid.kernel.ports import Committed, Isolation, KafkaFetcher, KafkaProducer, OffsetAt, TopicPartition
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop, virtual_host

PARTITION = TopicPartition("logs", 0)
Scenario = Callable[[MemoryKafka, MemoryCluster], Awaitable[None]]


def play(scenario: Scenario) -> None:
    """Runs a scenario over a world with one cluster and one topic."""

    async def run() -> None:
        kafka = MemoryKafka(virtual_host(running_loop(), seed=1).clock, latency=lambda: 0.001)
        cluster = kafka.add_cluster("east")
        cluster.create_topic("logs", 1, 1, {})
        await scenario(kafka, cluster)

    run_virtual(run())


async def _producer(process: MemoryKafka | MemoryProcess) -> KafkaProducer:
    producer = process.cluster("east:9092", "").producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    await producer.start()
    return producer


async def _fetcher(process: MemoryKafka | MemoryProcess, offset: int) -> KafkaFetcher:
    fetcher = process.cluster("east:9092", "").fetcher(
        max_partition_bytes=10_000, isolation=Isolation.READ_COMMITTED, client_rack=""
    )
    await fetcher.start()
    fetcher.assign({PARTITION: offset})
    return fetcher


def _values(cluster: MemoryCluster) -> list[bytes | None]:
    return [record.value for batch in cluster.log(PARTITION).batches for record in batch.records]


def test_a_cut_separates_one_process_from_one_cluster() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        here, there = kafka.process(), kafka.process()
        admin = here.cluster("east:9092", "").admin()
        producer, fetcher = await _producer(here), await _fetcher(here, 0)
        await (await producer.send(PARTITION, b"a", None, [], 1))
        await fetcher.fetch(10, 1.0)
        here.cut("east")
        outcome = asyncio.ensure_future(await producer.send(PARTITION, b"b", None, [], 1))
        with pytest.raises(ClusterUnavailable):
            await admin.describe_cluster()
        assert (await there.cluster("east:9092", "").admin().offsets_at({PARTITION: OffsetAt.LATEST}))[PARTITION] == 1
        await (await (await _producer(there)).send(PARTITION, b"c", None, [], 1))
        assert list(await fetcher.fetch(10, 3.0)) == []
        assert not outcome.done()
        here.mend("east")
        assert (await outcome).offset == 2
        fetched = [record.value for one in await fetcher.fetch(10, 3.0) for record in one.records]
        assert fetched == [b"c", b"b"]
        await admin.describe_cluster()

    play(scenario)


def test_an_answer_lost_on_its_way_is_a_record_written_once() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        process = kafka.process()
        producer = await _producer(process)
        await (await producer.send(PARTITION, b"a", None, [], 1))
        outcome = asyncio.ensure_future(await producer.send(PARTITION, b"b", None, [], 1))
        assert await cluster.until(lambda: cluster.log(PARTITION).end == 2, 5.0)
        process.cut("east")
        await asyncio.sleep(5.0)
        assert not outcome.done()
        process.mend("east")
        assert (await outcome).offset == 1
        assert _values(cluster) == [b"a", b"b"]

    play(scenario)


def test_a_frozen_broker_writes_later_for_an_abandoned_producer() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        producer = await _producer(kafka)
        await (await producer.send(PARTITION, b"a", None, [], 1))
        cluster.pause()
        outcome = await producer.send(PARTITION, b"late", None, [], 1)
        await asyncio.sleep(0.5)
        await producer.abandon()
        with pytest.raises(ClusterUnavailable):
            await outcome
        cluster.resume()
        assert _values(cluster) == [b"a", b"late"]

    play(scenario)


def test_a_seal_refuses_what_a_frozen_broker_took_after_it() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        producer = await _producer(kafka)
        await (await producer.send(PARTITION, b"a", None, [], 1))
        cluster.alter_topic_config("logs", {"max.message.bytes": "0"})
        cluster.pause()
        outcome = await producer.send(PARTITION, b"late", None, [], 1)
        await asyncio.sleep(0.5)
        cluster.resume()
        with pytest.raises(TopicSealed):
            await outcome
        assert _values(cluster) == [b"a"]

    play(scenario)


def test_a_killed_cluster_forgets_what_it_had_not_answered() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        producer = await _producer(kafka)
        await (await producer.send(PARTITION, b"a", None, [], 1))
        cluster.pause()
        await producer.send(PARTITION, b"lost", None, [], 1)
        await asyncio.sleep(0.5)
        await producer.abandon()
        cluster.kill()
        cluster.start()
        await asyncio.sleep(10.0)
        assert _values(cluster) == [b"a"]

    play(scenario)


def test_a_cluster_that_returns_without_its_data_is_recognisable() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        admin, offsets = kafka.cluster("east:9092", "").admin(), kafka.cluster("east:9092", "").offsets()
        await (await (await _producer(kafka)).send(PARTITION, b"a", None, [], 1))
        await offsets.commit("g", {PARTITION: Committed(1, "x")}, None)
        identity, mark = (await admin.describe_cluster()).cluster_id, await admin.fingerprint(PARTITION, 1)
        fetcher = await _fetcher(kafka, 1)
        cluster.kill()
        cluster.empty()
        cluster.start()
        assert (await admin.describe_cluster()).cluster_id != identity
        assert await admin.list_topics() == []
        assert await offsets.group_state("g") == "Dead"
        await admin.create_topic("logs", 1, 1, {})
        with pytest.raises(OffsetOutOfRange):
            await fetcher.fetch(10, 1.0)
        await (await (await _producer(kafka)).send(PARTITION, b"a", None, [], 1))
        assert await admin.fingerprint(PARTITION, 1) not in (None, mark)

    play(scenario)


def test_truncation_and_expiry_move_the_ends_of_a_log() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        admin, producer = kafka.cluster("east:9092", "").admin(), await _producer(kafka)
        for value in (b"a", b"b", b"c"):
            await (await producer.send(PARTITION, value, None, [], 1))
        before, second = await admin.fingerprint(PARTITION, 3), await admin.fingerprint(PARTITION, 2)
        cluster.truncate(PARTITION, 2)
        cluster.kill()
        cluster.start()
        assert await admin.fingerprint(PARTITION, 3) is None
        await (await producer.send(PARTITION, b"other", None, [], 1))
        assert await admin.fingerprint(PARTITION, 3) not in (None, before)
        assert await admin.fingerprint(PARTITION, 2) == second
        cluster.expire(PARTITION, 2)
        assert await admin.offsets_at({PARTITION: OffsetAt.EARLIEST}) == {PARTITION: 2}
        assert await admin.fingerprint(PARTITION, 2) is None
        with pytest.raises(OffsetOutOfRange):
            await (await _fetcher(kafka, 0)).fetch(10, 1.0)

    play(scenario)


def test_a_killed_process_sends_nothing_more() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        process = VirtualProcess(running_loop(), "member", seed=1)
        sent = asyncio.Event()

        async def work() -> None:
            producer = await _producer(kafka.process())
            await (await producer.send(PARTITION, b"a", None, [], 1))
            cluster.kill()
            await producer.send(PARTITION, b"never", None, [], 1)
            sent.set()
            await asyncio.sleep(1_000.0)

        process.tasks.spawn(work(), "work")
        await sent.wait()
        process.kill()
        cluster.start()
        await asyncio.sleep(10.0)
        assert _values(cluster) == [b"a"]

    play(scenario)


def test_an_empty_address_is_unavailable_and_profiles_unknown() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        with pytest.raises(ClusterUnavailable):
            await kafka.cluster("nowhere:1", "").admin().describe_cluster()
        with pytest.raises(Invalid):
            kafka.cluster("east:9092", "prod")
        west = kafka.add_cluster("west", "west:1234", auto_creates_topics=True)
        assert (await kafka.cluster("west:1234", "").admin().describe_cluster()).auto_creates_topics
        assert kafka.named("west") is west

    play(scenario)


def test_only_an_election_ends_connections_and_nothing_is_lost() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        producer = await _producer(kafka)
        told = [await (await producer.send(PARTITION, b"a", None, [], 1))]
        for befalls in (cluster.grow_epoch, cluster.elect):
            befalls(PARTITION)
            told.append(await (await producer.send(PARTITION, b"a", None, [], 1)))
        assert [(each.offset, each.connection) for each in told] == [(0, 0), (1, 0), (2, 1)]
        assert [batch.leader_epoch for batch in cluster.log(PARTITION).batches] == [0, 1, 2]
        assert cluster.describe_topics(["logs"])["logs"].leader_epochs == [2]
        cluster.kill()
        cluster.start()
        again = await (await producer.send(PARTITION, b"a", None, [], 1))
        assert (again.connection, cluster.log(PARTITION).batches[-1].leader_epoch) == (2, 3)

    play(scenario)


def test_descriptions_at_once_share_a_request() -> None:
    async def scenario(kafka: MemoryKafka, cluster: MemoryCluster) -> None:
        admin = kafka.cluster("east:9092", "").admin()
        first, second = await asyncio.gather(*(admin.describe_topics(["logs"]) for _ in range(2)))
        assert first is second
        cluster.running = False
        failed = await asyncio.gather(*(admin.describe_topics(["logs"]) for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in failed] == [ClusterUnavailable] * 2
        cluster.running = True
        assert (await admin.describe_topics(["logs"])).keys() == {"logs"}, "a failure serves no later caller"

    play(scenario)
