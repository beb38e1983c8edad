"""A live tail: what comes is told once, what is too much is counted, and it ends with the right to see it."""

import asyncio

import pytest

from console.server.limits import TAIL_ROWS_MAX, TAILS_PER_SESSION_MAX
from tests.support.browser import Stream
from tests.support.console.stream_records import looked_at, write
from tests.unit.cli.mesh import virtual
from tests.unit.console.messages.test_rights import EVE, enforced

TAIL = "/api/messages/logs/tail"


async def took(stream: Stream, rows: int) -> tuple[list[str], int]:
    """The values of the next so many rows, and how many were skipped; a row and a skipped one count alike."""
    found: list[str] = []
    skipped = 0
    while len(found) + skipped < rows:
        event = (await stream.next("rows")).data
        found += [row["value_shown"]["text"] for row in event["rows"]]
        skipped += event["skipped"]
    return found, skipped


@virtual
async def test_what_comes_is_told_once_and_nothing_before() -> None:
    mesh = await looked_at(partitions=2)
    write(mesh, b"before")
    browser = await mesh.signed_in()
    async with browser.stream(TAIL) as stream:
        began = await stream.next("began")
        assert began.data["cli"] == "braid consume logs --from=latest -o json"
        await asyncio.sleep(1)
        for number in range(5):
            write(mesh, b"%d" % number, partition=number % 2)
            await asyncio.sleep(0.5)
        assert await took(stream, 5) == (list("01234"), 0)
        assert (await stream.next()).name == "heartbeat"


@virtual
async def test_a_tail_has_the_filters_of_the_page() -> None:
    mesh = await looked_at(partitions=2)
    browser = await mesh.signed_in()
    async with browser.stream(f"{TAIL}?filter=json.n>2&partition=1&form=hex") as stream:
        await stream.next("began")
        await asyncio.sleep(1)
        for number in range(6):
            write(mesh, b'{"n": %d}' % number, partition=number % 2)
        assert await took(stream, 2) == ([b'{"n": 3}'.hex(), b'{"n": 5}'.hex()], 0)
    for path, status in (("?filter=n", 400), ("?lane=bulk", 404), ("?limit=5", 400), ("?partition=9", 404)):
        assert (await browser.get(TAIL + path)).status == status


@virtual
async def test_a_slow_browser_is_told_what_it_missed() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    async with browser.stream(TAIL) as stream:
        await stream.next("began")
        await asyncio.sleep(1)
        for number in range(1_500):
            write(mesh, b"%d" % number)
            if number % 300 == 0:
                await asyncio.sleep(1)
        await asyncio.sleep(10)
        found, skipped = await took(stream, 1_500)
        assert len(found) + skipped == 1_500
        assert len(found) < TAIL_ROWS_MAX * 2 and skipped > 0
        assert found[-1] == "1499"
        assert len(set(found)) == len(found)


@virtual
async def test_more_than_is_looked_at_is_skipped_and_counted() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    async with browser.stream(f"{TAIL}?filter=value=last") as stream:
        await stream.next("began")
        await asyncio.sleep(1)
        for number in range(20_000):
            write(mesh, b"%d" % number)
        await asyncio.sleep(5)
        event = (await stream.next("rows")).data
        assert event["rows"] == [] and 15_000 < event["skipped"] < 20_000
        write(mesh, b"last")
        assert await took(stream, 1) == (["last"], 0)


@virtual
async def test_a_tail_follows_a_failover_and_tells_of_dead_clusters() -> None:
    mesh = await looked_at("east", "west")
    browser = await mesh.signed_in()
    async with browser.stream(TAIL) as stream:
        await stream.next("began")
        await asyncio.sleep(1)
        await mesh.shell.braid("move", "stream", "logs", "--to", "west")
        write(mesh, b"first there", topic="braid.logs.live.2", cluster="west")
        assert await took(stream, 1) == (["first there"], 0)
        mesh.kafka.deny("east")
        absent = (await stream.next("rows")).data["absent"]
        while not absent:
            absent = (await stream.next("rows")).data["absent"]
        assert absent[0]["cluster"] == "east"
        write(mesh, b"still there", topic="braid.logs.live.2", cluster="west")
        assert (await took(stream, 1))[0] == ["still there"]


@virtual
async def test_a_tail_ends_with_the_right_to_consume() -> None:
    mesh = await enforced()
    eve = await mesh.person("eve", EVE)
    assert (await eve.get(TAIL)).status == 403
    for role in ("consumer", "viewer"):  # who may still look at the stream may see no record of it
        await mesh.shell.braid("grant", role, "--to", EVE, "--on", "stream/logs")
    async with eve.stream(TAIL) as stream:
        await stream.next("began")
        await mesh.shell.braid("revoke", "consumer", "--from", EVE, "--on", "stream/logs")
        ended = await stream.next("end", seconds=20)
        assert ended.data["error"]["status"] == 403
        write(mesh, b"secret")
        with pytest.raises(AssertionError, match="is over"):
            await stream.next()


@virtual
async def test_tails_are_bounded_and_leave_nothing_behind() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    streams = [browser.stream(TAIL) for _ in range(TAILS_PER_SESSION_MAX)]
    for each in streams:
        await (await each.__aenter__()).next("began")
    assert (await browser.get(TAIL)).status == 429
    for each in streams:
        await each.__aexit__(None, None, None)
    await asyncio.sleep(1)
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if "tail" in name], names
    async with browser.stream(TAIL) as stream:
        await stream.next("began")
