"""Following files that others append lines to: whole lines only, each once."""

import os
from pathlib import Path
from typing import NamedTuple

_CHUNK_BYTES = 1 << 20


class Line(NamedTuple):
    """A line without its newline, and where in the file it begins."""

    offset: int
    text: bytes


class Tail:
    """One file, followed from its beginning or from a position near its end.

    Args:
        path: Need not exist yet.
        last_bytes: Begin at most so far before the end the file has now; None for its beginning.
    """

    def __init__(self, path: Path, last_bytes: int | None = None) -> None:
        self.path = path
        self._position = 0
        self._aligned = True
        if last_bytes is not None and path.exists():
            self._position = max(0, path.stat().st_size - last_bytes)
            self._aligned = self._position == 0

    def lines(self) -> list[Line]:
        """Returns lines since the last call; a line that is not ended yet waits for the next. A lost file has none."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                chunk = file.read(_CHUNK_BYTES)
        except OSError:
            return []
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline and len(rest) == _CHUNK_BYTES:  # a line longer than any we want: passed over in pieces
            self._position += len(rest)
            return []
        found: list[Line] = []
        for text in whole.split(b"\n") if newline else []:
            if self._aligned:
                found.append(Line(self._position, text))
            self._aligned = True
            self._position += len(text) + 1
        return found


def newest_line(path: Path) -> str:
    """The last line of a file that says something, for error messages."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return "it left no log"
    return lines[-1].strip() if lines else "it wrote nothing"
