"""`braid dev` with a cluster of three brokers: what it is, its operator, and that it comes back as it was.

`several_brokers` breaks its brokers under load.
"""

from pathlib import Path
from typing import Final

import pytest

from braid.kafka.cluster import AioKafka
from devmesh.mesh import DevMesh
from tests.integration.several_brokers.load import laid_out
from tests.support.kafka_operator import operating

MEMORY_BYTES_MAX: Final = 6 << 30

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def east(mesh: DevMesh) -> str:
    """The addresses that clients of the cluster connect to."""
    return mesh.ready.clusters["east"].bootstrap


@pytest.mark.untimed
async def test_three_copies_acknowledge_by_two(three_brokers: DevMesh) -> None:
    admin = AioKafka("tests").cluster(east(three_brokers), "").admin()
    await admin.create_topic("copied", 3, -1, {})
    config = await admin.topic_config("copied")
    await admin.close()
    assert config["min.insync.replicas"] == "2"
    async with operating(east(three_brokers)) as operator:
        found = await operator.copies("copied")
        assert all(sorted(each.replicas) == [1, 2, 3] for each in found.values())
        await operator.coordinator("anybody")  # makes the topic
        offsets = await operator.copies("__consumer_offsets")
        assert {len(each.replicas) for each in offsets.values()} == {3}


@pytest.mark.untimed
async def test_an_operator_reassigns_elects_and_finds_who_leads(three_brokers: DevMesh) -> None:
    admin = AioKafka("tests").cluster(east(three_brokers), "").admin()
    await admin.create_topic("handed", 2, 3, {})
    await admin.close()
    async with operating(east(three_brokers)) as operator:
        before = await laid_out(operator, "handed", {0: [2, 3], 1: [3, 1]})
        after = await laid_out(operator, "handed", {0: [3, 2, 1]})
        assert after[0].leader_epoch > before[0].leader_epoch
        assert await operator.reassigning() == 0
        assert await operator.controller() in (1, 2, 3)
        assert await operator.coordinator("anybody") in (1, 2, 3)


@pytest.mark.extended
async def test_six_brokers_and_all_services_stay_small_and_come_back(tmp_path: Path) -> None:
    """A second start finds brokers, topics and copies of the first, after an end in order."""
    async with DevMesh(tmp_path, clusters=("east:3", "west:3"), lagmons=1, dlqs=1, secure=False) as first:
        admin = AioKafka("tests").cluster(east(first), "").admin()
        await admin.create_topic("kept", 1, 3, {})
        await admin.close()
        status = await first.status()
        assert [each.name for each in status.processes][:6] == [
            f"{name}/{node}" for name in ("east", "west") for node in (1, 2, 3)
        ]
        print(f"{status.memory_bytes >> 20} MiB in all")
        assert status.memory_bytes < MEMORY_BYTES_MAX
    async with DevMesh(tmp_path, lagmons=1, dlqs=1, secure=False) as again:
        assert east(again) == east(first)
        async with operating(east(again)) as operator:
            await operator.whole("kept")
