"""Calls of one refresh of a page, counted where they leave the console."""

from collections import Counter
from typing import Any, Final
from unittest.mock import patch

from braid.kernel.errors import HistoryHole, NotFound
from braid.rpc.mesh_client import ServiceClient
from console.server.reads import reader
from console.server.views import VIEWS
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

CALLS_MAX: Final = 2  # of one refresh of a page
# Pages that need more, and how many: such a page may not come to need another, nor a page be here that needs none.
MORE: Final = {
    "overview": 9,  # two lists of the registry, groups, lag, alerts, and the events of four services
    "stream": 5,
    "group": 6,  # and one more every ten seconds, for members' loads
    "cluster": 3,
    "events": 4,  # each service knows its own histories alone
    "access": 3,
    "search": 3,
}
_NAMED: Final = {"stream": "logs", "cluster": "east", "group": "none", "dead-letter": "none"}


async def called(view: str, at_ms: int, mesh: ConsoleMesh) -> Counter[str]:
    """The calls of one refresh of a page, by method."""
    calls: Counter[str] = Counter()

    class Counted(ServiceClient):
        async def unary(self, method: str, *args: Any, **named: Any) -> Any:
            calls[method] += 1
            return await super().unary(method, *args, **named)

    params = {"name": _NAMED[view]} if view in _NAMED else {}
    if at_ms:
        params["at_ms"] = str(at_ms)
    with patch.object(reader, "ServiceClient", Counted):
        reads = mesh.reader()
    for each in VIEWS[view].view(params).reads:
        try:
            await each.take(reads, params)
        except (NotFound, HistoryHole):
            assert view in _NAMED or at_ms, view
    await reads.close()
    return calls


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
