"""A lag monitor of 45,000 groups of 22 partitions that is killed and started again: `python -m bench.lag_restart`.

Registry, assigner and lag monitor run as real processes over real gRPC and one SQLite store. Their clusters are in
memory, filled to that size (`bench.harness.twins`). The lag monitor begins with checkpoints of the commits. A restart
takes until pages of `ListLag` hold a fresh row of each lane that they held before. The time in which the process fills
its clusters is left out, for a real one has them elsewhere. `--units` is the number of groups.
"""

import asyncio
import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from bench.harness.arguments import Asked, asked
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.harness.twins.mesh import READY_SECONDS, TwinMesh, mesh_directory
from bench.harness.twins.service import FILLING, NOTES
from bench.harness.twins.shape import CLUSTERS, PARTITIONS, Shape
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import BraidError
from braid.kernel.limits.names import PAGE_SIZE_MAX
from testbed.patience import Deadline

AIM_SECONDS: Final = 60.0
QUICK_WATCHED_SECONDS: Final = 2.0
WATCHED_SECONDS: Final = 20.0  # with the whole view, for pauses of a process that has loaded everything
_POLL_SECONDS: Final = 1.0  # each look has a table of all rows computed


class View(NamedTuple):
    """The sum of all pages of `ListLag`.

    Attributes:
        lanes: Rows: lanes of groups.
        whole: Whether no row is stale, and no cluster is missing.
    """

    lanes: int
    whole: bool


@dataclass
class Found:
    """The figures of a run.

    Attributes:
        seconds: Of each restart, by figure: of the wall, and of the lag monitor's CPU.
        lanes: Rows of the whole view.
        pauses_ms: CPU of full garbage collections while restarts read everything, and afterwards.
        bytes: Of each lag monitor with the whole view.
    """

    seconds: dict[str, list[Sample]] = field(default_factory=dict)
    lanes: int = 0
    pauses_ms: dict[str, list[float]] = field(default_factory=dict)
    bytes: list[int] = field(default_factory=list)

    def add(self, figure: str, seconds: float, cpu_seconds: float = 0.0) -> None:
        """Adds a measurement."""
        self.seconds.setdefault(figure, []).append(Sample(1, cpu_seconds, seconds))
        print(f"{figure}: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU", file=sys.stderr, flush=True)


async def contest(how: Asked) -> Table:
    """Fills the mesh, and restarts its lag monitor again and again."""
    shape, found, deadline = Shape(how.units), Found(), Deadline(1.0)
    watched = QUICK_WATCHED_SECONDS if how.quick else WATCHED_SECONDS
    with mesh_directory() as directory:
        mesh = TwinMesh(shape, directory)
        try:
            await mesh.fill()
            for number in range(how.rounds + 1):
                mesh.services["lagmon"].kill()
                found.lanes = await _start(mesh, found if number else Found(), found.lanes, watched)
        finally:
            await mesh.close()
    return table(shape, found, mesh.steps, deadline.share, "void: a quick run" if how.quick else "")


async def _start(mesh: TwinMesh, found: Found, lanes: int, watched_seconds: float) -> int:
    """Starts the lag monitor, waits until its view has all lanes, and looks on; returns their number.

    Args:
        mesh: All its services but the lag monitor run.
        found: Takes the figures.
        lanes: The number in the view before: fewer are not the whole view.
        watched_seconds: For which it looks on.
    """
    began = time.monotonic()
    await mesh.begin(mesh.services["lagmon"])
    served, process = time.monotonic(), psutil.Process(mesh.services["lagmon"].pid)
    filling, filled = (next(note["at"] for note in notes(mesh.directory) if what in note) for what in FILLING)
    began += filled - filling
    view = await _whole_view(mesh, lanes)
    ended, took = time.monotonic(), sum(process.cpu_times()[:2])
    found.add("serves", served - began)
    found.add("has the whole view", ended - began, took)
    found.add("fills its clusters, left out", filled - filling)
    found.pauses_ms.setdefault("until the whole view", []).extend(pauses(mesh.directory, served, ended))
    await asyncio.sleep(watched_seconds)
    found.pauses_ms.setdefault("afterwards", []).extend(pauses(mesh.directory, ended, math.inf))
    found.bytes.append(process.memory_info().rss)
    return view.lanes


def pauses(directory: Path, after: float, until: float) -> list[float]:
    """CPU milliseconds of full garbage collections of the lag monitor's process between two times."""
    found = [note for note in notes(directory) if "paused" in note and after < note["at"] <= until]
    return [note["paused"] * 1e3 for note in found]


async def _whole_view(mesh: TwinMesh, lanes: int) -> View:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(BraidError):
            if await mesh.last_is_fresh() and (view := await _view(mesh)).whole and view.lanes >= lanes:
                return view
        await asyncio.sleep(_POLL_SECONDS)
    raise TimeoutError(f"not within {READY_SECONDS:g} s: the whole view")


async def _view(mesh: TwinMesh) -> View:
    """Reads all pages."""
    lanes, fresh, token = 0, True, ""
    while True:
        request = api.ListLagRequest(detail=lag_pb2.LAG_DETAIL_LANE, page_size=PAGE_SIZE_MAX, page_token=token)
        page = await mesh.lag(request)
        lanes += len(page.lags)
        fresh = fresh and not page.catching_up and not any(each.stale for each in page.lags)
        token = page.next_page_token
        if not token or not fresh:
            return View(lanes, fresh and lanes >= mesh.shape.groups)


def notes(directory: Path) -> list[Mapping[str, float]]:
    """Returns the notes that the lag monitor's process made of itself since it started."""
    lines = (directory / "lagmon-0" / NOTES).read_text().splitlines()
    return [json.loads(line) for line in lines]


def table(shape: Shape, found: Found, steps: Mapping[str, float], share: float, verdict: str) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    made = rows(found.seconds, next(iter(found.seconds)), "wall", without_peer=found.seconds)
    facts = {
        "work": f"{shape.groups:,} groups of {PARTITIONS} partitions on {CLUSTERS} clusters, {found.lanes:,} lanes in "
        f"the whole view; the machine gave {share:.0%} of its time",
        "aim": f"the whole view {AIM_SECONDS:g} s after a kill",
        "memory": f"{max(found.bytes, default=0) / 1e6:.0f} MB at the most, the clusters in its process included",
        **{f"CPU of full garbage collections, {when}": _told(paused) for when, paused in found.pauses_ms.items()},
        "before": ", ".join(f"{name} after {seconds:.0f} s" for name, seconds in steps.items()),
    }
    return Table("lag_restart", "restart", "wall", verdict, facts, made, made_with())


def _told(paused_ms: Sequence[float]) -> str:
    return f"{len(paused_ms)}, the longest {max(paused_ms, default=0.0):.0f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    how = asked(__doc__, units=45_000, quick_units=500, arguments=arguments)
    asyncio.run(contest(how)).publish(how.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
