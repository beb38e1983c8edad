"""A run's memory is that of all its processes, grandchildren included, with shared pages counted once."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from demo.proof.memory import held_bytes, watching_memory
from testbed.patience import until

SIZE = 64 << 20
# The child of the child holds the same pages: counted twice, they would be too many.
HOLDS = f"import os, sys\nheld = b'x' * {SIZE}\nif os.fork() == 0:\n    print('held', flush=True)\nsys.stdin.read()\n"


@contextmanager
def holding() -> Iterator[None]:
    """A process and its child hold memory."""
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


async def test_children_of_children_count_and_shared_pages_once() -> None:
    seen: list[int] = []
    async with watching_memory(seen.append):
        await until(lambda: len(seen) > 0, "a look")
        before = held_bytes()
        with holding():
            grown = held_bytes() - before
            await until(lambda: max(seen) >= before + SIZE, "it is told of")
        assert SIZE <= grown < 1.7 * SIZE
