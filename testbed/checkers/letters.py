"""I12, dead letters: progress passes a given-up record only once its copy is written; a replay sends every letter.

Letters are judged by what a broker wrote: by the place in their headers, and by their values.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import BraidError
from testbed.checkers.checking import Instant
from testbed.checkers.envelopes import stated
from testbed.checkers.facts import (
    Appended,
    Committed,
    DeadLettered,
    Destroyed,
    Fact,
    Failed,
    LogId,
    Place,
    Processed,
    Rejected,
    ReplayAsked,
    Replayed,
    ReplayEnded,
    ReplayMade,
    ReplayMoved,
)

DLQ_LANE: Final = "dlq"
_NAMED_MAX: Final = 5


def lane_of(topic: str) -> str:
    """The lane of a channel's topic, `braid.<stream>.<lane>.<generation>`."""
    return topic.split(".")[-2]


class LettersFirst(Instant):
    """I12: no stored commit claims a failed record, and none digests one, before its copy is written.

    The copy must be in the dlq lane of its record's stream, and hold the record at the place in its headers. I3 checks
    whether anything accounts for an offset; this checker, whether that is a letter that can be replayed. Records beyond
    a log's lost end are not judged: those there now are not the ones that failed.
    """

    invariant = "I12 letters first"
    heeds: Sequence[type] = (Appended, Destroyed, Failed, Processed, Rejected, DeadLettered, Committed)

    def __init__(self) -> None:
        self._written: set[tuple[Place, bytes]] = set()
        self._settled: dict[tuple[str, LogId], set[int]] = {}
        self._failed: dict[tuple[str, LogId], set[int]] = {}
        self._cut_at: dict[LogId, int] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Appended(place=place, value=value):
                self._written.add((place, value))
            case Destroyed(log=log, first=first):
                self._cut_at[log] = min(first, self._cut_at.get(log, first))
            case Failed(group=group, place=place):
                key = group, place.log
                if place.offset not in self._settled.get(key, ()):
                    self._failed.setdefault(key, set()).add(place.offset)
            case Processed(group=group, place=place) | Rejected(group=group, place=place):
                self._settle(group, place)
            case DeadLettered():
                yield from self._copied(fact)
            case Committed():
                yield from self._committed(fact)
            case _:
                pass

    def _settle(self, group: str, place: Place) -> None:
        key = group, place.log
        self._settled.setdefault(key, set()).add(place.offset)
        self._failed.get(key, set()).discard(place.offset)

    def _copied(self, letter: DeadLettered) -> Iterator[str]:
        if (letter.place, letter.value) not in self._written:
            yield f"the letter at {letter.copy} is of {letter.place}, where {letter.value!r} was never written"
        elif letter.copy is not None and not _in_dlq_lane(letter.copy, letter.place):
            yield f"the copy of {letter.place} lies at {letter.copy}, and not in its stream's dlq lane"
        else:
            self._settle(letter.group, letter.place)

    def _committed(self, commit: Committed) -> Iterator[str]:
        failed = self._failed.get((commit.group, commit.log))
        if not failed:
            return
        end = self._cut_at.get(commit.log)
        judged = [offset for offset in sorted(failed) if end is None or offset < end]
        try:
            claims = [claim for fields in stated(commit) for claim in fields.claims]
        except BraidError:  # which is I3's business
            return
        claimed = [offset for offset in judged if any(first <= offset < stop for first, stop in claims)]
        if claimed:
            named = claimed[:_NAMED_MAX]
            yield f"{commit.group} claims {named} of {commit.log}, which failed and have no copy in the dlq lane"


def _in_dlq_lane(copy: Place, origin: Place) -> bool:
    return lane_of(copy.topic) == DLQ_LANE and copy.topic.split(".")[:-2] == origin.topic.split(".")[:-2]


_Cursor = tuple[int, int, int]  # of a letter: generation of its channel, partition, offset


