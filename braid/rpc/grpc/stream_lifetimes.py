"""How long streams last: those of known callers end in time, and early where their proof ends or is trusted no more."""

import asyncio
import random
import time
from collections.abc import Callable

from braid.kernel.limits.rpc import PEER_TRUST_LOOK_SECONDS, TLS_CONNECTION_SECONDS, TLS_JITTER
from braid.kernel.ports import Caller
from braid.rpc.grpc.peer_trust import PeerTrust


class StreamLifetimes:
    """The lifetimes of the streams of one server."""

    def __init__(
        self,
        lifetime_seconds: float = TLS_CONNECTION_SECONDS,
        trust: PeerTrust | None = None,
        look_seconds: float = PEER_TRUST_LOOK_SECONDS,
    ) -> None:
        """Streams of known callers last about `lifetime_seconds`, but no longer than a caller's token, or `trust`.

        `trust` is asked each `look_seconds`, while `run` runs.
        """
        self._lifetime_seconds = lifetime_seconds
        self._trust = trust
        self._look_seconds = look_seconds
        self._open: dict[int, tuple[Caller, Callable[[], None]]] = {}
        self._next = 0

    def begin(self, caller: Caller, expire: Callable[[], None]) -> Callable[[], None]:
        """Calls `expire` when the time of a caller's stream is over, unless what is returned was called before."""
        if not caller.authenticated:
            return _nothing
        number = self._next = self._next + 1
        self._open[number] = caller, expire
        lasts = self._lifetime_seconds * random.uniform(1 - TLS_JITTER, 1 + TLS_JITTER)
        if caller.expire_ms:
            lasts = min(lasts, max(0.0, caller.expire_ms / 1000 - time.time()))
        timer = asyncio.get_running_loop().call_later(lasts, self._expire, number)

        def end() -> None:
            timer.cancel()
            self._open.pop(number, None)

        return end

    async def run(self) -> None:
        """Looks at open streams again and again, until cancelled."""
        while self._trust is not None:
            await asyncio.sleep(self._look_seconds)
            self.look()

    def look(self) -> None:
        """Ends the streams of callers whose certificate is trusted no more."""
        if self._trust is None:
            return
        for number in list(self._open):  # numbers only: a tuple for each stream would start the garbage collector
            stream = self._open.get(number)
            if stream is not None and self._trust.distrust(stream[0]) is not None:
                self._expire(number)

    def _expire(self, number: int) -> None:
        caller_and_expire = self._open.pop(number, None)
        if caller_and_expire is not None:
            caller_and_expire[1]()


def _nothing() -> None:
    pass
