"""Scenes of one lag monitor or several on virtual time, and where an age comes from."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from braid.api.lagmon.v1 import lag_pb2
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
DONE = lag_pb2.LAG_SOURCE_DONE
ENVELOPE = lag_pb2.LAG_SOURCE_ENVELOPE
RECORD = lag_pb2.LAG_SOURCE_RECORD
ESTIMATE = lag_pb2.LAG_SOURCE_ESTIMATE
UNKNOWN = lag_pb2.LAG_SOURCE_UNKNOWN


def play(scene: Scene, *, clusters: Sequence[str] = ("east",), lagmons: int = 1) -> None:
    async def run() -> None:
        await scene(await Mesh(clusters).start(lagmons))

    run_virtual(run())


def records(rows: Sequence[lag_pb2.Lag]) -> list[int]:
    return [row.lag_records for row in rows]


async def metric(mesh: Mesh, name: str, instance: str = "lagmon-0", **labels: str) -> float | None:
    """A metric's sample that has these labels, once the gauges had their turn."""
    await mesh.clock.sleep(1.2)
    for family in mesh.replicas[instance].metrics.registry.collect():
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None
