"""A command's output: results on stdout, notes and progress on stderr, colours only on a terminal."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Final, TextIO

from braid.cli.core.limits import CLI_SPINNER_AFTER_SECONDS, CLI_SPINNER_SECONDS
from braid.cli.core.output import Format, coloured
from braid.cli.core.text import printable

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR: Final = "\r\x1b[2K"


class Terminal:
    """Both output streams of one process.

    `narrow` says whether tables are cut to 80 columns: on a terminal, and never in a pipe or a file.

    Args:
        out: For results.
        err: For everything else.
        environment: Read for NO_COLOR and TERM.
    """

    def __init__(self, out: TextIO, err: TextIO, environment: Mapping[str, str]) -> None:
        self._out = out
        self._err = err
        dumb = environment.get("TERM") == "dumb"
        self.interactive = self.narrow = out.isatty()
        self.lively = err.isatty() and not dumb
        self.colours = self.interactive and not dumb and not environment.get("NO_COLOR")

    def print(self, text: str) -> None:
        """Prints a result."""
        self._out.write(text + "\n")
        self._out.flush()

    def print_table(self, format: Format, text: str) -> None:
        """Prints a formatted table, with its states in colour if colours are wanted."""
        self.print(coloured(text) if self.colours and format in (Format.TABLE, Format.WIDE) else text)

    def print_bytes(self, data: bytes) -> None:
        """Prints one line of raw data; on a terminal control characters are escaped."""
        if self.interactive:
            self.print(printable(data.decode("utf-8", "replace"), "\t"))
            return
        self._out.flush()
        self._out.buffer.write(data + b"\n")
        self._out.buffer.flush()

    def note(self, text: str) -> None:
        """Prints a note on stderr, beside the result."""
        self._err.write(f"braid: {text}\n")
        self._err.flush()

    def progress(self, text: str) -> None:
        """Replaces the progress line; only on a terminal."""
        if self.lively:
            self._err.write(f"{_CLEAR}{text}")
            self._err.flush()

    @contextlib.asynccontextmanager
    async def waiting(self, text: str) -> AsyncIterator[None]:
        """Shows a progress line while something takes longer than a moment."""
        if not self.lively:
            yield
            return
        spinner = asyncio.ensure_future(self._spin(text))
        try:
            yield
        finally:
            spinner.cancel()
            await asyncio.wait([spinner])

    async def _spin(self, text: str) -> None:
        await asyncio.sleep(CLI_SPINNER_AFTER_SECONDS)
        try:
            for frame in itertools.cycle(_FRAMES):
                self.progress(f"{frame} {text}")
                await asyncio.sleep(CLI_SPINNER_SECONDS)
        finally:
            self.progress("")
