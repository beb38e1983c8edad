"""I5 exclusive groups: no two members handle records of one partition at the same time."""

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, HandlerEnded, HandlerStarted, Killed, LogId, Paused


@dataclass
class _Running:
    member: str  # a process, or one of several members in it: `process/1`
    log: LogId
    excused: bool = False  # its process was stopped meanwhile: nothing but the sink can help


class ExclusiveHolders(Instant):
    """I5: handler intervals of one partition under two holders never overlap, those of frozen processes excepted."""

    invariant = "I5 exclusive"
    heeds = (HandlerStarted, HandlerEnded, Paused, Killed)

    def __init__(self, group: str) -> None:
        self._group = group
        self._running: dict[tuple[str, int], _Running] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case HandlerStarted(group=self._group):
                yield from self._started(fact)
            case HandlerEnded(process=process, handler=handler):
                self._running.pop((process, handler), None)
            case Paused(process=process):
                for running in self._running.values():
                    running.excused = running.excused or _process_of(running.member) == process
            case Killed(process=process):
                self._running = {key: one for key, one in self._running.items() if _process_of(one.member) != process}
            case _:
                pass

    def _started(self, fact: HandlerStarted) -> Iterator[str]:
        for other in self._running.values():
            if other.log == fact.log and other.member != fact.process and not other.excused:
                yield f"{fact.process} handles a record of {fact.log} while {other.member} does"
        self._running[fact.process, fact.handler] = _Running(fact.process, fact.log)


def _process_of(member: str) -> str:
    return member.partition("/")[0]
