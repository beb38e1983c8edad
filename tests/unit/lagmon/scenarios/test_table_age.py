"""A table of lag that takes long to compute answers for longer, so that a list of many pages comes from few tables."""

from unittest.mock import patch

import pytest

from services.lagmon.reconciler.term import Clusters, Table
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh


@pytest.mark.parametrize(("took_seconds", "least", "most"), [(0.0, 10, 14), (1.0, 1, 3)])
def test_asking_ten_times_in_four_seconds(took_seconds: float, least: int, most: int) -> None:
    computed: list[float] = []
    compute = Clusters._compute

    async def scene() -> None:
        mesh = await Mesh(("east",)).start()

        async def slow(clusters: Clusters) -> Table:
            computed.append(mesh.clock.elapsed())
            made = await compute(clusters)
            await mesh.clock.sleep(took_seconds)
            return made

        with patch.object(Clusters, "_compute", slow):
            await mesh.lag()
            await mesh.clock.sleep(10.0)
            computed.clear()
            for _ in range(10):
                begun = mesh.clock.elapsed()
                await mesh.lag()
                await mesh.clock.sleep(max(0.0, 0.4 - (mesh.clock.elapsed() - begun)))

    run_virtual(scene())
    assert least <= len(computed) <= most, computed
