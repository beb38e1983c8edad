"""The member's side of the lease protocol where both sides could come to differ about who holds what."""

import asyncio

import pytest

from braid.api.assigner.v1 import join_pb2
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.ids import make_epoch
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, bench, killed, member, take


@virtual
async def test_a_lease_released_before_the_welcome_is_released_again() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST) as (consumer, _):
            [record] = await take(consumer, 1)
            await at.control.revoke(0, FIRST)
            await asyncio.sleep(0.1)
            at.control.network.kill("control")
            at.control.network.set_latency("m", "control", 0.2, 0.2)
            await at.control.start()
            await until(lambda: len(at.control.members) == 2)  # it is welcomed, and does not know it yet
            assert [held.lease for held in at.control.members[1].hello.held] == [FIRST]
            at.sunk(record)
            record.ack()
            await until(lambda: [released.lease for released in at.control.released] == [FIRST])
            assert at.control.held["member-0"] == {}
            killed(consumer)


@virtual
async def test_what_is_asked_back_and_not_held_is_answered() -> None:
    async with bench() as at, member(at, "m") as (consumer, _):
        at.control.held["member-0"][FIRST] = make_epoch(1, 7)
        await at.control.revoke(0, FIRST)
        await until(lambda: [(each.lease, each.epoch) for each in at.control.released] == [(FIRST, make_epoch(1, 7))])
        killed(consumer)


@virtual
async def test_a_lease_granted_and_revoked_in_one_delta_returns_once() -> None:
    async with bench() as at, member(at, "m") as (consumer, _):
        joined = at.control.members[0]
        at.control.held["member-0"][FIRST] = 7
        delta = join_pb2.LeaseDelta(sequence=1)
        cluster = delta.clusters.add(cluster=at.control.address("east"))
        cluster.granted.add(lease=FIRST, topic="braid.logs.live.1", partition=0, epoch=7)
        cluster.revoked.add(lease=FIRST, epoch=7, deadline_ms=30_000)
        await joined.call.send(join_pb2.JoinResponse(delta=delta))
        await until(lambda: joined.acknowledged == 1)
        await asyncio.sleep(1.0)
        assert [(each.lease, each.epoch, each.reason) for each in at.control.released] == [(FIRST, 7, "asked back")]
        assert consumer.leases() == []
        killed(consumer)


@virtual
async def test_a_member_that_is_cut_off_works_on_for_a_bounded_time() -> None:
    async with bench() as at, member(at, "m", FIRST, detached_seconds_max=60.0) as (consumer, _):
        await until(lambda: bool(consumer.leases()))
        at.control.network.cut("m", "control")
        await asyncio.sleep(60.0)
        assert [lease.name for lease in consumer.leases()] == [FIRST]
        await until(lambda: not consumer.leases(), seconds=10.0)
        at.control.network.heal("m", "control")
        await until(lambda: len(at.control.members) == 2)
        assert list(at.control.members[1].hello.held) == []
        await at.control.grant(-1, FIRST)
        await until(lambda: [lease.name for lease in consumer.leases()] == [FIRST])


@virtual
async def test_a_member_refused_for_good_stops_and_says_why() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        at.control.network.kill("control")
        at.control.refusal = Invalid("the group has other streams", field="spec.streams")
        await at.control.start()
        with pytest.raises(Invalid, match="other streams"):
            await consumer.take(10.0)
        assert consumer.leases() == []
        killed(consumer)


@virtual
async def test_a_stranger_on_the_assigners_port_is_no_refusal() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        at.control.network.kill("control")
        at.control.refusal = Unsupported("unknown service")
        await at.control.start()
        await asyncio.sleep(5.0)
        at.control.network.kill("control")
        at.control.refusal = None
        await at.control.start()
        await until(lambda: len(at.control.members) == 2)
        assert [lease.name for lease in consumer.leases()] == [FIRST]
