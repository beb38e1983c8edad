"""The console's page in a real browser, over an invented mesh with hostile names, a dead cluster and stale parts."""

import re
from typing import Final
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.console import documents
from tests.support.console.browsing import axe_violations, open_page, visit
from tests.support.console.recorded import RecordedServer
from tools import console_page

pytestmark = [pytest.mark.real, pytest.mark.untimed]


@pytest.mark.extended
def test_a_fresh_build_equals_the_committed_one() -> None:
    """The lock, the sources and the compiler make the same bytes on every machine."""
    console_page.compare()


def test_the_page_passes_its_own_tests() -> None:
    """Types and component tests of the page hold."""
    console_page.test()


def _moved() -> documents.Document:
    """`logs/bulk` fails over from west to east, which came back."""
    stream = next(each for each in documents.streams() if each["name"] == "logs")
    channels = stream["status"]["channels"]
    old = next(each for each in channels if each["name"] == "logs/bulk/3")
    old |= {"state": "draining", "weight": 0.0, "drain_step": "producers", "drain_holders": ["web-1"]}
    channels.append(documents.channel("logs", "bulk", 4, "east", "active"))
    return {"now_ms": documents.NOW_MS + 1_000, "parts": {"stream": {"value": stream}}}


def test_a_failover_bends_the_diagram_at_its_event(chromium: Browser, server: RecordedServer) -> None:
    """A delta of the route moves the lane's line, and nothing is loaded again."""
    with visit(chromium, server) as page:
        open_page(page, server, "/streams/logs")
        page.evaluate("document.body.dataset.kept = 'yes'")
        line = page.locator("path.route-flow").first
        before = line.get_attribute("d")
        server.tell(_moved())
        expect(page.locator(".chip", has_text="waits for producers: web-1")).to_have_count(2)
        assert line.get_attribute("d") != before
        assert page.evaluate("document.body.dataset.kept") == "yes"


_OUTSIDE: Final = """(texts) => texts.filter((text) => {
  const [own, screen] = [text.getBoundingClientRect(), document.documentElement.clientWidth];
  const box = text.parentElement.querySelector('rect').getBoundingClientRect();
  return own.left < box.left || own.right > box.right + 1 || own.right > screen;
}).map((text) => text.textContent)"""


# The channel at the end of a lane's line, by what the document says: both may still be on their way there.
_LED_TO: Final = """(line) => {
  const end = line.getAttribute('d').split(' ').at(-1);
  const height = (chip) => chip.querySelector('rect').height.baseVal.value;
  const middle = (chip) => parseFloat(chip.style.transform.split(',')[1]) + height(chip) / 2;
  return [...document.querySelectorAll('.route .chip')].find((chip) => middle(chip) === Number(end)).textContent;
}"""


def test_a_phone_shows_a_whole_route_without_sideways_scrolls(chromium: Browser, server: RecordedServer) -> None:
    """Lanes, clusters and channels are below each other. Each text is in its box, and lines follow a failover."""
    with visit(chromium, server, size="phone") as page:
        open_page(page, server, "/streams/logs")
        diagram = page.locator(".route-scroll")
        line, chips = page.locator("path.route-flow").first, page.locator(".route .chip")
        assert "active on west" in line.evaluate(_LED_TO)
        server.tell(_moved())
        expect(page.locator(".chip", has_text="waits for producers: web-1")).to_have_count(2)
        assert "active on east" in line.evaluate(_LED_TO)
        assert diagram.evaluate("(it) => it.scrollWidth <= it.clientWidth && it.scrollHeight <= it.clientHeight")
        assert page.locator(".route text").evaluate_all(_OUTSIDE) == []
        assert [text for text in chips.all_text_contents() if " on " not in text] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_paused_page_holds_its_moment(chromium: Browser, server: RecordedServer) -> None:
    """Space pauses; what came meanwhile is shown at the next one."""
    with visit(chromium, server) as page:
        open_page(page, server, "/streams/logs")
        page.keyboard.press("Space")
        server.tell(_moved())
        paused = page.locator(".clock button", has_text="paused")
        expect(paused).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".clock time")).to_have_text("14:00:00 UTC")
        paused.click()
        expect(page.locator(".clock time")).to_have_text("14:00:01 UTC")


