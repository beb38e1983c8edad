"""A real cluster without its controller: brokers serve, no topic is made, and the registry knows."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.kafka.cluster import AioKafka
from braid.kernel.errors import AlreadyExists, BraidError, ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import KafkaAdmin, TopicPartition
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import READY_SECONDS, parted_cluster, running_broker
from testbed.patience import POLL_SECONDS, Deadline, until
from tests.support.wired_registry import ENOUGH_SECONDS, sending, wired_registry

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]

WRITTEN = TopicPartition("written", 0)


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """A broker, and its controller."""
    with parted_cluster("east", tmp_path_factory.mktemp("parted")) as nodes:
        yield nodes


async def makes_topics(admin: KafkaAdmin) -> bool:
    try:
        await admin.try_create_topic("tried", 1, 1, {})
    except BraidError:  # a controller that was away may find that its brokers were: it refuses, until it has heard them
        return False
    return True


@pytest.mark.parametrize("fault", ["kill", pytest.param("pause", marks=pytest.mark.extended)])
async def test_brokers_serve_and_make_no_topic(parted: tuple[KafkaBroker, KafkaBroker], fault: str) -> None:
    broker, controller = parted
    cluster = AioKafka("test").cluster(broker.bootstrap, "")
    admin, asking = cluster.admin(), cluster.admin()
    try:
        await until(lambda: makes_topics(asking), "a topic would be made", READY_SECONDS)
        if WRITTEN.topic not in await admin.list_topics():
            await admin.create_topic(WRITTEN.topic, 1, 1, {})
        before = (await admin.try_append(WRITTEN, b"x", 10.0)).offset
        getattr(controller, fault)()
        given = Deadline(2 * KAFKA_CALL_SECONDS)
        with pytest.raises(ClusterUnavailable):
            await asking.try_create_topic("tried", 1, 1, {})
        assert not given.passed
        survey = await admin.survey([WRITTEN.topic])
        assert survey.controller in survey.brokers and list(survey.topics[WRITTEN.topic].leaders) == [1]
        assert (await admin.try_append(WRITTEN, b"x", 10.0)).offset == before + 1
        await bring_back(controller, fault)
        await until(lambda: makes_topics(asking), "a topic would be made again", READY_SECONDS)
        assert await admin.list_topics() == [WRITTEN.topic]
        with pytest.raises(AlreadyExists):
            await asking.try_create_topic(WRITTEN.topic, 1, 1, {})
    finally:
        await bring_back(controller, fault)
        for client in (admin, asking):
            await client.close()


async def test_the_registry_leaves_its_traffic_and_sends_no_new(
    parted: tuple[KafkaBroker, KafkaBroker], tmp_path: Path
) -> None:
    east, controller = parted
    with running_broker("west", tmp_path / "west") as west:
        async with wired_registry({"east": east, "west": west}) as wired:
            await wired.create_stream("kept", ["east"])
            receipts: list[tuple[float, str]] = []
            async with wired.mesh.producer("kept") as producer:
                load = asyncio.ensure_future(sending(producer, receipts))
                try:
                    await until(lambda: receipts, "an acknowledgement", ENOUGH_SECONDS)
                    controller.kill()
                    told = await wired.until_verdict("east", "HALF_DEAD", "NO_TOPICS", 2 * ENOUGH_SECONDS)
                    assert "it makes no topics" in told.status.health_reason
                    count = len(receipts)
                    await until(lambda: len(receipts) > count + 10, "more of them", ENOUGH_SECONDS)
                    assert {where for _, where in receipts} == {"east"}
                    await bring_back(controller, "kill")
                    await wired.until_verdict("east", "HEALTHY", "WELL", 2 * ENOUGH_SECONDS)
                finally:
                    await bring_back(controller, "kill")
                    load.cancel()
                    await asyncio.wait([load])


async def bring_back(controller: KafkaBroker, fault: str) -> None:
    if fault == "pause":
        controller.resume()
    elif controller.pid is None:
        controller.start()
    await asyncio.sleep(POLL_SECONDS)
