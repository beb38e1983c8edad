"""Leases leave a member that becomes ten times slower, and return, on the whole mesh in virtual time."""

from pathlib import Path

import pytest

from services.assigner.model.lag.response_events import ResponseTaken, ResponseUndone
from tests.simulation.answering import GROUP, PLAIN, TARGET_SECONDS
from tests.simulation.slowing import SLOW, SLOWER, SlowingMesh
from tests.support.virtual_time import run_virtual


@pytest.mark.slow
@pytest.mark.extended
def test_leases_leave_a_slow_member_and_return(tmp_path: Path) -> None:
    async def scenario() -> None:
        mesh = await SlowingMesh(tmp_path).begin_four()
        before, began = mesh.leases(GROUP)[SLOW], mesh.now()
        mesh.slower = SLOWER
        await mesh.host.clock.sleep(15.0)
        assert 1 <= mesh.leases(GROUP)[SLOW] <= before / 2
        await mesh.host.clock.sleep(20.0)
        assert 1 <= mesh.leases(GROUP)[SLOW] <= before / 4
        answered, left = (mesh.lags(group, began + 33.0) for group in (GROUP, PLAIN))
        assert max(answered) <= TARGET_SECONDS
        assert min(left) > 4 * TARGET_SECONDS, "the same member, left alone"
        mesh.slower = 1.0
        await mesh.host.clock.sleep(40.0)
        assert mesh.leases(GROUP)[SLOW] > before / 4
        events = [each for each in await mesh.events() if isinstance(each, ResponseTaken | ResponseUndone)]
        assert [type(each) for each in events] == [ResponseTaken, ResponseUndone]
        assert not mesh.failures

    run_virtual(scenario())
