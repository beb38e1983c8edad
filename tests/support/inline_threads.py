"""Threads for a loop on virtual time: there are none."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineThreads:
    """`Threads` whose functions have ended when `run` returns."""

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Runs the function inline."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - whoever awaits the future raises it
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Nothing runs."""