def test_the_keyboard_goes_anywhere_and_comes_back(chromium: Browser, server: RecordedServer) -> None:
    """Ctrl-K, shortcuts and rows work without a mouse, and Escape gives the focus back."""
    with visit(chromium, server) as page:
        open_page(page, server, "/")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Control+k")
        page.keyboard.type("indexer")
        page.get_by_role("option", name="indexer").wait_for()
        page.keyboard.press("Enter")
        expect(page.locator("main h1")).to_have_text("indexer")
        page.keyboard.press("g")
        page.keyboard.press("s")
        expect(page.locator("main h1")).to_have_text("Streams")
        page.locator("tbody tr").first.wait_for()
        page.keyboard.press("j")
        expect(page.locator("tbody a.row-link").first).to_be_focused()
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Shortcuts").wait_for()
        assert axe_violations(page) == []
        page.keyboard.press("Escape")
        expect(page.locator("tbody a.row-link").first).to_be_focused()


def test_a_move_is_tried_before_it_is_made(chromium: Browser, server: RecordedServer) -> None:
    """The form shows its command; a dry run and the move itself are two requests."""
    with visit(chromium, server) as page:
        open_page(page, server, "/streams/logs")
        page.get_by_role("button", name="Move", exact=True).click()
        dialog = page.get_by_role("dialog", name="Move")
        dialog.get_by_label("to ").first.fill("east")
        expect(dialog.locator("code")).to_have_text("braid move logs --to east")
        assert axe_violations(page) == []
        dialog.get_by_role("button", name="Dry run").click()
        expect(dialog.get_by_role("status")).to_contain_text("nothing was changed")
        dialog.locator("button[type=submit]").click()
        expect(dialog.get_by_role("status")).to_contain_text("move is recorded")
    made = [body for path, body in server.requests if path == "/api/actions/move"]
    assert [body.get("dry_run") for body in made] == [True, None]
    assert made[0]["request_id"] != made[1]["request_id"]


_THEN: Final = "2026-01-29T14:03:00Z"  # before any clock that this test may run by


def test_the_whole_console_is_shown_as_of_a_moment(chromium: Browser, server: RecordedServer) -> None:
    """The moment stands in the address of every page; nothing is followed or changed, and what is absent says so."""
    with visit(chromium, server) as page:
        page.goto(f"{server.address}/?at={_THEN}")
        banner = page.get_by_role("region", name="The past is shown")
        expect(banner).to_contain_text("As of 29 Jan 2026, 14:03:00 UTC")
        expect(page.locator(".clock button")).to_contain_text("past")
        expect(page.locator(".clock time")).to_have_text("14:03:00 UTC")
        expect(page.locator(".figure", has_text="Alerts firing")).to_contain_text("not kept")
        expect(page.get_by_text("No alert is firing.")).to_have_count(0)
        expect(banner).to_contain_text("One history is not kept")
        assert axe_violations(page) == []
        page.get_by_role("link", name="Groups", exact=True).click()
        page.get_by_role("link", name="indexer").click()
        expect(page.locator("main h1")).to_have_text("indexer")
        assert f"at={_THEN}" in unquote(page.url)
        expect(page.get_by_role("button", name="Freeze")).to_be_disabled()
        assert axe_violations(page) == []
        page.get_by_role("link", name="Dead letters", exact=True).click()
        expect(page.get_by_role("heading", name="Not kept at this time")).to_be_visible()
        page.goto(f"{server.address}/streams/logs/messages?at={_THEN}")
        expect(page.get_by_role("heading", name="Not kept at this time")).to_be_visible()
        assert page.locator("main h1").all_inner_texts() == ["Not kept at this time"], "brokers are not asked"
        page.get_by_role("link", name="Events", exact=True).first.click()
        page.get_by_role("button", name="Back to now").click()
        expect(banner).to_have_count(0)
        page.locator(".clock button", has_text="live").wait_for()
        assert "at=" not in page.url
        assert not [path for path, _ in server.requests if path.startswith("/api/actions")]


def test_the_slider_goes_back_and_forth_by_keyboard(chromium: Browser, server: RecordedServer) -> None:
    """Arrow keys move the moment; the right end is now again. A moment that has not been is refused in words."""
    with visit(chromium, server) as page:
        open_page(page, server, "/events")
        slider = page.get_by_label("Moment that the console shows")
        slider.press("PageDown")
        expect(page.get_by_role("region", name="The past is shown")).to_be_visible()
        assert "at=" in page.url
        page.get_by_label("Moment that the console shows").press("End")
        page.locator(".clock button", has_text="live").wait_for()
        page.goto(f"{server.address}/streams?at=2126-01-01T00:00:00Z")
        expect(page.get_by_role("alert")).to_contain_text("has not been yet")
        page.goto(f"{server.address}/streams?at=noon")
        expect(page.get_by_role("alert")).to_contain_text("“noon” is no time")
        assert axe_violations(page) == []


