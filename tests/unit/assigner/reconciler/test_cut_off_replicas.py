"""Members look for the assigner's leader while replicas are cut off from the store; on virtual time."""

import pytest

from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import check_epochs, check_single_holder
from tests.unit.assigner.mesh import Mesh


@pytest.mark.parametrize("seed", range(8))
def test_members_find_the_next_leader_past_cut_off_replicas(seed: int) -> None:
    """A replica cut off from the store cannot name the leader: a member that waits for its answer loses its leases."""

    async def scenario() -> None:
        mesh = await Mesh(seed).start(assigners=4)
        members = await mesh.joined(3, lease_ms=1_000)
        before = [dict(member.holds) for member in members]
        first = await mesh.leader()
        assigners = [name for name in mesh.stores if name.startswith("assigner")]
        last = next(name for name in reversed(assigners) if name != first.instance)
        for name in assigners:
            if name != last:
                mesh.stores[name].disconnect()
        await mesh.until(lambda: mesh.replicas[last].leading())
        led_at = mesh.host.clock.elapsed()
        await mesh.host.clock.sleep(1.0)  # until nothing that the former leader answered counts
        await mesh.until(lambda: all(member.session.attached for member in members))
        assert mesh.host.clock.elapsed() - led_at < 1.5
        await mesh.host.clock.sleep(4)  # past its grace
        assert [dict(member.holds) for member in members] == before
        events = await mesh.events()
        check_epochs(events)
        check_single_holder(events)
        assert mesh.failures == []

    run_virtual(scenario())
