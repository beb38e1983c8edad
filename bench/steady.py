"""Whether steady load is left alone, and how soon a hog is answered: `python -m bench.steady` (`--units` minutes).

Two members, each on a core of its own, compute for every record. For ten minutes nothing changes: nothing may move.
Then something else computes on one of the two cores, and takes half of it: the member's partitions cost more there,
and some of them must go to the other. Once it ends, they come back; a round is from the hog to the first hand-over.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import braid
from bench.harness.arguments import Asked, asked
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN
from braid.kernel.limits.assigner.placement import LOAD_SETTLE_SECONDS
from devmesh.mesh import DevMesh
from testbed.members.loaded_group import BUSY, HOG_PART_MIN, MEMBERS, PARTITIONS, LoadedGroup, loaded_group
from testbed.mesh import running_mesh
from testbed.patience import Deadline

MINUTES: Final = 10
QUICK_SECONDS: Final = 10.0
HOGGED: Final = "a hog on a member's core, until a partition of it has moved"
SHIFT_SECONDS: Final = 15.0
HOGS: Final = 3
BACK_SECONDS: Final = 600.0  # peaks of costs fade within a minute or two, then as much moves back as a minute may
TOLD_SECONDS: Final = 30.0


async def left_alone(group: LoadedGroup, seconds: float) -> int:
    """How many partitions move in so many seconds of steady load."""
    before, ends = group.released(), time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        print(f"{left:.0f} s of steady load to go, {group.released() - before} moved", file=sys.stderr, flush=True)
        await asyncio.sleep(min(left, TOLD_SECONDS))
    return group.released() - before


async def answered(group: LoadedGroup, hogs: int) -> tuple[list[float], float]:
    """Hogs the first member's core so often.

    Returns:
        How long each took to be answered, in seconds; the least part of the core that a hog got.
    """
    took: list[float] = []
    part = 1.0
    for number in range(hogs):
        if number:
            await group.until(lambda: len(set(group.counts())) == 1, BACK_SECONDS)
            await group.come_to_rest()
        async with group.hogged(MEMBERS[0]) as hog:
            took.append(await group.relieved(MEMBERS[0], 4 * SHIFT_SECONDS))
            part = min(part, hog.part)
        print(f"answered after {took[-1]:.1f} s: {group.counts()}", file=sys.stderr, flush=True)
    return took, part


async def play(local: DevMesh, directory: Path, how: Asked) -> Table:
    """Plays steady load, then the hogs."""
    seconds = QUICK_SECONDS if how.quick else how.units * 60.0
    async with (
        braid.connect(local.ready.endpoint) as mesh,
        loaded_group(mesh, directory, local.ready.endpoint) as group,
    ):
        await asyncio.sleep(LOAD_SETTLE_SECONDS)
        deadline = Deadline(1.0)
        moved = await left_alone(group, seconds)
        took, part = await answered(group, 1 if how.quick else HOGS)
        share = deadline.share
    facts = {
        "work": f"2 members of a core each, {BUSY:.0%} busy, {PARTITIONS} partitions; "
        f"the machine gave {share:.0%} of its time",
        "moved by steady load": f"{moved} in {seconds:g} s (aim 0)",
        "answered": f"{max(took):.1f} s at worst of {len(took)} (aim <= {SHIFT_SECONDS:g}); "
        f"a hog got {part:.0%} of its core at least",
    }
    quiet = share >= SHARE_MIN and part >= HOG_PART_MIN
    void = "" if quiet else f"void: the machine gave {share:.0%} of its time, and a hog {part:.0%} of its core"
    samples = {HOGGED: [Sample(1, 0.0, each) for each in took]}
    return Table("steady", "hog", "wall", void, facts, rows(samples, HOGGED, "wall", samples), made_with())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when it is void."""
    how = asked(__doc__, units=MINUTES, quick_units=1)
    with (
        tempfile.TemporaryDirectory(prefix="braid-bench-") as directory,
        running_mesh(Path(directory) / "mesh", clusters=("east",), registries=1, assigners=1) as local,
    ):
        table = asyncio.run(play(local, Path(directory), how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
