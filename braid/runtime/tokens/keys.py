"""Keeps an issuer's keys at hand: read in time beside the calls, at once for a key that is not known, never in a storm.

The last good set stays in use while no newer one can be read, for a day at the most.
"""

import asyncio
from collections.abc import Awaitable, Callable

from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.access.tokens import (
    TOKEN_KEYS_KEPT_SECONDS,
    TOKEN_KEYS_PAUSE_SECONDS,
    TOKEN_KEYS_READ_SECONDS,
    TOKEN_KEYS_SECONDS,
)
from braid.kernel.ports import Clock, Task, Tasks
from braid.runtime.tokens.key_set import KeySet

Read = Callable[[], Awaitable[bytes]]


class IssuerKeys:
    """The keys of one issuer.

    Attributes:
        reads: How often they were read, or tried to be.
    """

    def __init__(self, read: Read, clock: Clock, tasks: Tasks, on_trouble: Callable[[str], None]) -> None:
        """Reads nothing yet.

        Args:
            read: Reads the set as it lies there; raises `Unavailable`.
            clock: Of this process.
            tasks: Run the reading beside the calls.
            on_trouble: Told why a read failed.
        """
        self.reads = 0
        self._read = read
        self._clock = clock
        self._tasks = tasks
        self._on_trouble = on_trouble
        self._keys: KeySet | None = None
        self._read_at = float("-inf")  # well
        self._tried_at = float("-inf")
        self._reading: Task | None = None
        self._trouble = "the issuer's keys were not read yet"

    async def current(self, known: Callable[[KeySet], bool]) -> KeySet:
        """The set to use: one that has a key, as `known` says, unless the newest set lacks it.

        Raises:
            Unavailable: no set was read yet, or none for a day; or the key may stand in a set that is read soon.
        """
        now = self._clock.elapsed()
        keys = self._good(now)
        if keys is not None and known(keys):
            if now - self._read_at >= TOKEN_KEYS_SECONDS:
                self._begin(now)
            return keys
        self._begin(now)
        if self._reading is not None:  # whoever comes meanwhile waits for the same read
            await self._reading.ended()
        keys = self._good(self._clock.elapsed())
        if keys is None:
            raise Unavailable(self._trouble, remedy="ask again in a moment", metadata={"problem": "no_token_keys"})
        if self._read_at < now and not known(keys):
            text = "the token is signed with a key that is not known yet"
            reason = RefusalReason.UNKNOWN_KEY.value
            raise Unavailable(text, remedy="ask again in a moment", metadata={REFUSAL_FACT: reason})
        return keys

    def _good(self, now: float) -> KeySet | None:
        return self._keys if now - self._read_at < TOKEN_KEYS_KEPT_SECONDS else None

    def _begin(self, now: float) -> None:
        if self._reading is None and now - self._tried_at >= TOKEN_KEYS_PAUSE_SECONDS:
            self._tried_at = now
            self.reads += 1
            self._reading = self._tasks.spawn(self._renew(), "issuer's keys")

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(TOKEN_KEYS_READ_SECONDS):
                content = await self._read()
            self._keys = KeySet.parse(content)
            self._read_at = self._clock.elapsed()
        except TimeoutError:
            self._failed(f"the issuer's keys did not come within {TOKEN_KEYS_READ_SECONDS:g} s")
        except BraidError as error:
            self._failed(error.message)
        finally:
            self._reading = None

    def _failed(self, why: str) -> None:
        self._trouble = why
        self._on_trouble(why)
