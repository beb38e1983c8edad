"""The event loop of a Spark Python process: in a daemon thread, made when it is first needed.

Python workers are forked; a child must not use its parent's loop, so each process id has its own.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class ProcessLoop:
    """An event loop that runs as long as its process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="braid-spark", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[object, object, T]) -> "Future[T]":
        """Starts a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Coroutine[object, object, T]) -> T:
        """Runs a coroutine on the loop and returns its result; an interrupt here cancels it there."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_current: list[ProcessLoop] = []


def process_loop() -> ProcessLoop:
    """Returns this process's loop."""
    if not _current or _current[0].process != os.getpid():
        _current[:] = [ProcessLoop()]
    return _current[0]
