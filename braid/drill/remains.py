"""Drills that were killed: their streams and groups are found by their marks, and removed."""

from collections.abc import Sequence

from braid.drill.control import Control
from braid.kernel.errors import BraidError
from braid.kernel.limits.drill import DRILL_YOUNG_SECONDS


async def find_remains(control: Control, now_ms: int, *, young_too: bool = False) -> Sequence[str]:
    """Drills that nobody plays any more: their processes have left their groups.

    Args:
        control: The way to the mesh.
        now_ms: Wall time, as streams' creation times are.
        young_too: Also those that may only be starting.
    """
    marked = [each for each in await control.streams() if each.spec.HasField("drill")]
    old = [each for each in marked if young_too or now_ms - each.create_time_ms >= DRILL_YOUNG_SECONDS * 1_000]
    return [each.name for each in old if not await control.members(each.name)]


async def remove_remains(control: Control, names: Sequence[str]) -> Sequence[str]:
    """Removes them; what could not be removed is left for the next time. Returns those that are gone."""
    gone: list[str] = []
    for name in names:
        try:
            await control.remove(name, False, "nobody played it any more: it was killed")
        except BraidError:
            continue
        gone.append(name)
    return gone
