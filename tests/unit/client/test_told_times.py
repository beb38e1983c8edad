"""Streams that a tenant's quota refuses are opened again when the refusal says so, and not before."""

import asyncio
from typing import cast

from braid.api.assigner.v1 import join_pb2
from braid.client.membership.heartbeats import Heartbeats
from braid.kernel.errors import QuotaExceeded
from braid.rpc.mesh_client import ServiceClient
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.client.scripted_member import FIRST, bench, killed, member

FULL = QuotaExceeded("too often", metadata={"tenant": "acme", "retry_ms": "3000"})


@virtual
async def test_refused_streams_come_again_when_they_are_told_to() -> None:
    async with bench() as at, member(at, "m", FIRST) as (consumer, _):
        producing = at.control.client("web")
        async with producing.mesh, producing.mesh.producer("logs"):
            await until(lambda: bool(at.control.witnesses))
            at.control.network.kill("control")
            at.control.full = FULL
            await at.control.start()
            await asyncio.sleep(12.0)
            assert at.control.turned_away.keys() == {"Join", "WatchRoutes", "WatchClusters"}
            assert all(2 <= calls <= 4 for calls in at.control.turned_away.values()), at.control.turned_away
            at.control.full = None
            await until(lambda: len(at.control.members) == 2, seconds=6.0)
            killed(consumer)


class Full:
    """A client of a service that refuses every stream."""

    def __init__(self) -> None:
        self.asked = 0

    async def duplex(self, method: str, response_type: type) -> None:
        """See `ServiceClient.duplex`."""
        self.asked += 1
        raise FULL


@virtual
async def test_shared_heartbeats_come_again_when_they_are_told_to() -> None:
    full = Full()
    heartbeats = Heartbeats(VirtualProcess(running_loop(), "web", 1).host, cast("ServiceClient", full))
    for ticket in (1, 2):
        heartbeats.seat(ticket, 0.5, 3.0, join_pb2.Heartbeat, lambda sent_at: None)
    await asyncio.sleep(10.0)
    assert 2 <= full.asked <= 4
    await heartbeats.close()
