"""The messages one end of a stream has received but not handled: bounded, with a clean or a broken end."""

import asyncio
from collections import deque

from braid.kernel.errors import BraidError
from braid.kernel.limits.rpc import STREAM_INBOX_BYTES_MAX, STREAM_INBOX_MESSAGES_MAX


class Inbox:
    """Messages in order, then one end. A full inbox blocks the writer, and so, by flow control, the peer.

    Messages received before a break are still delivered: input that arrived in time counts.
    """

    def __init__(self) -> None:
        self._messages: deque[tuple[object, int]] = deque()  # each with its size on the wire
        self._bytes = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._over = asyncio.Event()
        self._ended = False
        self._error: BraidError | None = None

    @property
    def broken(self) -> BraidError | None:
        """Why the stream broke, or None."""
        return self._error

    async def put(self, message: object, size: int = 0) -> None:
        """Adds a message of `size` bytes, waiting while the inbox is full. After the end the message is dropped."""
        while self._full() and not self.over():
            self._writable.clear()
            await self._writable.wait()
        self.add(message, size)

    def add(self, message: object, size: int = 0) -> None:
        """Adds a message at once, for senders that bound themselves. After the end the message is dropped."""
        if not self.over():
            self._messages.append((message, size))
            self._bytes += size
            self._readable.set()

    def _full(self) -> bool:
        return len(self._messages) >= STREAM_INBOX_MESSAGES_MAX or self._bytes >= STREAM_INBOX_BYTES_MAX

    def end(self) -> None:
        """Ends the stream cleanly. Only the first call of `end` or `fail` counts."""
        self._ended = self._error is None
        self._wake()

    def fail(self, error: BraidError) -> None:
        """Ends the stream with an error: it broke, or the peer refused it. Only the first call of `end` or `fail`
        counts."""
        if not self.over():
            self._error = error
        self._wake()

    def over(self) -> bool:
        """Whether nothing more will arrive."""
        return self._ended or self._error is not None

    async def get(self) -> object | None:
        """The next message; None after a clean end. Raises the error the stream broke with. Safe to cancel."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        message, size = self._messages.popleft()
        self._bytes -= size
        self._writable.set()
        return message

    async def ended(self) -> None:
        """Waits until nothing more will arrive, even if messages are unread."""
        await self._over.wait()

    def _wake(self) -> None:
        self._over.set()
        self._readable.set()
        self._writable.set()
