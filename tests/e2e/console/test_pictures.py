"""The console's pages look as their kept pictures, and what changes a page is seen."""

import pytest
from playwright.sync_api import Browser

from tests.support.console.browsing import LOOKS, PAGES
from tests.support.console.pictures import ALL, KEPT, KEPT_BYTES_MAX, SHARE_MAX, Look, difference, taken
from tests.support.console.recorded import RecordedServer

pytestmark = [pytest.mark.real, pytest.mark.untimed]
# One look for each page, another one than the slice of axe takes: all four come about over the pages.
_SLICE = [Look(page, *LOOKS[(place + 1) % len(LOOKS)]) for place, page in enumerate(PAGES)]
_RENEW = "look at build/console; where the change is meant: python -m tests.support.console.pictures"


def _judge(chromium: Browser, server: RecordedServer, looks: list[Look]) -> None:
    found = [(look, difference(chromium, look, taken(chromium, server, look))) for look in looks]
    changed = [f"{look.file.name}: {each.share:.2%}, {each.where}" for look, each in found if each.share > SHARE_MAX]
    print(f"most changed: {max(each.share for _, each in found):.3%}")
    assert not changed, "\n".join([*changed, _RENEW])


def test_pages_look_as_kept_in_one_look_each(chromium: Browser, server: RecordedServer) -> None:
    """Each page is compared in one theme and size."""
    _judge(chromium, server, _SLICE)


@pytest.mark.extended
def test_pages_look_as_kept_in_every_look(chromium: Browser, server: RecordedServer) -> None:
    """Each page is compared in both themes and sizes."""
    _judge(chromium, server, ALL)


@pytest.mark.parametrize(
    ("page", "style"),
    [
        ("overview", ":root { --bad-soft: #e0f0ff !important; }"),
        ("groups", "th:nth-child(5), td:nth-child(5), col:nth-child(5) { display: none; }"),
        pytest.param("stream", ".route-flow { stroke: #888 !important; }", marks=pytest.mark.extended),
        pytest.param("alerts", ".card { padding: 20px !important; }", marks=pytest.mark.extended),
    ],
    ids=["another colour", "a column less", "lines in grey", "more room"],
)
def test_a_changed_page_is_seen(chromium: Browser, server: RecordedServer, page: str, style: str) -> None:
    """A page with another colour, without a column, or with other distances differs from its picture."""
    look = Look(page, "light", "desk")
    seen = difference(chromium, look, taken(chromium, server, look, style))
    print(f"{page}: {seen.share:.2%}, {seen.where}")
    assert seen.share > 2 * SHARE_MAX


def test_kept_pictures_are_small_and_each_has_its_page() -> None:
    """No picture is left of a page that is gone, and none is large."""
    assert {file.name for file in KEPT.iterdir()} == {look.file.name for look in ALL}
    assert max(file.stat().st_size for file in KEPT.iterdir()) <= KEPT_BYTES_MAX
