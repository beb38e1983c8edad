"""The demo watched in a browser, from its stream's first channel to its verdict.

`python -m tests.support.console.watched_demo PICTURE.png` plays the whole demo, and makes the README's picture of what
the page showed.
"""

import asyncio
import base64
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from playwright.sync_api import Browser, Page, expect

import braid
from braid.api.registry.v1.registry_service_pb2 import GetStreamRequest
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_ACTIVE, Stream
from braid.host.console_links import sign_in_url
from braid.kernel.errors import BraidError
from demo.traffic.shipper import STREAM
from devmesh.documents import Ready, ready_from_json
from devmesh.files import MeshFiles
from testbed.patience import wait
from tests.support.console.browsing import browser
from tests.support.console.pictures import canvas, encoded
from tools.animate import Frame, animated
from tools.console_page import ROOT

_Answer = TypeVar("_Answer")
SIZE: Final = (1_100, 620)
PICTURE_BYTES_MAX: Final = 1_000_000
_FRAMES_MAX: Final = 40
_SHOWN_MS: Final = 1_100  # of a frame in the picture,
_LAST_MS: Final = 4_000  # and of the last one
_POLL_MS: Final = 100
_START_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
_ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")
_ACT: Final = re.compile(r"^ *[\d.]+ s  (?P<act>.+)$")
# What moves in the diagram, without what ages; and when a lane first had an active channel on each cluster.
_LOOK: Final = """() => {
    const parts = [...document.querySelectorAll(".chip title, .route-column text")].map((it) => it.textContent);
    return parts.map((it) => it.replace(/[0-9]+[a-z0-9]*/g, "#")).join("|");
}"""
_NOTICE: Final = """() => {
    window.noticed = {};
    const look = () => {
        for (const chip of document.querySelectorAll(".chip title")) {
            const found = /^(\\S+) on (\\S+), .*: active,/s.exec(chip.textContent);
            if (found !== null) window.noticed[found[1]] ??= Date.now();
        }
    };
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
    look();
    for (const name of Object.keys(window.noticed)) window.noticed[name] = 0;  // they were there before
}"""
_CAPTION: Final = """(text) => {
    let line = document.getElementById("caption");
    if (line === null) {
        line = document.body.appendChild(Object.assign(document.createElement("p"), {id: "caption"}));
        Object.assign(line.style, {position: "fixed", left: 0, right: 0, bottom: 0, margin: 0, padding: "10px 16px",
            background: "#161b22", color: "#f0f3f6", font: "15px/22px system-ui", zIndex: 99});
    }
    line.textContent = text;
}"""


class Moment(NamedTuple):
    """A moment of the page: the seconds since the demo began, what the demo said last, and the picture as PNG."""

    seconds: float
    act: str
    picture: bytes


class WatchedDemo(NamedTuple):
    """A demo that was watched.

    Attributes:
        status: With which it ended.
        said: What it printed.
        verdict: What it found.
        moments: Pictures of the stream's page, one whenever the diagram changed, and one of the end.
        behind_seconds: By channel that took traffic over while it was watched: from its event to the diagram.
    """

    status: int
    said: str
    verdict: dict[str, object]
    moments: Sequence[Moment]
    behind_seconds: dict[str, float]


class _Played:
    """A demo that runs, and what it has said so far."""

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "demo", "--keep", "--directory", str(directory), *options]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                self.lines.append(_ESCAPES.sub("", line).rstrip())

    @property
    def act(self) -> str:
        """The last act that began."""
        acts = [found["act"] for line in [*self.lines] if (found := _ACT.match(line))]
        return acts[-1] if acts else ""

    @property
    def running(self) -> bool:
        """Whether it has not come to its verdict."""
        return self.process.poll() is None

    def said(self) -> str:
        """All that it said, once it has ended."""
        self._reading.join(_END_SECONDS)
        return "\n".join(self.lines)


@contextmanager
def _playing(directory: Path, options: Sequence[str]) -> Iterator[_Played]:
    played = _Played(directory, options)
    try:
        yield played
    finally:
        if played.running:
            played.process.kill()
        played.process.wait()
        command = [sys.executable, "-c", "from braid.cli import main; main()", "dev", "down"]
        subprocess.run([*command, "--dir", str(directory / "mesh")], capture_output=True, timeout=_END_SECONDS)
        played.said()  # whoever read it ends with it, and closes it