@dataclass(eq=False)
class _Job:
    """One replay: the letters it must send, in order, by value; and what was sent and handled since it was
    requested."""

    owed: list[tuple[_Cursor, bytes]]
    sent: Counter[bytes] = field(default_factory=Counter)
    handled: set[bytes] = field(default_factory=set)
    over: bool = False

    def unsent(self, through: _Cursor | None = None) -> list[bytes]:
        """Letters up to one (None: all) that must be sent and were not."""
        due = Counter(value for at, value in self.owed if through is None or at <= through)
        return sorted((due - self.sent).elements())


class WholeReplays:
    """I12: a replay of N letters sends each at least once, despite crashes, and its group handles each.

    At every step in its history, all earlier letters are sent; when it has ended, all are; at the end of the run, all
    are handled at their destination. A replay must send the letters written before it was requested, if its own count
    is as high. A replay with a lower count was created while a cluster was unavailable, and is not judged.
    """

    invariant = "I12 replays"
    heeds: Sequence[type] = (DeadLettered, Replayed, Processed, ReplayAsked, ReplayMade, ReplayMoved, ReplayEnded)

    def __init__(self, group: str) -> None:
        self._group = group
        # By place and value of a record, for a log that is cut gives its offsets again: where the first copy lies.
        self._letters: dict[tuple[Place, bytes], _Cursor] = {}
        self._asked: _Job | None = None
        self._jobs: dict[str, _Job] = {}
        self._sent_to: dict[Place, bytes] = {}
        self._over: set[str] = set()

    @property
    def letters(self) -> int:
        """The number of letters; two copies of one count once."""
        return len(self._letters)

    @property
    def shared_places(self) -> int:
        """The number of letters whose record shares its place with another record that was given up."""
        return len(self._letters) - len({place for place, _ in self._letters})

    @property
    def held(self) -> int:
        """The number of replays that were judged."""
        return len(self._jobs)

    def over(self, replay: str) -> bool:
        """Whether a replay has ended, in whatever way."""
        return replay in self._over

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case DeadLettered(value=value, group=self._group, place=place, copy=Place() as copy):
                at = _cursor(copy)
                self._letters[place, value] = min(at, self._letters.get((place, value), at))
            case Replayed(value=value, group=self._group, place=place):
                self._sent_to[place] = value
                for job in self._at_work():
                    job.sent[value] += 1
            case Processed(group=self._group, place=place) if place in self._sent_to:
                for job in self._jobs.values():
                    job.handled.add(self._sent_to[place])
            case ReplayAsked():
                self._asked = _Job(sorted((at, value) for (_, value), at in self._letters.items()))
            case ReplayMade(replay=replay, letters=letters):
                if self._asked is not None and letters >= len(self._asked.owed):
                    self._jobs[replay] = self._asked
            case ReplayMoved(replay=replay) if replay in self._jobs:
                yield from self._moved(fact, self._jobs[replay])
            case ReplayEnded(replay=replay):
                self._over.add(replay)
                if replay in self._jobs:
                    yield from self._ended(fact, self._jobs[replay])
            case _:
                pass

    def _at_work(self) -> list[_Job]:
        jobs = list(self._jobs.values())
        if self._asked is not None and self._asked not in jobs:
            jobs.append(self._asked)
        return [job for job in jobs if not job.over]

    def _moved(self, moved: ReplayMoved, job: _Job) -> Iterator[str]:
        if moved.skipped:
            yield f"replay {moved.replay} left {moved.skipped} letters out"
        if unsent := job.unsent(moved.letter):
            yield f"replay {moved.replay} is beyond {len(unsent)} letters that it did not send: {unsent[:_NAMED_MAX]}"

    def _ended(self, ended: ReplayEnded, job: _Job) -> Iterator[str]:
        job.over = True
        if ended.why:
            yield f"replay {ended.replay} ended: {ended.why}"
        elif unsent := job.unsent():
            yield f"replay {ended.replay} is over and did not send {len(unsent)} letters: {unsent[:_NAMED_MAX]}"

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        for replay, job in self._jobs.items():
            if not job.over:
                yield f"replay {replay} is not over"
            left = sorted({value for _, value in job.owed} - job.handled)
            if left:
                yield f"of replay {replay}, {len(left)} letters were never handled again: {left[:_NAMED_MAX]}"


def _cursor(copy: Place) -> _Cursor:
    return int(copy.topic.rpartition(".")[2]), copy.partition, copy.offset
