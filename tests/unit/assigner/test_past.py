"""What a lease's past is told to be once snapshots removed the oldest events: the truth, or that it is not kept."""

from collections.abc import Coroutine
from typing import Any

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.errors import HistoryHole
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire

LEASE = "logs/live/1/0"
MANY = 600  # pairs of events; a snapshot is saved at 1,024 events, of the state at the 512th


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def explained(mesh: Mesh, at_ms: int = 0) -> api.ExplainLeaseResponse:
    """Why the lease is where it was then."""
    request = api.ExplainLeaseRequest(lease=LEASE, group="indexer", at_ms=at_ms)
    return await mesh.client("cli").unary("ExplainLease", request, api.ExplainLeaseResponse, timeout_seconds=8)


async def freeze_and_unfreeze(mesh: Mesh, times: int) -> None:
    """Makes two events each time, none of which concerns who holds what."""
    client = mesh.client("cli")
    for _ in range(times):
        for frozen in (True, False):
            request = api.FreezeGroupRequest(group="indexer", frozen=frozen)
            await client.unary("FreezeGroup", request, group_pb2.Group, timeout_seconds=8)


def test_a_holder_is_told_after_snapshots_removed_the_event_that_made_it_one() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello(client_id="web-1")
        await wire.next("delta")
        await mesh.host.clock.sleep(1)
        early = mesh.host.clock.now_ms()
        assert (await explained(mesh, early)).lease.member_client_id == "web-1"
        for _ in range(MANY // 100):
            await freeze_and_unfreeze(mesh, 100)
            await wire.beat()
        await mesh.host.clock.sleep(1)
        live = await explained(mesh)
        now = await explained(mesh, mesh.host.clock.now_ms())
        assert live.lease.member_client_id == "web-1"
        assert now.lease.member_client_id == "web-1", "folded from an empty state"
        assert now.lease.epoch == live.lease.epoch
        assert [each.text for each in now.reasons] == [each.text for each in live.reasons]
        assert now.kept_from_sequence == live.kept_from_sequence > 512
        with pytest.raises(HistoryHole) as told:
            await explained(mesh, early)
        assert told.value.metadata["history"] == "assigner/group/indexer"
        assert told.value.metadata["first"] == "1"
        assert int(told.value.metadata["last"]) == now.kept_from_sequence - 1

    run(scenario())