def watched_demo(started: Browser, directory: Path, options: Sequence[str] = ()) -> WatchedDemo:
    """Plays the demo with its console, and follows its stream's page until the verdict is there."""
    with _playing(directory, options) as played:
        ready = _ready(directory, played)
        page = started.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-US")
        try:
            page.goto(sign_in_url(ready.console, Path(ready.dir) / "console", f"/streams/{STREAM}", _now_ms()))
            expect(page.locator("main h1")).to_contain_text(STREAM)
            expect(page.locator(".chip title").first).to_be_attached(timeout=_START_SECONDS * 1_000)
            page.evaluate(_NOTICE)
            taken: dict[str, int] = {}
            moments = [*_moments(page, played, ready, taken)]
            noticed: dict[str, float] = page.evaluate("window.noticed")
        finally:
            page.close()
        behind = {
            name: (noticed[name] - at) / 1_000 for name, at in taken.items() if name in noticed and noticed[name] > 0
        }
        verdict = json.loads((directory / "verdict.json").read_text(encoding="utf-8"))
        return WatchedDemo(played.process.returncode, played.said(), verdict, moments, behind)


def _ready(directory: Path, played: _Played) -> Ready:
    """The demo's mesh, once its stream is there."""
    file = MeshFiles(directory / "mesh").ready

    def there() -> bool:
        assert played.running, played.said()
        return file.exists() and _asked(_has_stream(ready_from_json(file.read_text(encoding="utf-8"))))

    wait(there, "the demo's stream", _START_SECONDS, poll=0.1)
    return ready_from_json(file.read_text(encoding="utf-8"))


def _asked(question: Coroutine[object, object, _Answer]) -> _Answer:
    """An answer of the mesh. It is asked in a thread: this one has the loop of the browser's driver."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, question).result()


async def _has_stream(ready: Ready) -> bool:
    try:
        return bool((await _stream(ready)).status.channels)
    except BraidError:
        return False


async def _stream(ready: Ready) -> Stream:
    async with braid.connect(ready.endpoint, client_id="watcher", tls=ready.user_tls) as mesh:
        return await mesh.service("registry").unary("GetStream", GetStreamRequest(name=STREAM), Stream)


def _moments(page: Page, played: _Played, ready: Ready, taken: dict[str, int]) -> Iterator[Moment]:
    """A picture whenever the diagram has changed, and one when the demo is over.

    `taken` gets when each channel took traffic over, in milliseconds since the epoch.
    """
    before, count = "", 0
    while played.running:
        now: str = page.evaluate(_LOOK)
        if now != before and count < _FRAMES_MAX:
            yield _moment(page, played)
            before, count = now, count + 1
            for each in _asked(_stream(ready)).status.channels:
                if each.state == CHANNEL_STATE_ACTIVE:
                    taken.setdefault(each.name, each.state_since_ms)
        page.wait_for_timeout(_POLL_MS)
    yield _moment(page, played)


def _moment(page: Page, played: _Played) -> Moment:
    seconds = time.monotonic() - played.begun
    page.evaluate(_CAPTION, f"{seconds:5.1f} s   {played.act}")
    return Moment(seconds, played.act, page.screenshot(animations="disabled"))


def _now_ms() -> int:
    return int(time.time() * 1_000)


def picture_of(started: Browser, moments: Sequence[Moment]) -> bytes:
    """Moments as one animated PNG, each but the first without what did not change."""
    frames: list[Frame] = []
    before = ""
    with canvas(started) as page:
        for place, moment in enumerate(moments):
            now = encoded(moment.picture)
            part = page.evaluate("(given) => changes(...given)", [before, now])
            before = now
            if part is not None:
                shown_ms = _LAST_MS if place == len(moments) - 1 else _SHOWN_MS
                frames.append(Frame(base64.b64decode(part["png"]), shown_ms, part["x"], part["y"]))
    return animated(frames)


def main() -> int:
    """Plays the demo, and writes the picture."""
    with tempfile.TemporaryDirectory() as directory, browser() as started:
        watched = watched_demo(started, Path(directory) / "run", sys.argv[2:])
        print(watched.said)
        picture = picture_of(started, watched.moments)
    if watched.status or len(picture) > PICTURE_BYTES_MAX:
        print(f"no picture: the demo ended with {watched.status}, and the picture has {len(picture)} bytes")
        return 1
    Path(sys.argv[1]).write_bytes(picture)
    print(f"{len(watched.moments)} moments, {len(picture)} bytes; behind events by {watched.behind_seconds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
