"""The Messages page in a real browser, over an invented mesh whose records somebody hostile wrote."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console.browsing import axe_violations, open_page, visit
from tests.support.console.documents import HOSTILE
from tests.support.console.message_answers import TRACE, followed
from tests.support.console.recorded import RecordedServer

pytestmark = [pytest.mark.real, pytest.mark.untimed]
PATH = "/streams/logs/messages"


def test_a_record_is_opened_by_the_keyboard_and_read_as_text(chromium: Browser, server: RecordedServer) -> None:
    """Hostile values are text, marks that turn it are shown by their code, and Escape closes the record."""
    with visit(chromium, server) as page:
        open_page(page, server, PATH)
        page.get_by_role("button", name="logs/live/7/1@899").focus()
        page.keyboard.press("Enter")
        pane = page.get_by_role("region", name="Message", exact=True)
        expect(pane.get_by_label("Value", exact=True)).to_have_text(HOSTILE)
        expect(pane.get_by_text("⟨202E⟩x")).to_be_visible()
        assert page.url.endswith("record=logs%2Flive%2F7%2F1%40899")
        assert axe_violations(page) == []
        pane.get_by_role("button", name="Hex").first.click()
        expect(pane.get_by_label("Value", exact=True)).to_contain_text("00000000")
        page.keyboard.press("Escape")
        expect(pane).to_have_count(0)


def test_a_trace_leads_to_where_traces_are_shown(chromium: Browser, server: RecordedServer) -> None:
    """The link has the trace's id, and tells the other site nothing of this one."""
    with visit(chromium, server) as page:
        open_page(page, server, f"{PATH}?record=logs/live/7/0@900")
        link = page.get_by_role("link", name=TRACE)
        expect(link).to_have_attribute("href", f"https://traces.example/{TRACE}")
        expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_nothing_is_asked_before_somebody_asks(chromium: Browser, server: RecordedServer) -> None:
    """Typing a filter asks no broker; Find does, the address holds all of it, and the command is shown."""
    with visit(chromium, server) as page:
        open_page(page, server, PATH)
        expect(page.get_by_text("Looked at 400 records")).to_be_visible()
        page.get_by_label("Filter", exact=True).fill("json.level=error")
        page.get_by_label("Begin").select_option("offset")
        page.get_by_label("Offset", exact=True).fill("12")
        page.get_by_label("Partition", exact=True).fill("3")
        asked = [body for path, body in server.requests if path == "/api/messages/logs"]
        assert asked == [{}]
        page.get_by_role("button", name="Find").click()
        expect(page).to_have_url(server.address + f"{PATH}?from=offset%3A12&filter=json.level%3Derror&partition=3")
        page.get_by_role("button", name="Messages that follow").click()
        expect(page.locator(".table-count")).to_have_text("200")
        expect(page.locator("code", has_text="braid consume logs")).to_be_visible()
        expect(page.get_by_text("what lies on east")).to_be_visible()
    asked = [body for path, body in server.requests if path == "/api/messages/logs"]
    question = {"from": "offset:12", "filter": "json.level=error", "partition": "3"}
    assert asked[1:] == [question, {**question, "positions": {"logs/live/7/0": 800}}]


def test_a_tail_is_held_and_says_what_it_left_out(chromium: Browser, server: RecordedServer) -> None:
    """Rows come by themselves; Space holds the moment, and the next Space shows what came meanwhile."""
    with visit(chromium, server) as page:
        open_page(page, server, f"{PATH}?show=tail")
        expect(page.locator(".table-count")).to_have_text("3")
        page.keyboard.press("Space")
        expect(page.locator(".clock button", has_text="paused")).to_be_visible()
        server.tell(followed(1_000, 40))
        expect(page.get_by_text("3 wait: press Space to see them")).to_be_visible()
        expect(page.get_by_text("40 records skipped")).to_be_visible()
        expect(page.locator(".table-count")).to_have_text("3")
        page.keyboard.press("Space")
        expect(page.locator(".table-count")).to_have_text("6")
        page.get_by_role("button", name="logs/live/7/0@1000").click()
        expect(page.get_by_role("region", name="Message", exact=True)).to_be_visible()


def test_a_record_is_sent_with_its_command_beside_it(chromium: Browser, server: RecordedServer) -> None:
    """The form shows what it would send, and leads to the record."""
    with visit(chromium, server) as page:
        open_page(page, server, PATH)
        page.get_by_role("button", name="Produce", exact=True).click()
        dialog = page.get_by_role("dialog", name="Produce to logs")
        dialog.get_by_label("Key").fill("k")
        dialog.get_by_label("Value", exact=True).fill("hello")
        dialog.get_by_label("Headers").fill("tenant: acme: inc\n\nempty")
        expect(dialog.locator("code")).to_contain_text("braid produce logs")
        assert axe_violations(page) == []
        dialog.locator("button[type=submit]").click()
        expect(dialog.get_by_role("status")).to_contain_text("partition 0, offset 900")
        dialog.get_by_role("button", name="Open it").click()
        expect(page.get_by_role("region", name="Message", exact=True)).to_be_visible()
    sent = [body for path, body in server.requests if path == "/api/messages/logs/produce"]
    headers = [["tenant", "acme: inc"], ["empty", ""]]
    assert sent == [{"lane": "", "key": "k", "value": "hello", "value_form": "text", "headers": headers}]
