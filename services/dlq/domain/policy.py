"""Numbers and choices of replays: pace, size of batches, what is left out and why, where the rest goes. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.kernel.ids import DEFAULT_LANE, DLQ_LANE, check_name
from braid.kernel.limits.dlq import (
    REPLAY_BATCH_LETTERS_MAX,
    REPLAY_BATCH_SECONDS,
    REPLAYS_OF_ONE_RECORD_MAX,
    REPLAYS_OPEN_MAX,
    REPLAYS_SHOWN_MAX,
)
from services.dlq.domain.replay import Replay
from services.dlq.model.events import Position, ReplaySpec
from services.dlq.model.filter import Filter, matches, parse_filter
from services.dlq.model.letters import Letter

# A shorter wait counts as none. Tokens and times are floats: after the wait for missing tokens, rounding can leave a
# rest that a clock cannot tell from none, and that rest would be waited for without end. It is no bound of the service,
# so it stands here. At `REPLAY_RATE_MAX` it lets one token pass early, which the bucket then owes; at lower rates less.
_ROUNDING_SECONDS: Final = 1e-6

REPLAYED_TOO_OFTEN: Final = f"replayed {REPLAYS_OF_ONE_RECORD_MAX} times already"
QUARANTINED: Final = "quarantined: the log holds no readable record"
NO_GROUP: Final = "names no group: replay it with broadcast, or elsewhere"
NO_LANE: Final = "its lane is not known or gone: replay it to a lane that exists"
COPY_GONE: Final = "its copy is gone from the log, or cannot be read"
ORIGIN_GONE: Final = "its copy is cut, and the original is gone from the log, or cannot be read"
TOO_LARGE: Final = "larger than its destination takes"


class Destination(NamedTuple):
    """Where a job sends: a stream, a lane ('' for the one each letter came from), and whether it is the origin."""

    stream: str
    lane: str
    origin: bool


def destination_of(spec: ReplaySpec) -> Destination:
    """Reads `spec.destination`. Raises `Invalid`."""
    if not spec.destination:
        return Destination(spec.stream, "", origin=True)
    stream, _, lane = spec.destination.partition("/")
    check_name(stream, "spec.destination")
    if "/" in spec.destination:
        check_name(lane, "spec.destination")
    if lane == DLQ_LANE:
        raise Invalid("a replay cannot go to a dlq lane", field="spec.destination", remedy="name another lane")
    return Destination(stream, lane, origin=False)


def lane_for(letter: Letter, destination: Destination, lanes: Collection[str]) -> str:
    """The lane a letter goes to; '' when there is none for it.

    Without a lane in the destination: the one it came from. Another stream that lacks it gets it by `live`.
    """
    wanted = destination.lane or letter.origin.lane
    if wanted in lanes and wanted != DLQ_LANE:
        return wanted
    return DEFAULT_LANE if not destination.origin and not destination.lane and DEFAULT_LANE in lanes else ""


def why_skip(letter: Letter, spec: ReplaySpec, lane: str) -> str:
    """Why a letter cannot be sent, as far as the index tells; '' when nothing speaks against it."""
    if letter.replays >= REPLAYS_OF_ONE_RECORD_MAX:
        return REPLAYED_TOO_OFTEN
    if letter.quarantine:
        return QUARANTINED
    if not lane:
        return NO_LANE
    if not spec.destination and not spec.broadcast and not letter.group:
        return NO_GROUP
    return ""


def batch_letters(rate_per_s: float) -> int:
    """How many letters go in one batch: few enough that a capped replay pauses soon and keeps its rate."""
    if rate_per_s <= 0:
        return REPLAY_BATCH_LETTERS_MAX
    return max(1, min(REPLAY_BATCH_LETTERS_MAX, int(rate_per_s * REPLAY_BATCH_SECONDS)))


def within(letter: Letter, through: Sequence[Position]) -> bool:
    """Whether a letter was there when the job was created."""
    place = letter.place
    return any(
        (each.generation, each.partition) == (place.generation, place.partition) and place.offset < each.next_offset
        for each in through
    )


def sent_by(letter: Letter, replays: Iterable[Replay]) -> list[str]:
    """Jobs that sent a letter again, newest first, as their histories tell."""
    found = [replay for replay in replays if _sent(letter, replay)]
    return [each.id for each in sorted(found, key=lambda each: each.id, reverse=True)[:REPLAYS_SHOWN_MAX]]


class LetterState(Enum):
    """What became of a letter, numbered as in `dead_letter.proto`."""

    PARKED = 1
    REPLAYING = 2
    REPLAYED = 3
    PARKED_AGAIN = 4
    HANDLED = 5


def state_of(letter: Letter, replays: Iterable[Replay]) -> LetterState:
    """What became of a letter, as the histories of all jobs tell; they cannot tell whether it was handled.

    A job that is not over and has yet to send it counts before those that sent it. A replayed record that fails again
    is another letter.
    """
    taking = [replay for replay in replays if _takes(letter, replay)]
    if any(not replay.ended and not _is_past(letter, replay) for replay in taking):
        return LetterState.REPLAYING
    if any(_is_past(letter, replay) for replay in taking):
        return LetterState.REPLAYED
    return LetterState.PARKED_AGAIN if letter.replays else LetterState.PARKED


def _sent(letter: Letter, replay: Replay) -> bool:
    return _is_past(letter, replay) and _takes(letter, replay)


def _is_past(letter: Letter, replay: Replay) -> bool:
    """Whether a job is done with all up to the letter."""
    return replay.cursor is not None and letter.place.cursor <= replay.cursor


def _takes(letter: Letter, replay: Replay) -> bool:
    """Whether a letter is part of a job, and the index knows no reason to leave it out."""
    spec, place = replay.spec, letter.place
    if spec is None or spec.stream != place.stream:
        return False
    if letter.replays >= REPLAYS_OF_ONE_RECORD_MAX or letter.quarantine or not within(letter, replay.through):
        return False
    return matches(_parsed(spec.filter), letter)


@lru_cache(maxsize=REPLAYS_OPEN_MAX)
def _parsed(text: str) -> Filter:
    return parse_filter(text, "spec.filter")


@dataclass(slots=True)
class TokenBucket:
    """Lets `rate` tokens a second pass, after Turner's leaky bucket as a meter. It begins empty, so that a job of N
    letters takes N ÷ rate from its start on, and it holds at most two batches: a stall is not made up for by a flood.

    Attributes:
        rate_per_s: 0 for no cap.
        capacity: Tokens it holds at most.
        at: When it was looked at last, seconds of the caller's clock.
    """

    rate_per_s: float
    capacity: float
    at: float
    tokens: float = 0.0

    def wait_seconds(self, count: int, now: float) -> float:
        """How long until `count` tokens are there; 0 when they are."""
        if self.rate_per_s <= 0:
            return 0.0
        self._fill(now)
        wait = (count - self.tokens) / self.rate_per_s
        return wait if wait > _ROUNDING_SECONDS else 0.0

    def take(self, count: int, now: float) -> None:
        """Takes tokens, after `wait_seconds` said that they are there."""
        if self.rate_per_s > 0:
            self._fill(now)
            self.tokens -= count

    def _fill(self, now: float) -> None:
        self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.rate_per_s)
        self.at = now
