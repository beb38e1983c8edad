"""A broker dies under Kafka's own settings (a session of 9 s): ridden out, or left at once. The guide's figures."""

from collections.abc import Callable
from typing import Final

import pytest

from braid.api.registry.v1.stream_pb2 import StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from tests.integration.several_brokers.load import BESIDE_FACTOR, SHARE_MIN, loaded
from tests.integration.several_brokers.outages import away, durable_advice, election
from tests.support.judging import judge
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(600)]
RIDE_OUT_SECONDS: Final = 12.0
RESUME_SECONDS_MAX: Final = 1.0  # after Kafka's own election, or as a plain client needs on a busy machine
ELSEWHERE_SECONDS_MAX: Final = 3.0
LAYOUT: Final = {0: [2, 3, 1], 1: [3, 1, 2]}


async def test_ridden_out_acknowledgements_resume_with_kafkas_election(
    stock_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    async with (
        loaded(stock_brokers, try_name("ridden-out"), StreamSpec(ride_out_seconds=RIDE_OUT_SECONDS)) as load,
        operating(stock_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, LAYOUT)
        topic, given = (await load.first()).topic, Deadline(1.0)
        async with load.fault() as fault, away(stock_brokers, "east/2"):
            elected = await election(operator, topic, 2) - fault.begin
            await load.acknowledges()
            resumed = max(load.ledger.resumed(fault.begin).values())
            await durable_advice(stock_brokers)
        await operator.whole(topic)
        kafkas = max(load.alone.resumed(fault.begin).values())
        text = f"elected after {elected:.2f} s, every partition acknowledged after {resumed:.2f} s"
        print(f"stock settings: {text}, plain {kafkas:.2f} s")
        most, late = max(RESUME_SECONDS_MAX, BESIDE_FACTOR * (kafkas - elected)), resumed - elected
        judge(late <= most, given.share, SHARE_MIN, f"acknowledged {late:.2f} s after the election")


async def test_a_move_at_once_gets_its_first_acknowledgement_in_time(
    stock_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    async with (
        loaded(stock_brokers, try_name("left"), StreamSpec(ride_out_seconds=0.0), stays=False) as load,
        operating(stock_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, LAYOUT)
        given = Deadline(1.0)
        async with load.fault() as fault, away(stock_brokers, "east/2"):
            await load.left()
            await load.acknowledges()
        found = load.ledger.resumed(fault.begin)
        first = min(at for (cluster, _), at in found.items() if cluster == "west")
        await load.drained()
        print(f"stock settings: first acknowledgement elsewhere after {first:.2f} s, {len(load.ledger.repeated)} again")
        judge(first <= ELSEWHERE_SECONDS_MAX, given.share, SHARE_MIN, f"elsewhere after {first:.2f} s")
