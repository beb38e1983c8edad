"""Calls that a tenant's quota refuses: made again when the refusal says so, and not where waiting does not help."""

import pytest

from braid.kernel.errors import QuotaExceeded
from tests.unit.rpc.replicas import World, run


def test_a_call_too_many_is_made_again_when_its_refusal_says_so() -> None:
    async def scenario() -> None:
        world = await World().start()
        began = world.host.clock.elapsed()
        world.full_until = began + 1.0
        assert (await world.do("often")).startswith("assigner-0")
        assert len(world.answered) == 3, "two were refused, 0.7 s apart at least"
        assert len({request for _, request in world.answered}) == 1
        assert world.host.clock.elapsed() - began >= 1.4
        world.full_until = began + 100.0
        with pytest.raises(QuotaExceeded):
            await world.do("often", timeout_seconds=2.0)
        world.answered.clear()
        with pytest.raises(QuotaExceeded):
            await world.do("many")
        assert len(world.answered) == 1, "waiting gives nothing back"

    run(scenario())
