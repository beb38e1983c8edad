"""Scenes in a mesh with its dlq service, and the end of a replay in them."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from braid.api.dlq.v1.replay_pb2 import (
    REPLAY_STATE_DONE,
    Replay,
)
from braid.kernel.errors import DeadlineExceeded
from tests.support.virtual_time import run_virtual
from tests.unit.dlq.mesh import Mesh


def play(directory: Path, scene: Callable[[Mesh], Awaitable[None]]) -> None:
    """Plays a scene in a fresh mesh; a task that dies anywhere fails it."""

    async def whole() -> None:
        mesh = await Mesh(directory).start()
        try:
            await scene(mesh)
        finally:
            assert not mesh.failures

    run_virtual(whole())


async def over(mesh: Mesh, id: str, state: int = REPLAY_STATE_DONE, seconds: float = 60.0) -> Replay:
    async def is_over() -> bool:
        try:
            return (await mesh.job(id)).status.state == state
        except DeadlineExceeded:  # the one asked is frozen
            return False

    await mesh.until(is_over, seconds)
    return await mesh.job(id)
