"""The demo's output: one line an act, a bar where it takes time (on a terminal only), the table at the end."""

import os
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Final, TextIO

from demo.proof.verdict import Row

_WIDTH_MAX: Final = 100
_BAR: Final = 24
_REDRAW_SECONDS: Final = 0.1
_CLEAR: Final = "\r\x1b[K"
_COLOURS: Final = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1"}


class Display:
    """Writes to one text stream; plain lines when it is not a terminal.

    Args:
        out: Where to.
        colours: None to find out: a terminal, and no `NO_COLOR`.
    """

    def __init__(self, out: TextIO = sys.stdout, colours: bool | None = None) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._colours = self._terminal and "NO_COLOR" not in os.environ if colours is None else colours
        self._begun = time.monotonic()
        self._bar_drawn = False
        self._drawn_at = 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun

    def title(self, text: str) -> None:
        """The first line."""
        self._line(self._paint(text, "bold"))

    def act(self, text: str) -> None:
        """Something begins."""
        self._line(f"{self._clock()}  {text}")

    def done(self, text: str) -> None:
        """Something came out as it should."""
        self._line(f"{self._clock()}  {self._paint('✓', 'green')} {text}")

    def fault(self, text: str) -> None:
        """Something is broken on purpose."""
        self._line(f"{self._clock()}  {self._paint('✗ ' + text, 'yellow')}")

    def note(self, text: str) -> None:
        """A detail."""
        self._line(f"{'':10}{self._paint(text, 'dim')}")

    def progress(self, done: int, total: int, text: str) -> None:
        """Redraws the bar; nothing in a pipe."""
        if not self._terminal or time.monotonic() - self._drawn_at < _REDRAW_SECONDS:
            return
        self._drawn_at = time.monotonic()
        filled = _BAR * min(done, total) // max(total, 1)
        line = f"{self._clock()}  [{'█' * filled}{'·' * (_BAR - filled)}] {text}"
        width = min(_WIDTH_MAX, shutil.get_terminal_size().columns - 1)
        self._out.write(_CLEAR + line[:width])
        self._out.flush()
        self._bar_drawn = True

    def table(self, rows: Iterable[Row]) -> None:
        """The verdict's lines, in columns as wide as they need."""
        lines = list(rows)
        what, value, promise = (max(map(len, column)) for column in zip(*(row[:3] for row in lines), strict=True))
        self._line("")
        for row in lines:
            mark = "" if not row.promise else self._paint("✓", "green") if row.kept else self._paint("✗", "red")
            self._line(f"  {row.what:{what}}  {row.value:>{value}}   {row.promise:{promise}}  {mark}".rstrip())
        self._line("")

    def verdict(self, ok: bool, text: str) -> None:
        """The last word."""
        word = self._paint("OK", "green") if ok else self._paint("FAILED", "red")
        self._line(f"{word}  {text}")

    def complaint(self, what: str, look: str) -> None:
        """Says what is wrong, and where to look."""
        self._line(f"  {self._paint('✗', 'red')} {what}")
        if look:
            self._line(f"    look first: {look}")

    def _clock(self) -> str:
        return f"{self.seconds:6.1f} s"

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self._colours else text

    def _line(self, text: str) -> None:
        clear = _CLEAR if self._bar_drawn else ""
        self._bar_drawn = False
        self._out.write(f"{clear}{text}\n")
        self._out.flush()
