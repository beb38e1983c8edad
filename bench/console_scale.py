"""The console before 45,000 groups with 990,000 leases on 10 clusters: `python -m bench.console_scale`.

Registry, assigner, lag monitor, dlq and console run as real processes over real gRPC and one SQLite store. Their
clusters are in memory, filled to that size (`bench.harness.twins`). A real Chromium opens pages. The tool measures when
a page paints, and how long a change of lag or of a group takes to be seen. It counts long tasks while a table is
scrolled, and weighs the console and the tab. `--units` is the number of groups.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import psutil

from bench.harness.arguments import Asked, asked
from bench.harness.console_tab import LONG_MS, Scrolled, Tab, Visitor, chromium
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.harness.twins.mesh import TwinMesh, mesh_directory, serving
from bench.harness.twins.shape import CLUSTERS, LOG_RECORDS, PARTITIONS, Shape, group_name
from testbed.patience import Deadline

PAINT_AIM_MS: Final = 1_000.0
UPDATE_AIM_MS: Final = 1_000.0
SERVER_AIM_MB: Final = 300.0
TAB_AIM_MB: Final = 200.0
TIMELINE_EVENTS: Final = 40_000
QUICK_EVENTS: Final = 1_000
WATCHED: Final = 1  # the group that changes; its stream has the same number
WHEEL: Final = (60, 700, 0.05)  # turns, pixels each, seconds between two
_MEMORY_SECONDS: Final = 0.2
_GROUPS: Final = "table[aria-label='groups'] tbody"
_EVENTS: Final = "table[aria-label='events'] tbody"
_SCROLLED: Final = "[aria-label='groups table']"
_OLDER: Final = ".buttons button:not([disabled])"


class Shown(NamedTuple):
    """A page, and where its content is known by which text."""

    path: str
    selector: str
    text: str


def pages(shape: Shape) -> Mapping[str, Shown]:
    """The pages that are opened."""
    group = group_name(WATCHED)
    return {
        "overview": Shown("/", ".figures", f"among {shape.all_groups:,} groups"),
        "groups": Shown("/groups", _GROUPS, "group-"),
        "a group": Shown(f"/groups/{group}", "table[aria-label='leases'] tbody", "stream-"),
        "streams": Shown("/streams", "table[aria-label='streams'] tbody", "stream-"),
        "events": Shown("/events", f"{_EVENTS} button", ""),
    }


@dataclass
class Found:
    """The figures of a run.

    Attributes:
        ms: By figure, milliseconds.
        scrolls: By table, what scrolling it cost.
        heap_bytes: By page, what its tab held.
        server_bytes: What the console's process held at the most.
        events: Events in the timeline.
    """

    ms: dict[str, list[float]] = field(default_factory=dict)
    scrolls: dict[str, Scrolled] = field(default_factory=dict)
    heap_bytes: dict[str, int] = field(default_factory=dict)
    server_bytes: int = 0
    events: int = 0

    def add(self, figure: str, ms: float) -> None:
        """Adds a measurement."""
        self.ms.setdefault(figure, []).append(ms)
        print(f"{figure}: {ms:.0f} ms", file=sys.stderr, flush=True)


async def contest(how: Asked) -> Table:
    """Fills the mesh, and plays all pages."""
    shape, found, deadline = Shape(how.units), Found(), Deadline(1.0)
    with mesh_directory() as directory:
        mesh = TwinMesh(shape, directory)
        async with serving(mesh), chromium() as browser, _weighed(mesh, found):
            visitor = Visitor(browser, mesh.address)
            await visitor.sign_in(mesh.sign_in("/access"))
            await _open_pages(shape, visitor, how.rounds, found)
            await _see_changes(mesh, visitor, how.rounds, found)
            await _scroll_groups(shape, visitor, found)
            await _scroll_timeline(visitor, QUICK_EVENTS if how.quick else TIMELINE_EVENTS, found)
            steps = dict(mesh.steps)
    return table(shape, found, steps, deadline.share, "void: a quick run" if how.quick else "")


async def _open_pages(shape: Shape, visitor: Visitor, rounds: int, found: Found) -> None:
    for number in range(rounds + 1):
        for name, page in pages(shape).items():
            async with visitor.tab() as tab:
                opened = await tab.open(*page)
                if number:  # the first round finds nothing that was read before
                    found.add(f"{name}: first paint", opened.paint_ms)
                    found.add(f"{name}: its content", opened.content_ms)
                elif name == "groups":
                    found.add("groups: its content, at the first visit", opened.content_ms)
                if number == rounds:
                    found.heap_bytes[name] = await tab.heap_bytes()


async def _see_changes(mesh: TwinMesh, visitor: Visitor, rounds: int, found: Found) -> None:
    """Changes lag and a group, and waits for either on the page of all groups and on the group's own."""
    name, records = group_name(WATCHED), 0
    line, lease = f"{_GROUPS} tr", "table[aria-label='leases'] tbody tr"
    async with visitor.tab() as all_groups, visitor.tab() as one:
        await all_groups.open(f"/groups?q={name}", line, name)
        await one.open(*pages(mesh.shape)["a group"])
        for number in range(rounds + 1):
            change = _Change(mesh, 1_000 * (number + 1), frozen=number % 2 == 0)
            records += change.records
            among = await all_groups.sees(line, f"{records:,}", change.append)
            state = "frozen" if change.frozen else "live"
            changed = await all_groups.sees(f"{line} td:nth-child(2)", state, change.freeze)
            records += change.records
            own = await one.sees(lease, f"{records:,}", change.append)
            if number:  # at first the lag monitor looks at what it never saw
                found.add("lag changed, seen among all groups", among)
                found.add("group changed, seen among all groups", changed)
                found.add("lag changed, seen on the group's page", own)


