"""Finds drills that were killed, by the marks of their streams, and removes their streams and groups."""

from collections.abc import Sequence

from braid.drill.control import Control
from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.drill import DRILL_YOUNG_SECONDS


async def find_remains(control: Control, now_ms: int, *, young_too: bool = False) -> Sequence[str]:
    """Drills that nobody runs any more: their processes have left their groups.

    Args:
        control: Access to the mesh.
        now_ms: Wall time, as in streams' creation times.
        young_too: Include drills that may only be starting.
    """
    marked = [each for each in await control.streams() if each.spec.HasField("drill")]
    old = [each for each in marked if young_too or now_ms - each.create_time_ms >= DRILL_YOUNG_SECONDS * 1_000]
    return [each.name for each in old if not await control.members(each.name)]


async def remove_remains(control: Control, names: Sequence[str]) -> Sequence[str]:
    """Removes drills' remains and returns those that are gone; others are left for the next run."""
    gone: list[str] = []
    for name in names:
        try:
            await control.remove(name, False, "nobody played it any more: it was killed")
        except BraidError:
            continue
        gone.append(name)
    return gone
