"""The newest events of all services: the same whether replicas find them or, in older releases, list all there are."""

from collections.abc import Mapping
from unittest.mock import patch

from braid.runtime import rpc_service
from console.server.live.parts import Content, Table
from console.server.reads.events import newest_events
from console.server.reads.reader import Reader
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import virtual
from tests.unit.console.test_calls import started


class _OlderSource:
    """No source of events is one of these: so replicas take no heed of `newest`, as older releases do."""


async def shown(reader: Reader, most: int, params: Mapping[str, str]) -> Mapping[str, Content]:
    """The parts of the newest events."""
    return await newest_events(most).take(reader, params)


@virtual
async def test_older_replicas_that_list_all_show_the_same_events() -> None:
    shell = await started()
    for name in ("clicks", "orders"):
        assert (await shell.braid("create", "stream", name, "--lane", "live=1")).code == 0
    reader = ConsoleMesh(shell).reader()
    params: tuple[Mapping[str, str], ...] = ({}, {"history": "stream"}, {"history": "stream/clicks"})
    for most in (3, 500):
        for wanted in params:
            found = await shown(reader, most, wanted)
            with patch.object(rpc_service, "Aggregates", _OlderSource):
                older = await shown(reader, most, wanted)
            events, old = found["events"], older["events"]
            assert isinstance(events, Table) and events.rows and events.more == (most == 3)
            assert isinstance(old, Table) and (old.rows, older["gaps"]) == (events.rows, found["gaps"])
    await reader.close()
