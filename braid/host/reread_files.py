"""Keeps what files say, and reads them again when they change. A file that cannot be used changes nothing."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from braid.host.file_stamps import FileStamp, file_stamp
from braid.kernel.errors import Invalid

T = TypeVar("T")


class RereadFiles(Generic[T]):
    """Keeps the content of some files as it was last read well. Safe to ask from any thread.

    A change that leaves them unusable is told once; the next change is read again.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], T],
        reload_seconds: float,
        *,
        on_read: Callable[[T], None],
        on_unusable: Callable[[Invalid], None],
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the files. Raises what `read` raises.

        Args:
            paths: Files whose stamps are compared.
            read: Reads and checks all of them. Raises `Invalid` while they make no sense.
            reload_seconds: Stamps are looked at again after so long.
            on_read: Called with what changed files say.
            on_unusable: Called with what is wrong with changed files.
            elapsed: Seconds of a clock that never steps.
        """
        self._paths = paths
        self._read = read
        self._reload_seconds = reload_seconds
        self._on_read = on_read
        self._on_unusable = on_unusable
        self._elapsed = elapsed
        self._looking = threading.Lock()
        self._seen = self._stamps()  # before they are read: what changes meanwhile is read again
        self._value = read()
        self._look_at = elapsed() + reload_seconds

    def current(self) -> T:
        """Returns what the files say: the same object until they change. Looks at them where that is due."""
        if self._elapsed() >= self._look_at and self._looking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._value

    def _look(self) -> None:
        self._look_at = self._elapsed() + self._reload_seconds
        found = self._stamps()
        if found == self._seen:
            return
        self._seen = found
        try:
            self._value = self._read()
        except Invalid as error:
            self._on_unusable(error)
        else:
            self._on_read(self._value)

    def _stamps(self) -> tuple[FileStamp | None, ...]:
        return tuple(file_stamp(path) for path in self._paths)
