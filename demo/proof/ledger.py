"""The ledger: a process of its own that notes which records were acknowledged. It imports nothing of Braid.

Lines come through a named pipe, written by the shipper after `send()` resolved. They are appended as they are and
synced to disk in groups. It ends when the writer closes the pipe, with everything on disk.
Run as `python -I -S demo/proof/ledger.py PIPE FILE`: without site-packages there is nothing it could trust by mistake.
"""

import os
import queue
import sys
import threading
from pathlib import Path

_READ_BYTES = 1 << 16
_WAITING_MAX = 4_096  # chunks read and not yet on disk; then the pipe holds the writer


def read_into(pipe: Path, waiting: "queue.Queue[bytes]") -> None:
    """Passes on what comes through the pipe; an empty chunk is its end."""
    with pipe.open("rb", buffering=0) as source:
        while chunk := source.read(_READ_BYTES):
            waiting.put(chunk)
    waiting.put(b"")


def gather(waiting: "queue.Queue[bytes]") -> tuple[bytes, bool]:
    """Everything that waits, at least one chunk; and whether the end is among it."""
    chunks = [waiting.get()]
    while chunks[-1] and not waiting.empty():
        chunks.append(waiting.get())
    return b"".join(chunks), not chunks[-1]


def keep(waiting: "queue.Queue[bytes]", file: Path) -> None:
    """Appends and syncs until the end; whatever gathered during one sync goes into the next."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    ended = False
    while not ended:
        text, ended = gather(waiting)
        while text:
            text = text[os.write(descriptor, text) :]
        os.fsync(descriptor)
    os.close(descriptor)


def main(pipe: Path, file: Path) -> None:
    """Keeps the ledger until the writer of the pipe is gone."""
    waiting: queue.Queue[bytes] = queue.Queue(_WAITING_MAX)
    reader = threading.Thread(target=read_into, args=(pipe, waiting), daemon=True)
    reader.start()
    keep(waiting, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
