"""Everybody can use the console's pages: axe finds nothing in any look, and the keyboard reaches every control."""

from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.console.browsing import LOOKS, PAGES, SIZES, Theme, axe_violations, open_page, visit
from tests.support.console.recorded import RecordedServer, recorded_console
from tests.support.console.states import STATES

pytestmark = [pytest.mark.real, pytest.mark.untimed]
# One look for each page and state: all four come about over them.
_PLACES: Final = [*PAGES, *STATES]
_SLICE: Final = [(name, *LOOKS[place % len(LOOKS)]) for place, name in enumerate(_PLACES)]
# Rows of a long table come into the document as the keyboard comes to them.
_TABS_MAX: Final = 600
# How far what is in sight moves without an action: beyond a tenth, people press the wrong thing.
_SHIFT_MAX: Final = 0.1
_SHIFTS: Final = """() => {
    window.shifted = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((it) => { window.shifted += it.value; }))
        .observe({type: "layout-shift", buffered: true});
}"""
# Marks what the keyboard must reach; rows that are out of sight are not in the document.
_MARK: Final = """() => {
    const scope = document.querySelector("dialog[open]") ?? document;
    const found = [...scope.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
        .filter((it) => !it.disabled && it.tabIndex >= 0 && it.checkVisibility({visibilityProperty: true}));
    found.forEach((it, place) => { it.dataset.reach = place; });
    return found.map((it) => it.outerHTML.slice(0, 120));
}"""
_REACHED: Final = "() => document.activeElement?.dataset?.reach ?? ''"


def _open(page: Page, server: RecordedServer, name: str) -> None:
    if name in PAGES:
        open_page(page, server, PAGES[name])
    else:
        STATES[name](page, server)


def _judge(chromium: Browser, server: RecordedServer, looks: list[tuple[str, Theme, str]]) -> None:
    found = []
    for name, theme, size in looks:
        with visit(chromium, server, theme, size) as page:
            _open(page, server, name)
            found += [f"{name} {theme} {size}: {each}" for each in axe_violations(page)]
            width = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{name} {size} is {width} pixels wide"] if width > SIZES[size][0] else []
            assert page.title().endswith("Braid")
    assert not found, "\n".join(found)


def test_pages_are_accessible_in_one_look_each(chromium: Browser, server: RecordedServer) -> None:
    """Axe finds nothing, no page scrolls sideways, and no hostile name becomes markup."""
    _judge(chromium, server, _SLICE)


@pytest.mark.extended
def test_pages_are_accessible_in_every_look(chromium: Browser, server: RecordedServer) -> None:
    """Axe finds nothing on any page or dialog, nor in the past, in both themes and sizes."""
    _judge(chromium, server, [(name, *look) for name in _PLACES for look in LOOKS])


@pytest.mark.parametrize(
    ("theme", "size"), [LOOKS[0], *(pytest.param(*look, marks=pytest.mark.extended) for look in LOOKS[1:])]
)
def test_sign_in_says_how_and_is_accessible(chromium: Browser, theme: Theme, size: str) -> None:
    """Without a session the page names all ways in and what went wrong, whatever address was asked for."""
    with recorded_console(signed_in=False) as server, visit(chromium, server, theme, size) as page:
        page.goto(f"{server.address}/streams/logs?sign_in=expired")
        expect(page.get_by_role("alert").first).to_contain_text("five minutes")
        expect(page.get_by_role("alert").nth(1)).to_contain_text("access_denied")
        expect(page.locator("code", has_text="braid open")).to_be_visible()
        way = page.get_by_role("link", name="Sign in with Example login")
        expect(way).to_have_attribute("href", "/oidc/start?to=%2Fstreams%2Flogs")
        assert axe_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        assert _unreached(page) == []


def _unreached(page: Page) -> list[str]:
    """Returns controls that Tab does not come to, going once around the page or the open dialog."""
    controls: list[str] = page.evaluate(_MARK)
    assert controls
    left = {str(place): text for place, text in enumerate(controls)}
    for _ in range(_TABS_MAX):
        left.pop(page.evaluate(_REACHED), None)
        if not left:
            break
        page.keyboard.press("Tab")
    return [*left.values()]


def _walk(chromium: Browser, server: RecordedServer, names: list[str]) -> None:
    found = []
    for name in names:
        with visit(chromium, server) as page:
            _open(page, server, name)
            found += [f"{name}: {each}" for each in _unreached(page)]
    assert not found, "\n".join(found)


def test_the_keyboard_reaches_what_dialogs_hold(chromium: Browser, server: RecordedServer) -> None:
    """Tab goes around within each dialog, and past nothing."""
    _walk(chromium, server, [*STATES])


@pytest.mark.extended
def test_the_keyboard_reaches_every_control(chromium: Browser, server: RecordedServer) -> None:
    """Tab comes to every link, button and field of every page: nothing holds the focus."""
    _walk(chromium, server, [*PAGES])


def test_a_control_that_tab_does_not_reach_is_seen(chromium: Browser, server: RecordedServer) -> None:
    """A page that keeps the focus in one place fails the walk."""
    with visit(chromium, server) as page:
        open_page(page, server, "/streams")
        page.evaluate(
            "() => document.querySelector('input.filter').addEventListener('keydown', (it) => it.preventDefault())"
        )
        assert _unreached(page)


def test_what_comes_pushes_nothing_down(chromium: Browser, server: RecordedServer) -> None:
    """The first answer of a page moves nothing that a person may be about to press."""
    found = []
    for name, path in PAGES.items():
        with visit(chromium, server) as page:
            page.add_init_script(f"({_SHIFTS})()")
            open_page(page, server, path)
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            shifted: float = page.evaluate("window.shifted")
            found += [f"{name}: {shifted:.2f}"] if shifted > _SHIFT_MAX else []
    assert not found, found


def test_every_action_opens_and_closes_by_keyboard(chromium: Browser, server: RecordedServer) -> None:
    """Enter opens an action's form, the focus is in it, and Escape gives the focus back to its button."""
    tried = 0
    for name in ("stream", "group", "cluster", "alerts", "inbox", "letter", "replays", "access"):
        with visit(chromium, server) as page:
            open_page(page, server, PAGES[name])
            for button in page.locator("main button[aria-haspopup=dialog]:enabled").all():
                button.focus()
                page.keyboard.press("Enter")
                page.locator("dialog[open]").wait_for()
                assert page.evaluate("document.activeElement.closest('dialog[open]') !== null"), name
                page.keyboard.press("Escape")
                expect(page.locator("dialog[open]")).to_have_count(0)
                expect(button).to_be_focused()
                tried += 1
    assert tried >= 12
