"""Events of all services, the newest and older ones: each once, whatever a filter leaves out, and of older releases."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from unittest.mock import patch

from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse
from braid.kernel.audit.forms import Reads
from braid.rpc.documents import Document, Value
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.histories import newest
from console.server.live.parts import Content, Table
from console.server.reads import events
from console.server.reads.events import newest_events, page_back
from console.server.reads.reader import Reader
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.console.test_calls import started

Items = Callable[[ListEventsResponse], list[EventRecord]]
ADA = "spiffe://braid.local/user/ada"


def of_older_releases(reader: Reader) -> AbstractContextManager[object]:
    """Reads as of replicas that take no heed of `newest`."""
    newer = reader.pages

    async def pages(
        service: str, method: str, request: ListEventsRequest, *others: object, **more: object
    ) -> tuple[list[EventRecord], bool]:
        old = ListEventsRequest()
        old.CopyFrom(request)
        old.newest = 0
        return await newer(service, method, old, *others, **more)  # type: ignore[arg-type]

    return patch.object(reader, "pages", pages)


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
            with of_older_releases(reader):
                older = await shown(reader, most, wanted)
            shown_now, old = found["events"], older["events"]
            assert isinstance(shown_now, Table) and shown_now.rows and shown_now.more == (most == 3)
            assert isinstance(old, Table) and (old.rows, older["gaps"]) == (shown_now.rows, found["gaps"])
    await reader.close()


@virtual
async def test_pages_back_show_every_event_once_newest_first() -> None:
    reader = ConsoleMesh(await with_streams()).reader()
    expected = [_key(each) for each in await every_event(reader, "registry")]
    with patch.object(events, "EVENTS_MAX", 30):
        assert await every_page(reader, {"service": "registry"}) == expected
        with of_older_releases(reader):
            assert await every_page(reader, {"service": "registry"}) == expected
    await reader.close()


@virtual
async def test_pages_back_show_every_event_that_a_filter_matches() -> None:
    reader = ConsoleMesh(await with_streams()).reader()
    whole = await every_event(reader, "registry")
    actors = Counter(each.metadata.actor for each in whole)
    assert len(actors) > 1
    half_ms = str(whole[len(whole) // 2].metadata.time_ms)
    wanted: list[Mapping[str, str]] = [{"actor": actor} for actor in actors]
    wanted += [{"since_ms": half_ms}, {"history": "stream"}, {"actor": min(actors), "since_ms": half_ms}]
    for searched, seconds in ((20, 0.0), (20, 8.0), (5_000, 0.0)):
        for params in wanted:
            expected = [_key(each) for each in whole if fits(each, params)]
            with (
                patch.multiple(newest, EVENTS_SEARCHED_MAX=searched, EVENTS_FIRST_READ=12, LOADS_AT_ONCE=2),
                patch.object(events, "EVENTS_MAX", 12),
                patch.object(events, "EVENTS_SEARCH_SECONDS", seconds),
            ):
                assert await every_page(reader, {"service": "registry", **params}) == expected, params
                with of_older_releases(reader):
                    assert await every_page(reader, {"service": "registry", **params}) == expected, params
    await reader.close()


@virtual
async def test_a_page_without_a_match_says_how_far_it_looked() -> None:
    reader, asked = ConsoleMesh(await started()).reader(), list[ListEventsRequest]()

    async def nothing(
        service: str,
        method: str,
        request: ListEventsRequest,
        kind: object,
        items: Items,
        *others: object,
        **more: object,
    ) -> tuple[list[EventRecord], bool]:
        asked.append(request)
        await reader.host.clock.sleep(1.0)
        return items(ListEventsResponse(since_ms=2_000_000, more=True)), False

    with patch.object(reader, "pages", nothing), patch.object(events, "EVENTS_SEARCH_SECONDS", 0.001):
        page = await page_back(reader, {"service": "registry", "actor": "ann"})
        assert (rows(page), page["next_page_token"]) == ([], "1999999")
        await page_back(reader, {"refused": "1"})
        await shown(reader, 7, {"refused": "1"})
    assert [each.latest for each in asked] == [0, 0, 7], "all refused calls are looked for in the past alone"
    await reader.close()


@virtual
async def test_refused_calls_behind_many_others_are_found() -> None:
    shell = Shell()
    shell.access, shell.audit = AccessSettings(AccessMode.ENFORCED, frozenset({ADA})), AuditSettings(Reads.ALL)
    shell.principals["cli"] = ADA
    await shell.start("east")
    mesh = ConsoleMesh(shell)
    eve = await mesh.person("eve", "spiffe://braid.local/user/eve")
    await eve.get("/api/views/clusters")
    await shell.me.host.clock.sleep(5.0)
    for _ in range(30):
        assert (await shell.braid("get", "clusters")).code == 0
        await shell.me.host.clock.sleep(2.0)
    ada = await mesh.person("ada", ADA)
    refused, token, first = dict[object, object](), "", True
    with patch.object(events, "EVENTS_MAX", 5):
        while token or first:
            found = (await ada.get(f"/api/events?refused=1&page_token={token}")).json
            refused |= {each["key"]: each["data"].get("rpc") for each in found["events"]}
            token, first = found["next_page_token"], False
    assert "ListClusters" in refused.values()


async def with_streams() -> Shell:
    """A mesh with many events."""
    shell = await started()
    for number in range(12):
        assert (await shell.braid("create", "stream", f"s-{number}", "--lane", "live=1")).code == 0
    return shell


async def every_event(reader: Reader, service: str) -> list[EventRecord]:
    """All events of a service, listed history by history, then put in order: newest first."""
    request = ListEventsRequest()
    found, _ = await reader.pages(service, "ListEvents", request, ListEventsResponse, lambda page: page.events)
    return sorted(found, key=lambda each: (-each.metadata.time_ms, each.history, -each.sequence))


def fits(record: EventRecord, params: Mapping[str, str]) -> bool:
    """Whether an event is one that a page's parameters ask for."""
    return (
        params.get("actor", record.metadata.actor) == record.metadata.actor
        and record.metadata.time_ms >= int(params.get("since_ms", "0"))
        and record.history.startswith(f"registry/{params.get('history', '')}")
    )


def _key(record: EventRecord) -> str:
    return f"{record.history}#{record.sequence}"


async def every_page(reader: Reader, params: Mapping[str, str]) -> list[Value]:
    """Keys of the events of all pages back, in the order in which they are shown."""
    keys: list[Value] = []
    token = ""
    while True:
        page = await page_back(reader, {**params, "page_token": token})
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
    (shown_last,) = {each["time_ms"] for each in rows(page)}
    assert "more events of one moment" in str(page["gaps"])
    assert int(str(page["next_page_token"])) < int(str(shown_last)), "the next page looks further back"
    await reader.close()


@virtual
async def test_more_events_than_are_read_of_an_older_release_are_told() -> None:
    reader = ConsoleMesh(await with_streams()).reader()
    with of_older_releases(reader), patch.object(events, "EVENTS_READ_MAX", 20):
        page = await page_back(reader, {"service": "registry", "since_ms": "1"})
    assert "narrow the filter" in str(page["gaps"])
    await reader.close()