@dataclass
class _Change:
    mesh: TwinMesh
    records: int
    frozen: bool

    async def append(self) -> None:
        await self.mesh.append(WATCHED, self.records)

    async def freeze(self) -> None:
        await self.mesh.freeze(group_name(WATCHED), self.frozen)


async def _scroll_groups(shape: Shape, visitor: Visitor, found: Found) -> None:
    async with visitor.tab() as tab:
        await tab.open("/groups", _GROUPS, "group-")
        found.scrolls["groups"] = await tab.scroll(_SCROLLED, *WHEEL)
        last = f"tr[aria-rowindex='{shape.all_groups + 1}']:not(.coming)"  # behind the heading

        async def jump() -> None:
            await tab.page.locator(_SCROLLED).evaluate("(each) => { each.scrollTop = each.scrollHeight; }")

        found.add("groups: the last row after a jump", await tab.sees(last, "", jump))


async def _scroll_timeline(visitor: Visitor, wanted: int, found: Found) -> None:
    """Loads older events up to a number, then scrolls through all of them."""
    async with visitor.tab() as tab:
        await tab.open("/events", f"{_EVENTS} button", "")
        found.events = await _count(tab)
        while found.events < wanted:
            await tab.page.get_by_role("button", name="Load older events").click()
            await tab.shown(_OLDER, "Load older events")
            found.events = await _count(tab)
        found.scrolls["timeline"] = await tab.scroll("[aria-label='events table']", *WHEEL)
        found.heap_bytes["timeline"] = await tab.heap_bytes()


async def _count(tab: Tab) -> int:
    text = await tab.page.locator(".table-count").inner_text()
    return int(text.split()[0].replace(",", ""))


@contextlib.asynccontextmanager
async def _weighed(mesh: TwinMesh, found: Found) -> AsyncIterator[None]:
    """Notes the most memory that the console's process takes while the block runs."""
    process = psutil.Process(mesh.console.pid)

    async def look() -> None:
        while True:
            found.server_bytes = max(found.server_bytes, process.memory_info().rss)
            await asyncio.sleep(_MEMORY_SECONDS)

    looking = asyncio.ensure_future(look())
    try:
        yield
    finally:
        looking.cancel()


def table(shape: Shape, found: Found, steps: Mapping[str, float], share: float, verdict: str) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    samples = {name: [Sample(1, 0.0, max(ms, 0.1) / 1e3) for ms in taken] for name, taken in found.ms.items()}
    made = rows(samples, next(iter(samples)), "wall", without_peer=samples)
    facts = {
        "work": f"{shape.groups:,} groups with {shape.leases:,} leases, {len(shape.streams):,} streams, {CLUSTERS} "
        f"clusters, {LOG_RECORDS} records in each of {len(shape.streams) * PARTITIONS:,} logs at first; "
        f"the machine gave {share:.0%} of its time",
        "aims": f"first paint < {PAINT_AIM_MS:g} ms, a change seen < {UPDATE_AIM_MS:g} ms, no task > {LONG_MS:g} ms in "
        f"a scroll, console < {SERVER_AIM_MB:g} MB, tab < {TAB_AIM_MB:g} MB",
        "console": f"{found.server_bytes / 1e6:.0f} MB at the most",
        "tab": ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in found.heap_bytes.items()),
        "timeline": f"{found.events:,} events",
        **{f"scroll of {name}": told(scrolled) for name, scrolled in found.scrolls.items()},
        "start": ", ".join(f"{name} after {seconds:.0f} s" for name, seconds in steps.items()),
    }
    return Table("console_scale", "figure", "wall", verdict, facts, made, made_with())


def told(scrolled: Scrolled) -> str:
    """The tasks of a scroll in words."""
    return (
        f"{scrolled.long()} of {len(scrolled.wall_ms):,} tasks took more than {LONG_MS:g} ms, "
        f"{scrolled.long_of_processor()} so much of the processor; the longest took {max(scrolled.wall_ms):.0f} ms, "
        f"of the processor {max(scrolled.cpu_ms):.0f} ms"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    how = asked(__doc__, units=45_000, quick_units=500, arguments=arguments)
    asyncio.run(contest(how)).publish(how.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
