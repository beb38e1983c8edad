"""The newest events of all services: the same whether replicas find them or, in older releases, list all there are."""

from collections.abc import Mapping
from unittest.mock import patch

from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest
from braid.kernel.errors import Invalid
from braid.rpc.documents import Document, Value
from braid.runtime import rpc_service
from braid.runtime.histories.aggregates import Aggregates
from console.server.live.parts import Content, Table
from console.server.reads import events
from console.server.reads.events import newest_events, page_back
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
            shown_now, old = found["events"], older["events"]
            assert isinstance(shown_now, Table) and shown_now.rows and shown_now.more == (most == 3)
            assert isinstance(old, Table) and (old.rows, older["gaps"]) == (shown_now.rows, found["gaps"])
    await reader.close()


@virtual
async def test_pages_back_show_every_event_once_newest_first() -> None:
    shell = await started()
    for number in range(12):
        assert (await shell.braid("create", "stream", f"s-{number}", "--lane", "live=1")).code == 0
    reader = ConsoleMesh(shell).reader()
    whole = await page_back(reader, {"service": "registry"})
    for source in (Aggregates, _OlderSource):
        with patch.object(rpc_service, "Aggregates", source), patch.object(events, "EVENTS_MAX", 30):
            assert await every_page(reader) == [each["key"] for each in rows(whole)]
    await reader.close()


async def every_page(reader: Reader) -> list[Value]:
    """Keys of the events of all pages back, in the order in which they are shown."""
    keys: list[Value] = []
    token = ""
    while True:
        page = await page_back(reader, {"service": "registry", "page_token": token})
        keys += [each["key"] for each in rows(page)]
        token = str(page["next_page_token"])
        if not token:
            return keys


def rows(page: Document) -> list[Document]:
    """The events of a page."""
    found = page["events"]
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, dict)]


@virtual
async def test_a_moment_of_more_events_than_a_page_is_told() -> None:
    shell = await started()
    assert (await shell.braid("create", "stream", "clicks", "--lane", "live=1")).code == 0
    reader = ConsoleMesh(shell).reader()
    with patch.object(events, "EVENTS_MAX", 1):
        page = await page_back(reader, {"service": "registry"})
    assert rows(page) and "more events of one moment" in str(page["gaps"])
    await reader.close()


@virtual
async def test_a_replica_that_refuses_a_moment_is_asked_anew() -> None:
    shell = await started()
    assert (await shell.braid("create", "stream", "clicks", "--lane", "live=1")).code == 0
    reader = ConsoleMesh(shell).reader()
    found = await page_back(reader, {"service": "registry"})
    token = {"service": "registry", "page_token": str(rows(found)[0]["time_ms"])}
    asked = await page_back(reader, token)
    newer = reader.pages

    async def older(
        service: str, method: str, request: ListEventsRequest, *others: object, **more: object
    ) -> tuple[list[EventRecord], bool]:
        if request.newest and request.until_ms:
            raise Invalid("the newest events are those of now", field="newest", remedy="ask for `latest`")
        return await newer(service, method, request, *others, **more)  # type: ignore[arg-type]

    with patch.object(reader, "pages", older):
        assert rows(await page_back(reader, token)) == rows(asked) != []
    await reader.close()
