"""A browser's tab at a console: when a page paints, how soon a change is seen, what scrolling costs, what it weighs."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import psutil
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from testbed.chromium import chromium_binary

LONG_MS: Final = 50.0  # a task of the page's thread that takes longer is felt
PATIENCE_MS: Final = 60_000.0
_SIZE: Final = {"width": 1280, "height": 720}
_CATEGORIES: Final = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel"]
_MAIN_THREAD: Final = "CrRendererMain"
_TASK: Final = "RunTask"
# Resolves at the first frame in which a text is shown somewhere among the elements; `seen` is by the wall clock.
_SHOWN: Final = """([selector, text]) => new Promise((resolve) => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].some((each) => each.textContent.includes(text));
    if (found) resolve({ sinceStart: performance.now(), seen: Date.now() });
    else requestAnimationFrame(look);
  };
  look();
})"""
# Content may be there before the frame that paints it.
_PAINT: Final = """() => new Promise((resolve) => {
  const look = () => {
    const painted = performance.getEntriesByName('first-contentful-paint')[0];
    if (painted) resolve(painted.startTime);
    else requestAnimationFrame(look);
  };
  look();
})"""


class Opened(NamedTuple):
    """How fast a page was there, milliseconds since it was asked for: its first paint, and its content."""

    paint_ms: float
    content_ms: float


class Scrolled(NamedTuple):
    """The tasks of the page's thread during a scroll, milliseconds each: by the wall, and of the processor's time."""

    wall_ms: list[float]
    cpu_ms: list[float]

    def long(self) -> int:
        """The number of tasks that are felt."""
        return sum(each > LONG_MS for each in self.wall_ms)

    def long_of_processor(self) -> int:
        """The number of tasks that would be felt on a machine that does nothing else."""
        return sum(each > LONG_MS for each in self.cpu_ms)


class Tab:
    """One tab of a browser that is signed in."""

    def __init__(self, browser: Browser, page: Page, address: str) -> None:
        self.page = page
        self._browser = browser
        self._address = address

    async def open(self, path: str, selector: str, text: str) -> Opened:
        """Loads a page, and waits until a text is shown."""
        await self.page.goto(self._address + path, wait_until="commit", timeout=PATIENCE_MS)
        found = await self.shown(selector, text)
        return Opened(float(await self.page.evaluate(_PAINT)), found["sinceStart"])

    async def sees(self, selector: str, text: str, change: Callable[[], Awaitable[None]]) -> float:
        """Makes a change that leads to a text; returns milliseconds from its end until the text is shown."""
        seeing = asyncio.ensure_future(self.shown(selector, text))
        await asyncio.sleep(0.1)  # the page looks by now
        assert not seeing.done(), f"{text!r} was shown before it was true"
        await change()
        changed_ms = time.time() * 1_000
        return (await seeing)["seen"] - changed_ms

    async def scroll(self, selector: str, steps: int, pixels: int, pause_seconds: float) -> Scrolled:
        """Turns the wheel over an element again and again, then jumps to its end and back; traces all of that."""
        await self._browser.start_tracing(page=self.page, categories=_CATEGORIES)
        await self.page.locator(selector).hover()
        for _ in range(steps):
            await self.page.mouse.wheel(0, pixels)
            await asyncio.sleep(pause_seconds)
        for place in ("each.scrollHeight", "each.scrollHeight / 2", "0"):
            await self.page.locator(selector).evaluate(f"(each) => {{ each.scrollTop = {place}; }}")
            await asyncio.sleep(pause_seconds * 10)
        return tasks_of(json.loads(await self._browser.stop_tracing()))

    async def heap_bytes(self) -> int:
        """Weighs what the page's scripts hold, after a collection of garbage."""
        session = await self.page.context.new_cdp_session(self.page)
        await session.send("HeapProfiler.collectGarbage")
        await session.send("Performance.enable")
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        await session.detach()
        return int(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize"))

    async def private_bytes(self) -> int:
        """Weighs the memory that the process of the page has for itself: its document, styles and scripts.

        The browser must have no other tab. Of its processes that draw pages, the largest is this one's.
        """
        session = await self._browser.new_browser_cdp_session()
        found = await session.send("SystemInfo.getProcessInfo")
        await session.detach()
        pids = [int(each["id"]) for each in found["processInfo"] if each["type"] == "renderer"]
        return max(int(psutil.Process(pid).memory_full_info().uss) for pid in pids)

    async def shown(self, selector: str, text: str) -> Mapping[str, float]:
        """Waits until a text is shown; returns when: since the page was asked for, and by the wall clock."""
        try:
            async with asyncio.timeout(PATIENCE_MS / 1_000):
                found: Mapping[str, float] = await self.page.evaluate(_SHOWN, [selector, text])
        except TimeoutError:
            shown = await self.page.locator("main").inner_text()
            raise TimeoutError(f"{text!r} was not shown at {selector}, but:\n{shown[:1_000]}") from None
        return found


def tasks_of(trace: Mapping[str, list[dict[str, object]]]) -> Scrolled:
    """The tasks of the busiest page's main thread. Raises `ValueError` for a trace without any."""
    events = trace["traceEvents"]
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == _MAIN_THREAD  # type: ignore[index]
    }
    tasks: dict[object, list[dict[str, object]]] = {}
    for each in events:
        thread = (each["pid"], each["tid"])
        if each["name"] == _TASK and each["ph"] == "X" and thread in mains:
            tasks.setdefault(thread, []).append(each)
    if not tasks:
        raise ValueError("the trace has no task of a page's thread")
    busiest = max(tasks.values(), key=len)
    wall, cpu = ([float(str(each.get(name, 0.0))) / 1e3 for each in busiest] for name in ("dur", "tdur"))
    return Scrolled(wall, cpu)


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_binary(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


class Visitor:
    """A signed-in user; each tab begins with an empty cache."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._cookies: object = None

    async def sign_in(self, link: str) -> None:
        """Opens a one-time link, and keeps the session."""
        context = await self._context()
        page = await context.new_page()
        await page.goto(link, timeout=PATIENCE_MS)
        self._cookies = await context.storage_state()
        await context.close()

    @contextlib.asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        """A new tab. Raises `AssertionError` where a script of the page failed."""
        context = await self._context()
        page = await context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        try:
            yield Tab(self._browser, page, self._address)
            assert not faults, faults
        finally:
            await context.close()

    async def _context(self) -> BrowserContext:
        return await self._browser.new_context(
            viewport=_SIZE,  # type: ignore[arg-type]
            locale="en-US",
            storage_state=self._cookies,  # type: ignore[arg-type]
        )
