"""How the partitions of a stream are gone through in the order of time, newest or oldest first. Pure.

Each partition is a log that is read in windows. A record is shown once every other log either has its own next record
at hand, or has none left: so the order over partitions holds, whatever the windows are. What was shown last of each
log is where the next answer goes on.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.client.reading.channel_addresses import ChannelPlace
from braid.kernel.ports import TopicPartition
from braid.rpc.documents import Document
from console.server.limits import MESSAGES_FIRST_WINDOW, MESSAGES_WINDOW_GROWTH, MESSAGES_WINDOW_MAX


class Found(NamedTuple):
    """A record that matches, as a row, with what orders it."""

    time_ms: int
    offset: int
    row: Document


class Window(NamedTuple):
    """Offsets `[low, high)` of one log, to be read as one."""

    low: int
    high: int


@dataclass(eq=False)
class Log:
    """One partition of a channel, as an answer goes over it.

    Attributes:
        place: Its channel.
        partition: Its number.
        backward: Whether it is read from its end towards its start.
        start, end: The bounds of what is to be read; `start` is the log's own first offset.
        began: Where this answer began.
        scanned: How far it was read: what lies beyond is in `found`, or does not match.
        found: Matching records that were read and not shown yet, the next one first.
        absent: Why nothing comes from it; empty while something may.
        window: Records to read next.
    """

    place: ChannelPlace
    partition: int
    backward: bool
    start: int = 0
    end: int = 0
    began: int = 0
    scanned: int = 0
    found: deque[Found] = field(default_factory=deque)
    absent: str = ""
    window: int = MESSAGES_FIRST_WINDOW

    @property
    def key(self) -> str:
        """Names it in requests and answers: `logs/live/7/3`."""
        return f"{self.place.channel}/{self.partition}"

    @property
    def at(self) -> TopicPartition:
        """Names it on its cluster."""
        return TopicPartition(self.place.topic, self.partition)

    @property
    def over(self) -> bool:
        """Whether nothing is left to read of it, shown or not."""
        return self.scanned <= self.start if self.backward else self.scanned >= self.end

    @property
    def waits(self) -> bool:
        """Whether its next record is not known, but may be there."""
        return not self.found and not self.over and not self.absent

    @property
    def position(self) -> int:
        """Where the next answer goes on: everything beyond was shown, or does not match."""
        if not self.found:
            return self.scanned
        return self.found[0].offset + 1 if self.backward else self.found[0].offset

    def next_window(self, room: int) -> Window:
        """The offsets to read next; at most `room` records, and at least one."""
        size = max(1, min(self.window, room, MESSAGES_WINDOW_MAX))
        if self.backward:
            return Window(max(self.start, self.scanned - size), self.scanned)
        return Window(self.scanned, min(self.end, self.scanned + size))

    def read(self, window: Window, records: Sequence[Found]) -> None:
        """Takes the matching records of a window that was read as a whole, in the order of their offsets."""
        self.found.extend(reversed(records) if self.backward else records)
        self.scanned = window.low if self.backward else max(self.scanned, window.high)
        self.window *= MESSAGES_WINDOW_GROWTH

    def cut(self, start: int) -> None:
        """Notes that the log begins later than it did: retention took what lies before."""
        self.start = max(self.start, start)
        if not self.backward:
            self.scanned = max(self.scanned, self.start)


def merge(logs: Iterable[Log], room: int, *, incomplete: bool = False) -> list[Found]:
    """Takes the next records in the order of time, as far as that order is certain, at most so many.

    Args:
        logs: All of them, in one direction.
        room: The most that is taken.
        incomplete: Take what there is, though some logs might have had an earlier one.
    """
    every = list(logs)
    taken: list[Found] = []
    while len(taken) < room and (incomplete or not any(each.waits for each in every)):
        ready = [each for each in every if each.found]
        if not ready:
            break
        best = max(ready, key=_order) if ready[0].backward else min(ready, key=_order)
        taken.append(best.found.popleft())
    return taken


def _order(log: Log) -> tuple[int, str]:
    return (log.found[0].time_ms, log.key)
