"""A failover watched in a browser: a cluster dies under traffic, and the page's diagram moves."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from playwright.async_api import Page, async_playwright, expect

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest, GetStreamRequest
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_ACTIVE, Channel, LaneSpec, Stream, StreamSpec
from devmesh.mesh import DevMesh
from testbed.chromium import chromium_binary
from testbed.patience import until
from tests.support.console.browsing import SIZES

LANES: Final = {"live": 4, "bulk": 2}
SEEN_SECONDS: Final = 120.0
_PACE_SECONDS: Final = 0.02
# Notes when the diagram first has an active channel on a cluster.
_NOTICE: Final = """cluster => {
    const look = () => {
        const titles = [...document.querySelectorAll(".chip title")].map((it) => it.textContent);
        const there = titles.some((it) => it.includes(` on ${cluster},`) && it.includes(": active,"));
        if (there) window.noticed ??= Date.now();
    };
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
    look();
}"""


class Watched(NamedTuple):
    """A failover that was watched.

    Attributes:
        frames: Pictures by moment, as PNG.
        behind_seconds: From the registry's event to the diagram that shows it.
        sent: Records that were acknowledged meanwhile.
        events: The page of the stream's events afterwards, as text.
    """

    frames: Mapping[str, bytes]
    behind_seconds: float
    sent: int
    events: str


async def watched_failover(mesh: DevMesh, stream: str) -> Watched:
    """Creates a stream, sends to it, kills the cluster that carries it, and watches its page until it has returned."""
    ready = mesh.ready
    async with braid.connect(ready.endpoint, client_id="test", tls=ready.user_tls) as client:
        spec = StreamSpec(
            lanes={name: LaneSpec(partitions=count) for name, count in LANES.items()}, replication_factor=1
        )
        request = CreateStreamRequest(name=stream, spec=spec)
        await client.service("registry").unary("CreateStream", request, Stream, timeout_seconds=120.0)
        carrier = (await _active(client, stream))[0].cluster
        async with _page(mesh, stream) as page, _traffic(client, stream) as sent:
            await expect(page.locator(".chip title", has_text=f" on {carrier},").first).to_be_attached()
            frames = {"before": await page.screenshot(animations="disabled")}
            other = next(name for name in ready.clusters if name != carrier)
            await page.evaluate(_NOTICE, other)
            await mesh.kill(carrier)
            moved_to = page.locator(".chip title", has_text=re.compile(f" on {other}, .*: active,")).first
            await expect(moved_to).to_be_attached(timeout=SEEN_SECONDS * 1_000)
            frames["moved"] = await page.screenshot(animations="disabled")
            moved = [each for each in await _active(client, stream) if each.cluster == other]
            noticed_ms = await page.evaluate("window.noticed")
            at_move = sent.count
            await until(lambda: sent.count > at_move, "records after the move", SEEN_SECONDS)
            await mesh.start(carrier)
            column = page.locator(".route-column", has_text=carrier)
            await expect(column).to_contain_text("healthy", timeout=SEEN_SECONDS * 1_000)
            frames["returned"] = await page.screenshot(animations="disabled")
            events = await _events(page, stream)
    behind = (noticed_ms - min(each.state_since_ms for each in moved)) / 1_000
    return Watched(frames, behind, sent.count, events)


async def _active(client: braid.Mesh, stream: str) -> list[Channel]:
    """The stream's active channels, one at least for each lane."""
    found: list[Channel] = []

    async def routed() -> bool:
        told = await client.service("registry").unary("GetStream", GetStreamRequest(name=stream), Stream)
        found[:] = [each for each in told.status.channels if each.state == CHANNEL_STATE_ACTIVE and each.lane in LANES]
        return {each.lane for each in found} >= {*LANES}

    await until(routed, f"a route of each lane of {stream}", SEEN_SECONDS)
    return found


@asynccontextmanager
async def _page(mesh: DevMesh, stream: str) -> AsyncIterator[Page]:
    """The stream's page in a browser that opened the link of `braid open`."""
    braid_command = (sys.executable, "-c", "from braid.cli import main; main()")
    command = [*braid_command, "open", f"stream/{stream}", "--dir", mesh.ready.dir]
    link = await asyncio.to_thread(subprocess.check_output, command, text=True)
    width, height = SIZES["desk"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_binary(), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": width, "height": height})
        try:
            await page.goto(link.strip())
            await expect(page.locator("main h1")).to_contain_text(stream)
            yield page
        finally:
            await browser.close()


class _Sent:
    """How many records were acknowledged."""

    def __init__(self) -> None:
        self.count = 0


@asynccontextmanager
async def _traffic(client: braid.Mesh, stream: str) -> AsyncIterator[_Sent]:
    """Sends records one after another until the end; one that is not acknowledged fails the test."""
    sent, ending = _Sent(), asyncio.Event()

    async def send() -> None:
        async with client.producer(stream) as producer:
            while not ending.is_set():
                await producer.send(b"%d" % sent.count, lane="live")
                sent.count += 1
                await asyncio.sleep(_PACE_SECONDS)

    sending = asyncio.ensure_future(send())
    try:
        yield sent
    finally:
        ending.set()
        await sending


async def _events(page: Page, stream: str) -> str:
    """The text of the page of the stream's events, once it names a move."""
    address = page.url.partition("/streams/")[0]
    await page.goto(f"{address}/events?history=stream/{stream}")
    rows = page.locator("main")
    await expect(rows).to_contain_text("Traffic moved")
    return await rows.inner_text()
