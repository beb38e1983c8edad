"""Calls of one refresh of a page, counted where they leave the console."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

from braid.kernel.errors import HistoryHole, NotFound
from braid.kernel.ports import Clock
from braid.rpc.mesh_client import ServiceClient
from console.server.limits import FAST_POLL_SECONDS
from console.server.live.feed import Feed
from console.server.reads import reader
from console.server.reads.reader import Reader
from console.server.views import VIEWS
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

CALLS_MAX: Final = 2  # of one refresh of a page
# Pages that need more, and how many: such a page may not come to need another, nor a page be here that needs none.
MORE: Final = {
    "overview": 4,  # one for each service: the events of all are on it
    "stream": 3,  # of three services: what it is, who reads it, how far behind
    "events": 4,  # each service knows its own histories alone
}
_NAMED: Final = {"stream": "logs", "cluster": "east", "group": "none", "dead-letter": "none", "lease": "logs/live/1/0"}


class Calls:
    """The calls that leave a console, by the moment and the method."""

    def __init__(self, clock: Clock) -> None:
        self.made: list[tuple[float, str]] = []
        made = self.made

        class Counted(ServiceClient):
            async def unary(self, method: str, *args: Any, **named: Any) -> Any:
                made.append((clock.elapsed(), method))
                return await super().unary(method, *args, **named)

        self.client = Counted

    def reader(self, mesh: ConsoleMesh) -> Reader:
        """A reader whose calls are counted."""
        with patch.object(reader, "ServiceClient", self.client):
            return mesh.reader()


def named(view: str) -> dict[str, str]:
    """The parameters of a page that needs some."""
    return {VIEWS[view].required[0]: _NAMED[view]} if view in _NAMED else {}


async def called(view: str, at_ms: int, mesh: ConsoleMesh) -> Counter[str]:
    """The calls of one refresh of a page, by method."""
    calls = Calls(mesh.shell.me.host.clock)
    params = named(view)
    if at_ms:
        params["at_ms"] = str(at_ms)
    reads = calls.reader(mesh)
    found = await asyncio.gather(
        *(each.take(reads, params) for each in VIEWS[view].view(params).reads), return_exceptions=True
    )
    for each in found:
        assert isinstance(each, Mapping) or (isinstance(each, NotFound | HistoryHole) and (view in _NAMED or at_ms))
    await reads.close()
    return Counter(method for _, method in calls.made)


async def started() -> Shell:
    """A mesh with every service, whose lists fit a page."""
    shell = await Shell().start("east", "west")
    await shell.replica("lagmon-0")
    await shell.replica("dlq-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    await shell.me.host.clock.sleep(1.0)
    return shell


@virtual
async def test_a_refresh_of_a_page_is_two_calls_at_the_most() -> None:
    mesh = ConsoleMesh(await started())
    for view in VIEWS:
        calls = await called(view, 0, mesh)
        most = MORE.get(view, CALLS_MAX)
        assert 0 < calls.total() <= most, (view, calls)
        assert view not in MORE or calls.total() > CALLS_MAX, f"{view} needs no exception any more"


@virtual
async def test_a_page_of_the_past_costs_no_more_than_the_present_one() -> None:
    shell = await started()
    mesh = ConsoleMesh(shell)
    at_ms = shell.me.host.clock.now_ms()
    await shell.me.host.clock.sleep(1.0)
    for view, kind in VIEWS.items():
        if kind.past is not None:
            calls = await called(view, at_ms, mesh)
            assert calls.total() <= MORE.get(view, CALLS_MAX), (view, calls)


@virtual
async def test_a_page_that_is_watched_goes_on_with_as_few_calls() -> None:
    """Reads of a page stay together, however often each is due: no moment sees more calls than one refresh."""
    mesh = ConsoleMesh(await started())
    clock = mesh.shell.me.host.clock
    for view, kind in VIEWS.items():
        calls = Calls(clock)
        reads = calls.reader(mesh)
        params = named(view)
        feed = Feed(mesh.shell.me.host, kind.view(params), params, reads)
        begun = clock.elapsed()
        feed.start()
        await clock.sleep(10.2)
        feed.end()
        moments = Counter(int((at - begun + 0.05) / FAST_POLL_SECONDS) for at, _ in calls.made)
        assert len(moments) > 1 and max(moments.values()) <= MORE.get(view, CALLS_MAX), (view, moments)
        await reads.close()
