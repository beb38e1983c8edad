"""Kept pictures of the console's pages, and how a page that is shown now differs from its own.

A picture is compared by the mean colour of small cells, so another version of the browser draws the same page. Letters
come from a font among the page's packages, for machines differ in theirs.

`python -m tests.support.console.pictures` takes all of them anew: look at what changed before you commit it.
"""

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page

from tests.support.console.browsing import LOOKS, PAGES, SIZES, Theme, browser, open_page
from tests.support.console.documents import NOW_MS
from tests.support.console.recorded import RecordedServer, recorded_console
from tools import console_page

KEPT: Final = console_page.ROOT / "tests/golden/console"
SEEN: Final = console_page.ROOT / "build/console"
KEPT_BYTES_MAX: Final = 60_000
# Of all cells; letters that are drawn a little differently change none, a column of a table changes a hundredth.
SHARE_MAX: Final = 0.002
_HEIGHTS: Final = {"desk": 1_200, "phone": 1_600}  # taller than the look: what people scroll to is kept, too
_SHRUNK: Final = 2  # a kept picture has half the pixels each way
_CELL: Final = 8  # pixels of a page, each way
_APART: Final = 24  # of 255, in any of three colours: more than what the form of kept pictures loses
_QUALITY: Final = 0.8
_TRIES_MAX: Final = 20
_FONTS: Final = console_page.PAGE / "node_modules/@fontsource/roboto/files"
_FONT: Final = "roboto-latin-{}-normal.woff2"
_WEIGHTS: Final = (400, 700)
_STYLE: Final = "*, *::before, *::after { font-family: Kept !important; caret-color: transparent !important; }"

_SCRIPT: Final = Path(__file__).with_suffix(".js")


class Look(NamedTuple):
    """One page in one look."""

    page: str
    theme: Theme
    size: str

    @property
    def file(self) -> Path:
        """Its kept picture."""
        return KEPT / f"{self.page}-{self.theme}-{self.size}.webp"


ALL: Final = [Look(page, *look) for page in PAGES for look in LOOKS]


class Difference(NamedTuple):
    """The share of a picture's cells that have another colour than the kept one, and where they are."""

    share: float
    where: str


@contextmanager
def drawing(started: Browser, look: Look) -> Iterator[Page]:
    """A page of that size and theme with the kept font, at a clock that stands still."""
    width, height = SIZES[look.size][0], _HEIGHTS[look.size]
    context = started.new_context(
        viewport={"width": width, "height": height},
        color_scheme=look.theme,
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
        bypass_csp=True,
    )
    try:
        page = context.new_page()
        page.clock.set_fixed_time(NOW_MS)
        yield page
    finally:
        context.close()


def taken(started: Browser, server: RecordedServer, look: Look, style: str = "") -> bytes:
    """A picture of a page, as PNG, once it does not change any more. `style` is added to the page's own."""
    with drawing(started, look) as page:
        open_page(page, server, PAGES[look.page])
        page.add_style_tag(content=f"{_faces()} {_STYLE} {style}")
        page.evaluate("() => Promise.all([400, 700].map((weight) => document.fonts.load(`${weight} 14px Kept`)))")
        page.wait_for_function(
            "() => document.querySelectorAll('.chart').length === document.querySelectorAll('.uplot').length"
        )
        return _settled(page, look)


def _settled(page: Page, look: Look) -> bytes:
    before = b""
    for _ in range(_TRIES_MAX):
        now = page.screenshot(animations="disabled")
        if now == before:
            return now
        before = now
    raise AssertionError(f"{look} changes on and on")


def _faces() -> str:
    """The rules that make the kept font known to a page."""
    console_page.packages()
    fonts = {weight: (console_page.ROOT / _FONTS / _FONT.format(weight)).read_bytes() for weight in _WEIGHTS}
    rule = "@font-face {{ font-family: Kept; font-weight: {}; src: url(data:font/woff2;base64,{}); }}"
    return " ".join(rule.format(weight, encoded(data)) for weight, data in fonts.items())


def encoded(data: bytes) -> str:
    """Bytes as a browser takes them."""
    return base64.b64encode(data).decode()


def difference(started: Browser, look: Look, seen: bytes) -> Difference:
    """How a picture differs from the kept one; the picture is left in `build/console` where it does."""
    found = Difference(1.0, "there is no kept picture")
    if look.file.is_file():
        arguments = [encoded(look.file.read_bytes()), encoded(seen), _SHRUNK, _CELL, _APART]
        with canvas(started) as page:
            found = Difference(**page.evaluate("(given) => compare(...given)", arguments))
    if found.share > SHARE_MAX:
        SEEN.mkdir(parents=True, exist_ok=True)
        (SEEN / f"{look.file.stem}.png").write_bytes(seen)
    return found


def shrunk(started: Browser, picture: bytes) -> bytes:
    """A picture in the form in which it is kept."""
    with canvas(started) as page:
        made: str = page.evaluate("(given) => shrink(...given)", [encoded(picture), _SHRUNK, _QUALITY])
    return base64.b64decode(made)


@contextmanager
def canvas(started: Browser) -> Iterator[Page]:
    """An empty page that works on pictures, by the functions of `pictures.js`."""
    page = started.new_page()
    try:
        page.add_script_tag(content=_SCRIPT.read_text(encoding="utf-8"))
        yield page
    finally:
        page.close()


def main() -> int:
    """Takes every picture anew, and says which were changed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with browser() as started, recorded_console() as server:
        for look in ALL:
            seen = taken(started, server, look)
            if (found := difference(started, look, seen)).share > SHARE_MAX:
                print(f"{look.file.name}: {found.share:.1%} differs, {found.where}")
                look.file.write_bytes(shrunk(started, seen))
    kept = {look.file for look in ALL}
    for file in KEPT.iterdir():
        if file not in kept:
            print(f"{file.name}: there is no such page any more")
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
