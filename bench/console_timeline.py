"""A timeline of 40,000 events in a browser, while more happens: `python -m bench.console_timeline`.

Registry, assigner, lag monitor, dlq and console run as real processes over one SQLite store with a few groups, which
were frozen and released again and again. A real Chromium opens the page of events, and loads older ones until all are
there. Then a group is frozen or released twice a second, while the table is scrolled: each decision is one more event,
which the page adds to all others. The tool counts long tasks of the page, and weighs its tab. `--units` is the number
of events.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, cast

from bench.console_scale import TAB_AIM_MB, WHEEL, told
from bench.harness.arguments import Asked, asked
from bench.harness.console_tab import LONG_MS, Scrolled, Tab, Visitor, chromium
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.harness.twins.mesh import TwinMesh, mesh_directory, serving
from bench.harness.twins.shape import Shape, group_name
from braid.host.system import system_host
from braid.kernel.decider import Context
from braid.kernel.ports import Endpoint, EventStore, HistoryId, Host
from braid.kernel.ports.store import Leader
from braid.runtime.histories.fold import Fold
from braid.runtime.opening import open_store
from services.assigner.model.group import Group
from services.assigner.model.rules import FreezeGroup
from services.assigner.reconciler.group_loop import GROUPS
from testbed.patience import Deadline

LOADED: Final = "500 older events loaded"
CHANGED: Final = "a decision, seen above all others"
CHANGE_SECONDS: Final = 0.5
GROUPS_LONG: Final = 10
APPENDED_AT_ONCE: Final = 100  # the store takes 120 in one append
SESSION_SECONDS: Final = 600.0
_EVENTS: Final = "table[aria-label='events'] tbody"
_SCROLLED: Final = "[aria-label='events table']"
_BUTTON: Final = "Load older events"
_OLDER: Final = ".buttons button:not([disabled])"


class Found(NamedTuple):
    """The figures of a run.

    Attributes:
        loads_ms: How long each further page of events took to be shown.
        changes_ms: How long a decision took to be shown.
        scroll: What scrolling cost.
        events: How many the table has.
        heap_bytes, private_bytes: What scripts hold, and what the page's process has for itself.
    """

    loads_ms: list[float]
    changes_ms: list[float]
    scroll: Scrolled
    events: int
    heap_bytes: int
    private_bytes: int


class LongMesh(TwinMesh):
    """An invented mesh whose groups have long histories.

    Attributes:
        each: Decisions of each group.
    """

    def __init__(self, each: int, directory: Path) -> None:
        super().__init__(Shape(GROUPS_LONG), directory)
        self.each = each

    async def _write_groups(self) -> None:
        await super()._write_groups()
        host = system_host()
        store = open_store(self._store, host)
        try:
            session = await store.open_session(SESSION_SECONDS)
            leader = await store.campaign(Endpoint("assigner", "assigner-0", "127.0.0.1:1"), session)
            for number in range(self.shape.groups):
                await self._lengthen(host, store, leader, HistoryId("assigner", GROUPS.name, group_name(number)))
            await store.resign(leader)
        finally:
            await store.close()

    async def _lengthen(self, host: Host, store: EventStore, leader: Leader, history: HistoryId) -> None:
        """Appends decisions, as the assigner makes them: the group is frozen, then released, and so on."""
        loaded = await store.load(history)
        fold = Fold(history, GROUPS.erased())
        fold.apply(1, loaded.events, 0)
        state, sequence = cast("Group", fold.state), loaded.sequence
        for start in range(0, self.each, APPENDED_AT_ONCE):
            made: list[bytes] = []
            for number in range(start, min(start + APPENDED_AT_ONCE, self.each)):
                context = Context(host.clock.now_ms(), "bench", leader_epoch=leader.fence.revision)
                for event in GROUPS.decider.decide(state, FreezeGroup(number % 2 == 0, "bench"), context):
                    state = GROUPS.decider.evolve(state, event, context)
                    made.append(GROUPS.codec.encode(event, context))
            await store.append(history, made, sequence, leader.fence)
            sequence += len(made)


async def contest(how: Asked) -> Table:
    """Fills the mesh, loads everything, and scrolls."""
    deadline = Deadline(1.0)
    with mesh_directory() as directory:
        mesh = LongMesh(-(-how.units // GROUPS_LONG), directory)
        async with serving(mesh), chromium() as browser:
            visitor = Visitor(browser, mesh.address)
            await visitor.sign_in(mesh.sign_in("/access"))
            async with visitor.tab() as tab:
                found = await _play(mesh, tab, how)
    return table(mesh.shape, found, deadline.share, "void: a quick run" if how.quick else "")


async def _play(mesh: TwinMesh, tab: Tab, how: Asked) -> Found:
    await tab.open("/events", f"{_EVENTS} button", "")
    loads = await _load(tab, how.units)
    changes = [await _see_change(mesh, tab, number) for number in range(how.rounds)]
    async with _changing(mesh):
        scroll = await tab.scroll(_SCROLLED, *WHEEL)
    return Found(loads, changes, scroll, await _count(tab), await tab.heap_bytes(), await tab.private_bytes())


async def _load(tab: Tab, wanted: int) -> list[float]:
    """Loads older events until the table has `wanted` of them; returns the milliseconds of each page."""
    took = []
    while await _count(tab) < wanted:
        begun = time.perf_counter()
        await tab.page.get_by_role("button", name=_BUTTON).click()
        await tab.shown(_OLDER, _BUTTON)
        took.append((time.perf_counter() - begun) * 1e3)
    return took


async def _see_change(mesh: TwinMesh, tab: Tab, number: int) -> float:
    """Freezes another group, and waits until the table shows it on top."""
    name = group_name(number)
    return await tab.sees(f"{_EVENTS} tr", f"group/{name}", lambda: mesh.freeze(name, True))


@contextlib.asynccontextmanager
async def _changing(mesh: TwinMesh) -> AsyncIterator[None]:
    """Freezes a group and lets it go, again and again, while the block runs."""

    async def change() -> None:
        for number in count():
            await mesh.freeze(group_name(mesh.shape.groups - 1), number % 2 == 0)
            await asyncio.sleep(CHANGE_SECONDS)

    changing = asyncio.ensure_future(change())
    try:
        yield
        assert not changing.done(), "what was to change during the scroll ended before it"
    finally:
        changing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await changing


async def _count(tab: Tab) -> int:
    text = await tab.page.locator(".table-count").inner_text()
    return int(text.split()[0].replace(",", ""))


def table(shape: Shape, found: Found, share: float, verdict: str) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    taken = {LOADED: found.loads_ms, CHANGED: found.changes_ms}
    samples = {name: [Sample(1, 0.0, max(ms, 0.1) / 1e3) for ms in each] for name, each in taken.items() if each}
    facts = {
        "work": f"{found.events:,} events of {shape.groups:,} groups in one table, and two more each second; "
        f"the machine gave {share:.0%} of its time",
        "aims": f"no task > {LONG_MS:g} ms in a scroll, tab < {TAB_AIM_MB:g} MB",
        "scroll": told(found.scroll),
        "tab": f"{found.heap_bytes / 1e6:.0f} MB held by scripts; the process has {found.private_bytes / 1e6:.0f} MB",
    }
    made = rows(samples, CHANGED, "wall", without_peer=samples)
    return Table("console_timeline", "figure", "wall", verdict, facts, made, made_with())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    how = asked(__doc__, units=40_000, quick_units=1_500, arguments=arguments)
    asyncio.run(contest(how)).publish(how.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
