"""Members fetch from the copy in their own zone (KIP-392), by what the kernel counts on connections to each broker."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import Isolation, TopicPartition
from devmesh.mesh import DevMesh
from testbed.patience import Deadline, until
from testbed.received_bytes import received
from tests.integration.several_brokers.load import SHARE_MIN, laid_out
from tests.integration.several_brokers.outages import away
from tests.support.judging import judge
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
RECORDS: Final = 200
RECORD_BYTES: Final = 20_000
LEADER: Final = 1
NEAR: Final = 3
HELD_UP_SECONDS_MAX: Final = 4.0  # half of Kafka's own session
READ_SECONDS_MAX: Final = 60.0


async def filled(mesh: braid.Mesh, stream: str) -> str:
    """The topic of a stream with one partition, and records in it that no codec makes small."""
    lanes = {"live": stream_pb2.LaneSpec(partitions=1)}
    request = api.CreateStreamRequest(name=stream, spec=stream_pb2.StreamSpec(lanes=lanes, clusters=["east"]))
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)
    async with mesh.producer(stream) as producer:
        receipts = await asyncio.gather(*(producer.send(os.urandom(RECORD_BYTES)) for _ in range(RECORDS)))
    return receipts[0].topic


async def served(local: DevMesh, stream: str, zone: str, ports: dict[int, int]) -> Counter[int]:
    """The bytes each broker sent while a member of a new group in a zone read all records of a stream."""
    handled: set[str] = set()

    async def handle(record: braid.Record) -> None:
        handled.add(record.id)

    async with braid.connect(local.ready.endpoint, client_id="reader", zone=zone) as mesh:
        async with mesh.consumer([stream], group=f"{stream}-in-{zone or 'none'}") as consumer:
            reading = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(handled) == RECORDS, lambda: f"{len(handled)} of {RECORDS} are read", 60.0)
            found = received(ports)
        await reading
    return found


async def test_a_member_reads_the_copy_of_its_own_zone(three_brokers: DevMesh, try_name: Callable[[str], str]) -> None:
    stream = try_name("nearest")
    brokers = (await three_brokers.info()).clusters["east"].brokers
    ports = {int(each.address.rsplit(":", 1)[1]): int(name.rsplit("/", 1)[1]) for name, each in brokers.items()}
    racks = {int(name.rsplit("/", 1)[1]): each.rack for name, each in brokers.items()}
    assert len(set(racks.values())) == len(racks)
    async with braid.connect(three_brokers.ready.endpoint, client_id="writer") as mesh:
        topic = await filled(mesh, stream)
    async with operating(three_brokers.ready.clusters["east"].bootstrap) as operator:
        await laid_out(operator, topic, {0: [LEADER, 2, 3]})
    for zone, nearest in (("", LEADER), (racks[LEADER], LEADER), (racks[2], 2), (racks[3], 3)):
        found = await served(three_brokers, stream, zone, ports)
        print(f"zone {zone or 'none'}: {dict(found)} bytes by broker")
        assert found[nearest] >= RECORDS * RECORD_BYTES
        assert sum(found.values()) - found[nearest] < RECORDS * RECORD_BYTES / 10


@pytest.mark.extended
async def test_a_dead_copy_nearby_holds_no_reader_up(stock_brokers: DevMesh, try_name: Callable[[str], str]) -> None:
    """Until its session has ended, after 9 s, the leader still sends readers of that zone to it."""
    bootstrap, rack = stock_brokers.ready.clusters["east"].bootstrap, await rack_of(stock_brokers, NEAR)
    async with braid.connect(stock_brokers.ready.endpoint, client_id="writer") as mesh:
        topic = await filled(mesh, try_name("dead-nearby"))
    async with operating(bootstrap) as operator:
        await laid_out(operator, topic, {0: [LEADER, 2, NEAR]})
    async with away(stock_brokers, f"east/{NEAR}"):
        begun, given = time.monotonic(), Deadline(1.0)
        fetcher = (
            AioKafka("tests")
            .cluster(bootstrap, "")
            .fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack=rack)
        )
        await fetcher.start()
        fetcher.assign({TopicPartition(topic, 0): 0})
        read = 0
        while read < RECORDS:
            read += sum(len(each.records) for each in await fetcher.fetch(RECORDS, 1.0))
            assert time.monotonic() - begun < READ_SECONDS_MAX
        took = time.monotonic() - begun
        await fetcher.close()
    print(f"the copy nearby dead: all read after {took:.2f} s")
    judge(took <= HELD_UP_SECONDS_MAX, given.share, SHARE_MIN, f"all read after {took:.2f} s")


async def rack_of(local: DevMesh, node: int) -> str:
    """The rack of a broker of `east`."""
    return (await local.info()).clusters["east"].brokers[f"east/{node}"].rack
