"""One broker of three dies or stands still under a stream that rides it out: no move, nothing lost or repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from braid.api.registry.v1.stream_pb2 import StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from tests.integration.several_brokers.load import BESIDE_FACTOR, SHARE_MIN, Load, loaded
from tests.integration.several_brokers.outages import Outage, away, durable_advice, election, frozen
from tests.support.judging import judge
from tests.support.kafka_operator import KafkaOperator, operating

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
RIDE_OUT_SECONDS: Final = 8.0  # with sessions of 3 s, whose elections were seen to take 5.0 s
RESUME_SECONDS_MAX: Final = 1.0  # after Kafka's own election, or as a plain client needs on a busy machine
FROZEN_RESUME_SECONDS_MAX: Final = 4.0  # connections stay open: a request has to run out (2 s), and another be made
FROZEN_SECONDS: Final = 15.0
Choice = Callable[[KafkaOperator, Load], Awaitable[int]]


async def leader(operator: KafkaOperator, load: Load) -> int:
    """The broker that leads the stream's first partition."""
    return await operator.leader((await load.first()).topic)


async def coordinator(operator: KafkaOperator, load: Load) -> int:
    """The broker that takes the group's commits."""
    return await operator.coordinator(load.group)


async def controller(operator: KafkaOperator, load: Load) -> int:
    """The broker that elects leaders."""
    return await operator.controller()


@pytest.mark.parametrize(
    ("choose", "outage", "resume_seconds"),
    [
        pytest.param(leader, away, RESUME_SECONDS_MAX, id="leader-killed"),
        pytest.param(coordinator, away, RESUME_SECONDS_MAX, id="coordinator-killed", marks=pytest.mark.extended),
        pytest.param(controller, away, RESUME_SECONDS_MAX, id="controller-killed", marks=pytest.mark.extended),
        pytest.param(leader, frozen, FROZEN_RESUME_SECONDS_MAX, id="leader-frozen", marks=pytest.mark.extended),
    ],
)
async def test_losing_one_broker_resumes_acknowledgements_by_election(
    three_brokers: DevMesh, choose: Choice, outage: Outage, resume_seconds: float, try_name: Callable[[str], str]
) -> None:
    """The broker leads a partition of this stream, besides its part for other streams."""
    stream, spec = try_name(f"{choose.__name__}-{outage.__name__}"), StreamSpec(ride_out_seconds=RIDE_OUT_SECONDS)
    async with (
        loaded(three_brokers, stream, spec) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        gone = await choose(operator, load)
        others = [each for each in (1, 2, 3) if each != gone]
        await load.lay_out(operator, {0: [gone, *others], 1: [*others, gone]})
        topic, given = (await load.first()).topic, Deadline(1.0)
        async with load.fault() as fault, outage(three_brokers, f"east/{gone}"):
            elected = await election(operator, topic, gone) - fault.begin
            assert await operator.coordinator(load.group) != gone
            await load.acknowledges()
            resumed = max(load.ledger.resumed(fault.begin).values())
            await durable_advice(three_brokers)
            if outage is frozen:
                await asyncio.sleep(max(0.0, FROZEN_SECONDS - load.since(fault.begin)))
        await operator.whole(topic)
    kafkas = max(load.alone.resumed(fault.begin).values())
    print(f"{stream}: elected after {elected:.2f} s, acknowledged after {resumed:.2f} s, plain {kafkas:.2f} s")
    most, late = max(resume_seconds, BESIDE_FACTOR * (kafkas - elected)), resumed - elected
    judge(late <= most, given.share, SHARE_MIN, f"acknowledged {late:.2f} s after the election")
