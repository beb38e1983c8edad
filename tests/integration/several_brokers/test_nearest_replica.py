"""Members fetch from the copy in their own zone (KIP-392), by what the kernel counts on connections to each broker."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

import braid
from devmesh.mesh import DevMesh
from testbed.patience import until
from testbed.received_bytes import received
from tests.integration.several_brokers.load import laid_out
from tests.integration.several_brokers.replicas import LEADER, RECORD_BYTES, RECORDS, filled
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]


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
