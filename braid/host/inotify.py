"""Watches files through the kernel: any process may touch, replace or remove them (inotify(7))."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# IN_ATTRIB, IN_DELETE_SELF, IN_MOVE_SELF. Not IN_MODIFY: writes into the file are no news.
_TOUCHED_OR_REPLACED: Final = 0x004 | 0x400 | 0x800
_READ_BYTES: Final = 4096  # some hundred events, whose contents are not needed


class Inotify:
    """A queue of the kernel's events about files, which a loop can wait for by its descriptor."""

    def __init__(self) -> None:
        """Opens the queue. Raises `OSError` if the user has as many as the kernel allows."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Returns the descriptor; it is readable while there are events."""
        return self._descriptor

    def watch(self, path: Path) -> None:
        """Watches the file that has this name now; one that is watched already stays so.

        Raises:
            OSError: there is no such file, or the user watches too many.
        """
        self._call("inotify_add_watch", self._descriptor, os.fsencode(path), _TOUCHED_OR_REPLACED)

    def drain(self) -> None:
        """Takes all events out of the queue."""
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _READ_BYTES):
                pass

    def close(self) -> None:
        """Closes the queue."""
        os.close(self._descriptor)

    def _call(self, function: str, *arguments: int | bytes) -> int:
        result = int(getattr(self._libc, function)(*arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}")
        return result
