"""Tells whether a file changed since an earlier look, without reading it."""

from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Changes when a file is written, replaced or opened to other users; the link's target counts, not the link.

    Attributes:
        modified_ns: When its content was written last, nanoseconds since the epoch.
        size_bytes: Its length.
        inode: Which file the path leads to: one that takes its place may have the same time and length.
        mode: Its kind and permissions.
    """

    modified_ns: int
    size_bytes: int
    inode: int
    mode: int


def file_stamp(path: Path) -> FileStamp | None:
    """Returns a file's stamp now; None while it cannot be found or its directory may not be entered."""
    try:
        found = path.stat()
    except OSError:
        return None
    return FileStamp(found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)
