"""`Admission` of a replica: each caller may have so many calls open at once, so that none takes the room of all."""

from collections import Counter
from collections.abc import Callable, Collection

from braid.kernel.access.open_calls import UNARY, counted_as, counted_for
from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import Exhausted
from braid.kernel.ports import Caller
from braid.runtime.access.refusals import Refusals


class OpenCalls:
    """The calls that are open at one replica, by caller and what they are for."""

    def __init__(self, streams: Collection[str], refusals: Refusals) -> None:
        """`streams` are the full names of the methods that are streams; others answer once."""
        self._streams = frozenset(streams)
        self._refusals = refusals
        self._open: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """The number of open calls."""
        return self._open.total()

    def admit(self, method: str, caller: Caller) -> Callable[[], None]:
        """See `Admission.admit`."""
        short = method.rpartition("/")[2]
        kind, limit = counted_as(short, stream=method in self._streams)
        key = (counted_for(caller), kind)
        if self._open[key] >= limit:
            raise self._too_many(short, kind, limit, caller)
        self._open[key] += 1
        return lambda: self._ended(key)

    def _ended(self, key: tuple[str, str]) -> None:
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    def _too_many(self, method: str, kind: str, limit: int, caller: Caller) -> Exhausted:
        what = "calls" if kind == UNARY else f"{kind} streams"
        message = f"{method}: {counted_for(caller) or 'the caller'} has {limit} {what} open here, and no more may be"
        reason = RefusalReason.TOO_MANY_OPEN.value
        self._refusals.record(method, reason, caller, message)
        remedy = "end some that are not needed any more; or let some of the processes call under another principal"
        return Exhausted(message, remedy=remedy, metadata={REFUSAL_FACT: reason, "limit": str(limit)})
