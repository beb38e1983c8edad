"""The whole demo, watched in a browser: its stream's page shows each turn at its event, and the verdict is good."""

from pathlib import Path
from typing import Final

import pytest

from testbed.patience import Deadline
from tests.support.console.browsing import browser, visit
from tests.support.console.pictures import encoded
from tests.support.console.recorded import recorded_console
from tests.support.console.watched_demo import PICTURE_BYTES_MAX, SIZE, picture_of, watched_demo
from tests.support.judging import judge
from tools.animate import chunks
from tools.console_page import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

_LOAD: Final = ("--records", "20000", "--rate", "1200", "--without-event-store")
_BEHIND_SECONDS_MAX: Final = 1.0
_GIVEN_MIN: Final = 0.9
_README_PICTURE: Final = ROOT / "docs/pictures/console-failover.png"
# The number of frames, and the size of the last one.
_DECODE: Final = """async (data) => {
    const bytes = Uint8Array.from(atob(data), (it) => it.charCodeAt(0));
    const decoder = new ImageDecoder({data: bytes, type: "image/png"});
    await Promise.all([decoder.tracks.ready, decoder.completed]);
    const count = decoder.tracks.selectedTrack.frameCount;
    const last = await decoder.decode({frameIndex: count - 1});
    return [count, last.image.displayWidth, last.image.displayHeight];
}"""


@pytest.mark.extended
def test_the_demo_is_watched_from_start_to_verdict(tmp_path: Path) -> None:
    """Every channel that takes traffic over is shown as such within a second of the registry's event."""
    with browser() as started:
        meanwhile = Deadline(_BEHIND_SECONDS_MAX)
        watched = watched_demo(started, tmp_path / "run", _LOAD)
        given = meanwhile.share
        picture = picture_of(started, watched.moments)
    assert watched.status == 0, watched.said
    assert watched.verdict["ok"] is True
    print(f"{len(watched.moments)} moments, behind events by {watched.behind_seconds}, the machine gave {given:.0%}")
    acts = "\n".join(each.act for each in watched.moments)
    assert "is killed with -9" in acts and "moved back as planned" in watched.said
    assert len(watched.behind_seconds) >= 2, "the failover, and the move back"
    worst = max(watched.behind_seconds.values())
    what = f"the diagram was {worst:.2f} s behind its event, at most {_BEHIND_SECONDS_MAX} s are allowed"
    judge(worst <= _BEHIND_SECONDS_MAX, given, _GIVEN_MIN, what)
    assert [name for name, _ in chunks(picture)].count(b"fcTL") >= 6


@pytest.mark.untimed
def test_the_readmes_picture_is_what_a_browser_plays() -> None:
    """The kept picture has its frames, is small, and a browser decodes it to the size of a page."""
    picture = _README_PICTURE.read_bytes()
    names = [name for name, _ in chunks(picture)]
    assert names.count(b"fcTL") >= 6
    assert len(picture) <= PICTURE_BYTES_MAX
    assert "docs/pictures/console-failover.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    with browser() as started, recorded_console() as server, visit(started, server) as page:
        page.goto(server.address)  # a browser decodes frames for pages of an address that it trusts
        decoded = page.evaluate(_DECODE, encoded(picture))
    assert decoded == [names.count(b"fcTL"), *SIZE]