def _many(page: Page) -> int:
    return page.locator("tbody tr").count()


def test_ten_thousand_groups_keep_the_document_small(chromium: Browser, server: RecordedServer) -> None:
    """Only rows in sight are in the document, and a filter finds any other."""
    rows = [documents.group(f"group-{number:05}", 1, 4, 0) for number in range(10_000)]
    with visit(chromium, server) as page:
        open_page(page, server, "/groups")
        server.tell({"now_ms": documents.NOW_MS, "parts": {"groups": {"set": rows}}})
        expect(page.locator(".table-count")).to_have_text("10,006")
        assert _many(page) < 100
        page.get_by_role("region", name="groups table").evaluate("(it) => it.scrollTo(0, 150000)")
        expect(page.locator("a.row-link", has_text="group-04").first).to_be_visible()
        assert _many(page) < 100
        page.keyboard.press("/")
        page.keyboard.type("group-09999")
        expect(page.locator("tbody a.row-link")).to_have_text(["group-09999"])
        assert page.url.endswith("?q=group-09999")


def test_paper_is_light_and_holds_every_row(chromium: Browser, server: RecordedServer) -> None:
    """A printed page leaves out buttons, names its mesh and moment, and is cut nowhere."""
    rows = [documents.group(f"group-{number:05}", 1, 4, 0) for number in range(300)]
    with visit(chromium, server, "dark") as page:
        open_page(page, server, "/groups")
        server.tell({"now_ms": documents.NOW_MS, "parts": {"groups": {"set": rows}}})
        expect(page.locator(".table-count")).to_have_text("306")
        assert _many(page) < 100
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert _many(page) == 306
        expect(page.locator(".only-print")).to_contain_text("as of 29 Nov 2026, 14:00:00 UTC")
        expect(page.locator("nav.side")).to_be_hidden()
        dark = "getComputedStyle(document.documentElement).colorScheme"
        assert page.evaluate(dark) == "light"
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(page.locator("tbody tr")).not_to_have_count(306)
        assert page.evaluate(dark) == "dark"


def test_an_incident_is_copied_with_its_lag(chromium: Browser, server: RecordedServer) -> None:
    """One Markdown holds a group's alerts, its lag as a line, and what happened to it, its streams and clusters."""
    with visit(chromium, server) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        open_page(page, server, "/groups/indexer")
        page.get_by_role("button", name="Copy as incident timeline").click()
        page.get_by_role("button", name="Copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
    assert "# Group indexer, 29 Nov 2026, 14:00:00 UTC" in text
    assert "indexer is 97 s behind on logs/live, its target is 5 s" in text
    assert "| logs/live | 1m37s |" in text
    assert "Traffic moved lane live moves from east to west" in text
    assert documents.HOSTILE not in text


_DRILL: Final = re.compile(
    r"^\| (?P<question>[^|]+\?) \| (?P<clicks>\*\*[^|]+) \| `(?P<answer>[^`]+)` \|$", re.MULTILINE
)
_CLICKS_MAX: Final = 3


def _click(page: Page, name: str) -> None:
    """Clicks a link or button of that name, or the first whose name begins so."""
    exact = page.get_by_role("link", name=name, exact=True).or_(page.get_by_role("button", name=name, exact=True))
    begins = re.compile("^" + re.escape(name).replace("/", r"\/"))  # the browser reads it between slashes
    either = page.get_by_role("link", name=begins).or_(page.get_by_role("button", name=begins))
    either.first.wait_for()
    (exact if exact.count() else either).first.click()


def test_on_call_questions_are_three_clicks_away(chromium: Browser, server: RecordedServer) -> None:
    """Each path of the guide, from the overview on, ends where its answer is read."""
    guide = (console_page.ROOT / "docs/guides/on-call.md").read_text(encoding="utf-8")
    rows = list(_DRILL.finditer(guide))
    assert len(rows) == 10
    for row in rows:
        clicks = re.findall(r"\*\*([^*]+)\*\*", row["clicks"])
        assert len(clicks) <= _CLICKS_MAX, row["question"]
        with visit(chromium, server) as page:
            open_page(page, server, "/")
            for name in clicks:
                _click(page, name)
            shown = page.locator("main").get_by_text(row["answer"]).filter(visible=True).first
            expect(shown, row["question"]).to_be_visible()
