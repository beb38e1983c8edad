"""A browser at the invented mesh's console, and what it must never do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from testbed.chromium import chromium_binary
from tests.support.console.recorded import RecordedServer
from tools import console_page

Theme = Literal["light", "dark"]
PAGES: Final = {
    "overview": "/",
    "groups": "/groups",
    "group": "/groups/indexer?lease=logs/live/7/3",
    "streams": "/streams",
    "stream": "/streams/logs",
    "messages": "/streams/logs/messages",
    "tail": "/streams/logs/messages?show=tail",
    "message": "/streams/logs/messages?record=logs/live/7/0@900",
    "clusters": "/clusters",
    "cluster": "/clusters/east",
    "alerts": "/alerts?resolved=1",
    "events": "/events",
    "inbox": "/dead-letters",
    "letters": "/dead-letters?show=letters",
    "letter": "/dead-letters/logs/2/0/1",
    "replays": "/replays",
    "spark": "/spark",
    "pathways": "/pathways",
    "access": "/access",
    "lease": "/leases/logs/live/7/3",
}
LOOKS: Final[list[tuple[Theme, str]]] = [("light", "desk"), ("dark", "desk"), ("light", "phone"), ("dark", "phone")]
SIZES: Final = {"desk": (1280, 720), "phone": (390, 844)}
_PATIENCE_MS: Final = 60_000  # how long a test waits for what it expects; it judges no time, and others run beside it
_AXE: Final = Path("console/page/node_modules/axe-core/axe.min.js")


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium_binary(), args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def visit(started: Browser, server: RecordedServer, theme: Theme = "light", size: str = "desk") -> Iterator[Page]:
    """A page that fails the test if it logs an error, breaks, or asks another host for anything."""
    width, height = SIZES[size]
    # Without a language in its environment Chromium calls its own one by a tag that `Intl` refuses.
    context = started.new_context(viewport={"width": width, "height": height}, color_scheme=theme, locale="en-US")
    context.set_default_timeout(_PATIENCE_MS)
    expect.set_options(timeout=_PATIENCE_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(server.address) else faults.append(request.url))
    try:
        yield page
        assert not faults, faults
    finally:
        context.close()


def open_page(page: Page, server: RecordedServer, path: str) -> None:
    """Opens an address, and waits until its view is live."""
    page.goto(server.address + path)
    page.locator("main h1").wait_for()
    page.locator(".clock button", has_text="live").wait_for()


def axe_violations(page: Page) -> list[str]:
    """Lists the faults that axe finds on the page as it is, one line for each element."""
    console_page.packages()
    page.evaluate((console_page.ROOT / _AXE).read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)")
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
