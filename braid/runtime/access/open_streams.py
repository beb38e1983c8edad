"""Open streams, each with what its right is decided from, so that it ends when its caller has lost that right."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from braid.kernel.errors import BraidError
from braid.kernel.limits.access.rights import ACCESS_RECHECK_STREAMS
from braid.kernel.ports import Caller, Clock


class OpenStream(NamedTuple):
    """A stream that is open, as it was asked for."""

    method: str
    request: object | None
    caller: Caller
    end: Callable[[BraidError], None]


class OpenStreams:
    """The open streams of one replica."""

    def __init__(self, clock: Clock, decide: Callable[[OpenStream], BraidError | None]) -> None:
        """`decide` says why a stream must end; None when it may go on."""
        self._clock = clock
        self._decide = decide
        self._open: dict[int, OpenStream] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, stream: OpenStream) -> Callable[[], None]:
        """Looks after a stream until what is returned is called."""
        number = self._next = self._next + 1
        self._open[number] = stream
        return lambda: self._forget(number)

    def look_at(self, principal: str) -> None:
        """Looks at the streams of one principal at once: its grants have changed."""
        self.look_at_callers(lambda caller: caller.principal == principal)

    def look_at_callers(self, chosen: Callable[[Caller], bool]) -> None:
        """Looks at the streams of chosen callers at once."""
        self._look([number for number, each in self._open.items() if chosen(each.caller)])

    async def look_at_all(self) -> None:
        """Looks at all streams, some at a time, so that others have their turn."""
        numbers = list(self._open)
        for start in range(0, len(numbers), ACCESS_RECHECK_STREAMS):
            self._look(numbers[start : start + ACCESS_RECHECK_STREAMS])
            await self._clock.sleep(0)

    def _look(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            stream = self._open.get(number)
            error = self._decide(stream) if stream is not None else None
            if stream is not None and error is not None:
                self._forget(number)
                stream.end(error)

    def _forget(self, number: int) -> None:
        self._open.pop(number, None)
