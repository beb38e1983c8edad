"""States of the console's pages beyond their addresses: a dialog is open, a menu, a moment of the past, or nobody is
signed in."""

from collections.abc import Callable, Mapping
from typing import Final

from playwright.sync_api import Page, expect

from tests.support.console.browsing import open_page
from tests.support.console.recorded import RecordedServer

PAST: Final = "2026-01-29T14:03:00Z"  # before any clock that a test may run by
_PAST_PAGES: Final = ("/", "/streams", "/streams/logs", "/groups", "/groups/indexer", "/clusters/east", "/events")
State = Callable[[Page, RecordedServer], None]


def _dialog(path: str, button: str) -> State:
    def opened(page: Page, server: RecordedServer) -> None:
        open_page(page, server, path)
        page.locator("main").get_by_role("button", name=button).first.click()
        page.locator("dialog[open]").wait_for()

    return opened


def _pressed(path: str, keys: str) -> State:
    def opened(page: Page, server: RecordedServer) -> None:
        open_page(page, server, path)
        page.keyboard.press(keys)
        page.locator("dialog[open]").wait_for()

    return opened


def _past(path: str) -> State:
    def opened(page: Page, server: RecordedServer) -> None:
        page.goto(f"{server.address}{path}?at={PAST}")
        expect(page.get_by_role("region", name="The past is shown")).to_be_visible()
        page.locator(".clock button", has_text="past").wait_for()

    return opened


def _event(page: Page, server: RecordedServer) -> None:
    open_page(page, server, "/events")
    page.get_by_role("button", name="Traffic moved").first.click()
    page.get_by_role("region", name="Event", exact=True).wait_for()


def _absent(page: Page, server: RecordedServer) -> None:
    page.goto(f"{server.address}/nowhere")
    page.locator("main h1").wait_for()


STATES: Final[Mapping[str, State]] = {
    "move": _dialog("/streams/logs", "Move"),
    "replay": _dialog("/dead-letters", "Replay"),
    "reset": _dialog("/groups/indexer", "Reset progress"),
    "silence": _dialog("/alerts", "Silence"),
    "cordon": _dialog("/clusters/east", "Cordon"),
    "produce": _dialog("/streams/logs/messages", "Produce"),
    "palette": _pressed("/", "Control+k"),
    "shortcuts": _pressed("/", "?"),
    "event": _event,
    "no such page": _absent,
    **{f"past of {path}": _past(path) for path in _PAST_PAGES},
}
