"""Open streams, each with what its right is decided from, so that it ends when its caller has lost that right."""

from collections.abc import Callable, Hashable, Mapping, Sequence
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
    """The open streams of one replica.

    Streams that need the same decision are kept together. So thousands of members of one application take one.
    """

    def __init__(
        self,
        clock: Clock,
        question: Callable[[OpenStream], Hashable],
        decide: Callable[[OpenStream], BraidError | None],
    ) -> None:
        """Prepares it without streams.

        Args:
            clock: Gives others their turn.
            question: Equal for streams that need the same decision; it must contain the caller's principal.
            decide: Says why a stream must end; None when it and all streams with the same question may go on.
        """
        self._clock = clock
        self._question = question
        self._decide = decide
        self._open: dict[Hashable, dict[int, OpenStream]] = {}
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def add(self, stream: OpenStream) -> Callable[[], None]:
        """Looks after a stream until what is returned is called."""
        number = self._next = self._next + 1
        question = self._question(stream)
        self._open.setdefault(question, {})[number] = stream
        return lambda: self._forget(question, number)

    def look_at(self, principal: str) -> None:
        """Looks at the streams of one principal at once: its grants have changed."""
        self.look_at_callers(lambda caller: caller.principal == principal)

    def look_at_callers(self, chosen: Callable[[Caller], bool]) -> None:
        """Looks at the streams of chosen callers at once."""
        self._look([question for question, streams in self._open.items() if chosen(_first(streams).caller)])

    async def look_at_all(self) -> None:
        """Looks at all streams, some questions at a time, so that others have their turn."""
        questions = list(self._open)
        for start in range(0, len(questions), ACCESS_RECHECK_STREAMS):
            self._look(questions[start : start + ACCESS_RECHECK_STREAMS])
            await self._clock.sleep(0)

    def _look(self, questions: Sequence[Hashable]) -> None:
        for question in questions:
            streams = self._open.get(question, {})
            for number in list(streams):  # numbers only: a tuple for each stream would start the garbage collector
                stream = streams.get(number)
                if stream is None:  # it ended when another one did
                    continue
                error = self._decide(stream)
                if error is None:  # so may the others
                    break
                self._forget(question, number)
                stream.end(error)

    def _forget(self, question: Hashable, number: int) -> None:
        streams = self._open.get(question)
        if streams is not None and streams.pop(number, None) is not None and not streams:
            del self._open[question]


def _first(streams: Mapping[int, OpenStream]) -> OpenStream:
    return next(iter(streams.values()))
