"""Groups whose commits are fenced by generations that their members are lent."""

from collections.abc import Coroutine
from typing import Any

from braid.kernel.ports import Committed, Generation, TopicPartition
from services.assigner.model.events import GenerationBumped
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant

TOPIC = "braid.logs.live.1"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def fenced(members: int = 2, assigners: int = 1, channels: tuple[str, ...] = ("logs/live/1",)) -> Mesh:
    """A settled mesh whose group is fenced."""
    mesh = await Mesh().start(assigners, channels)
    for number in range(1, members + 1):
        Participant(mesh, f"web-{number}", fenced=True, lease_ms=1_000)
    await mesh.settled(members)
    return mesh


async def commit(mesh: Mesh, generation: Generation | None, offset: int = 9) -> None:
    """Somebody commits on east."""
    offsets = mesh.kafka.cluster("east:9092", "").offsets()
    await offsets.commit("indexer", {TopicPartition(TOPIC, 0): Committed(offset, "")}, generation)


def newest(participant: Participant, cluster: str = "east") -> Generation:
    """The generation that a member would commit with."""
    return participant.lent_generations[cluster][-1]


async def bumps(mesh: Mesh) -> list[GenerationBumped]:
    """All of the history."""
    return [event for event in await mesh.events() if isinstance(event, GenerationBumped)]
