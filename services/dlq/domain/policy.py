"""Replay policy: pace, batch size, which letters are skipped and why, and where letters are sent. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.kernel.filters.grammar import Filter
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
from services.dlq.model.filter import matches, parse_filter
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
    """The stream and lane a job sends to. An empty lane means each letter's own; `origin` says if the stream is its own
    too."""

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
    """The lane a letter is sent to; '' if the stream has no lane for it.

    If the destination names no lane, the letter keeps its own. In another stream that lacks this lane, it goes to
    `live`.
    """
    wanted = destination.lane or letter.origin.lane
    if wanted in lanes and wanted != DLQ_LANE:
        return wanted
    return DEFAULT_LANE if not destination.origin and not destination.lane and DEFAULT_LANE in lanes else ""


def why_skip(letter: Letter, spec: ReplaySpec, lane: str) -> str:
    """Why a letter cannot be sent, according to the index; '' if it can."""
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
    """The number of letters in one batch: small enough that a rate-limited job pauses soon and keeps its rate."""
    if rate_per_s <= 0:
        return REPLAY_BATCH_LETTERS_MAX
    return max(1, min(REPLAY_BATCH_LETTERS_MAX, int(rate_per_s * REPLAY_BATCH_SECONDS)))


def within(letter: Letter, through: Sequence[Position]) -> bool:
    """Whether a letter existed when the job was created."""
    place = letter.place
    return any(
        (each.generation, each.partition) == (place.generation, place.partition) and place.offset < each.next_offset
        for each in through
    )


def sent_by(letter: Letter, replays: Iterable[Replay]) -> list[str]:
    """Jobs that sent a letter again, newest first, according to their histories."""
    found = [replay for replay in replays if _sent(letter, replay)]
    return [each.id for each in sorted(found, key=lambda each: each.id, reverse=True)[:REPLAYS_SHOWN_MAX]]


class LetterState(Enum):
    """The state of a dead letter, numbered as in `dead_letter.proto`."""

    PARKED = 1
    REPLAYING = 2
    REPLAYED = 3
    PARKED_AGAIN = 4
    HANDLED = 5


def state_of(letter: Letter, replays: Iterable[Replay]) -> LetterState:
    """The state of a letter according to the histories of all jobs. They cannot tell whether it was handled.

    A live job that has yet to send the letter takes precedence over jobs that sent it. A replayed record that fails
    again is a new letter.
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
    """Whether a job is done with every letter up to this one."""
    return replay.cursor is not None and letter.place.cursor <= replay.cursor


def _takes(letter: Letter, replay: Replay) -> bool:
    """Whether a job includes a letter, and the index knows no reason to skip it."""
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
    """Limits a replay to `rate` tokens per second (Turner's leaky bucket as a meter). It starts empty, so that a job of
    N letters takes N ÷ rate seconds. It holds at most two batches, so that a stall is not followed by a flood.

    Attributes:
        rate_per_s: 0 for no cap.
        capacity: Most tokens it can hold.
        at: When it was last filled, in seconds of the caller's clock.
    """

    rate_per_s: float
    capacity: float
    at: float
    tokens: float = 0.0

    def wait_seconds(self, count: int, now: float) -> float:
        """Seconds until `count` tokens are available; 0 if they are."""
        if self.rate_per_s <= 0:
            return 0.0
        self._fill(now)
        wait = (count - self.tokens) / self.rate_per_s
        return wait if wait > _ROUNDING_SECONDS else 0.0

    def take(self, count: int, now: float) -> None:
        """Takes tokens, once `wait_seconds` has returned 0 for them."""
        if self.rate_per_s > 0:
            self._fill(now)
            self.tokens -= count

    def _fill(self, now: float) -> None:
        self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.rate_per_s)
        self.at = now
