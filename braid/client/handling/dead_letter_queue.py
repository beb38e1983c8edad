"""The dead letters of one stream that are not copied yet: some are being sent, the others wait.

One loop sends them. Before the first success, and after each failure, it sends one at a time, so that a lane that is
away gets no flood.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import NamedTuple

from braid.client.records.outgoing import Headers
from braid.client.records.record import Record
from braid.client.tasks import happens
from braid.kernel.errors import BraidError
from braid.kernel.limits.client import DEAD_LETTER_LATE_SECONDS, DEAD_LETTER_RETRY_SECONDS, DEAD_LETTERS_SENDING_MAX
from braid.kernel.limits.rpc import ERROR_TEXT_BYTES_MAX
from braid.kernel.ports import Clock

_log = logging.getLogger("braid.consumer")


class DeadLetter(NamedTuple):
    """A record that was given up.

    Attributes:
        context: In which that was, so that the letter belongs to no other record's trace.
    """

    record: Record
    headers: Headers
    context: Context


class _Sent(NamedTuple):
    """A letter that is being sent, and when it was sent (`Clock.elapsed`)."""

    letter: DeadLetter
    at: float


class DeadLetterQueue:
    """The dead letters of one stream that wait to be copied."""

    def __init__(
        self,
        stream: str,
        clock: Clock,
        copy: Callable[[DeadLetter], Coroutine[None, None, BraidError | None]],
        drop: Callable[[DeadLetter], None],
    ) -> None:
        """`copy` sends a letter and sees to its record, or says why it is to be tried again.

        `drop` gets a letter whose lease is gone: nobody sends it any more.
        """
        self._stream = stream
        self._clock = clock
        self._copy = copy
        self._drop = drop
        self._waiting: deque[DeadLetter] = deque()
        self._sending: dict[asyncio.Task[BraidError | None], _Sent] = {}
        self._trouble = ""  # the last failure, until one is written
        self._room = 1
        self._failed = False
        self._death: BaseException | None = None
        self._stirred = asyncio.Event()
        self._looked_at = clock.elapsed()

    def put(self, letter: DeadLetter) -> None:
        """Adds a letter after the others."""
        self._waiting.append(letter)
        self._stirred.set()

    @property
    def trouble(self) -> str:
        """Says why no letter can be written now; empty when no reason is known."""
        if self._trouble or not self._sending:
            return self._trouble
        waited = self._clock.elapsed() - next(iter(self._sending.values())).at
        return f"no acknowledgement for {waited:.0f} s" if waited >= DEAD_LETTER_LATE_SECONDS else ""

    async def run(self) -> None:
        """Sends until none is left. Raises what `copy` raised."""
        try:
            while self._waiting or self._sending:
                if self._failed:
                    await self._clock.sleep(DEAD_LETTER_RETRY_SECONDS)
                    self._failed = False
                self._stirred.clear()
                self._drop_ended()
                while self._waiting and len(self._sending) < self._room:
                    letter = self._waiting.popleft()
                    (self._drop if letter.record.work.ended else self._send)(letter)
                await happens(self._stirred, DEAD_LETTER_RETRY_SECONDS)
                if self._death is not None:
                    raise self._death
        finally:
            for task in self._sending:
                task.cancel()
            if self._sending:
                await asyncio.wait(list(self._sending))

    def _drop_ended(self) -> None:
        """Drops, now and then, the letters whose lease is gone."""
        now = self._clock.elapsed()
        if now - self._looked_at < DEAD_LETTER_RETRY_SECONDS:
            return
        self._looked_at = now
        letters, self._waiting = self._waiting, deque()
        for letter in letters:
            if letter.record.work.ended:
                self._drop(letter)
            else:
                self._waiting.append(letter)

    def _send(self, letter: DeadLetter) -> None:
        task = asyncio.get_running_loop().create_task(self._copy(letter), context=letter.context)
        self._sending[task] = _Sent(letter, self._clock.elapsed())
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[BraidError | None]) -> None:
        letter = self._sending.pop(task).letter
        self._stirred.set()
        if task.cancelled():
            return
        if (death := task.exception()) is not None:
            self._death = death
        elif (failure := task.result()) is not None:
            self._note_failure(failure)
            self._waiting.append(letter)
        else:
            self._note_success()

    def _note_failure(self, failure: BraidError) -> None:
        if not self._trouble:
            _log.warning("dead letters of stream %s are not written, trying again: %s", self._stream, failure)
        self._trouble = str(failure)[:ERROR_TEXT_BYTES_MAX]
        self._failed, self._room = True, 1

    def _note_success(self) -> None:
        if self._trouble:
            _log.warning("dead letters of stream %s are written again", self._stream)
        self._trouble, self._room = "", DEAD_LETTERS_SENDING_MAX
