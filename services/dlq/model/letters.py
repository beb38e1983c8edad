"""Dead letters as values: what their headers say, and the headers a replayed record gets back. Pure.

Headers of Braid's own dead letters are written by `braid.client.handling.dead_letters`. Those of two other tools are
read too: Spring for Apache Kafka's `DeadLetterPublishingRecoverer` (`kafka_dlt-*`, numbers as big-endian bytes) and
Kafka Connect's dead-letter queue (KIP-298, `__connect.errors.*`, all text). Any other record becomes a letter with an
empty error.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name, read_number
from braid.kernel.limits.dlq import DLQ_HEADER_BYTES_MAX, DLQ_HEADERS_MAX, DLQ_KEY_BYTES_MAX, DLQ_TEXT_BYTES_MAX

Headers = Sequence[tuple[str, bytes]]

ID_HEADER: Final = "braid-id"
INGESTED_HEADER: Final = "braid-ts"
LANE_HEADER: Final = "braid-lane"
REPLAYS_HEADER: Final = "braid-replays"
REPLAY_GROUP_HEADER: Final = "braid-replay-group"
_ORIGINAL: Final = {"braid-dl-origin-id": ID_HEADER, "braid-dl-origin-ts": INGESTED_HEADER}
_BRAID: Final = "braid-dl-"
_SPRING: Final = "kafka_dlt-"
_CONNECT: Final = "__connect.errors."
_RENEWED: Final = frozenset({ID_HEADER, INGESTED_HEADER, LANE_HEADER, REPLAYS_HEADER, REPLAY_GROUP_HEADER})
_DIGITS_MAX: Final = 19  # of a number below 2**63


class LetterPlace(NamedTuple):
    """The place of a letter's copy, which names it: `<stream>/<dlq generation>/<partition>/<offset>`."""

    stream: str
    generation: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @property
    def cursor(self) -> "Cursor":
        """The letter's position among its stream's dead letters."""
        return Cursor(self.generation, self.partition, self.offset)

    @classmethod
    def parse(cls, text: str) -> "LetterPlace":
        """Reads a letter's name. Raises `Invalid`."""
        parts = text.split("/")
        numbers = [number for number in map(read_number, parts[1:]) if number is not None]
        if len(parts) != 4 or len(numbers) != 3:
            raise Invalid(
                f"{text!r} is not a dead letter",
                field="name",
                remedy="write <stream>/<dlq generation>/<partition>/<offset>",
            )
        return cls(check_name(parts[0], "name"), *numbers)


class Cursor(NamedTuple):
    """A position among one stream's dead letters. Replays go through them in this order."""

    generation: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The record's place when it failed; empty and -1 where unknown.

    `topic_id` is the topic's id in hex; a topic that was deleted and created again under its name has another.
    """

    lane: str = ""
    cluster: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    timestamp_ms: int = 0
    epoch: int = 0
    id: str = ""
    ingested_at_ms: int = 0
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter as the index holds it.

    Attributes:
        place: Where its copy lies.
        cluster: The copy's cluster.
        topic: The copy's topic.
        time_ms: When it failed last; the copy's own timestamp if that is unknown.
        key: The beginning of the key.
        headers: Names and the beginnings of the values of the application's first few headers.
        quarantine: Why no handler could receive it; empty for an ordinary record.
        cut: Whether the copy lacks the end of the value.
        replays: How often it was replayed before it failed again.
    """

    place: LetterPlace
    cluster: str
    topic: str
    origin: Origin
    group: str = ""
    attempts: int = 0
    first_failure_ms: int = 0
    last_failure_ms: int = 0
    time_ms: int = 0
    error_class: str = ""
    error_message: str = ""
    value_bytes: int = 0
    quarantine: str = ""
    cut: bool = False
    replays: int = 0
    key: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def error_name(self) -> str:
        """The error's class without its module or package."""
        return self.error_class.rpartition(".")[2]

    @property
    def record_id(self) -> str:
        """The record's `braid-id`; for a record of another tool its coordinates, as in the SDK."""
        origin = self.origin
        return origin.id or f"{origin.cluster}/{origin.topic}/{origin.partition}/{origin.offset}"

    @property
    def identity(self) -> str:
        """A digest of the group, the record's place and the record: two copies of one letter share it.

        A place alone does not identify a record: a log that is truncated and written again, or a topic that is created
        again, assigns its offsets a second time. A record that failed again after a replay to its own place is a new
        letter. Copies may come from different releases, so the digest uses only headers that the first release wrote;
        the log itself is `log`. Empty if the origin is unknown: such a letter has no copies.
        """
        origin = self.origin
        if origin.offset < 0 or not origin.topic:
            return ""
        place = (self.group, origin.cluster, origin.topic, origin.partition, origin.offset)
        text = "\0".join(map(str, (*place, *self._record)))
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()

    @property
    def log(self) -> str:
        """The id of the topic the record was in; empty if unknown, or if the record itself has an id."""
        return "" if self.origin.id else self.origin.topic_id

    @property
    def _record(self) -> tuple[object, ...]:
        """The value that distinguishes the record from others at its place: its id, or else its time, key and size.

        A quarantined batch counts without its size: the consumer chooses how much of it a copy holds.
        """
        if self.origin.id:
            return (self.origin.id, self.replays)
        key = "none" if self.key is None else self.key.hex()
        return (self.origin.timestamp_ms, key, "" if self.quarantine else self.value_bytes)


def repeats(log: str, earlier: Collection[str]) -> bool:
    """Whether a letter is a copy of an earlier one, judged by their logs (see `Letter.log`).

    An unknown log matches any log; but two letters from different known logs come from two records.

    Args:
        log: The letter's log.
        earlier: The logs of all earlier letters of the same `identity`.
    """
    return bool(earlier) and (not log or log in earlier or not any(earlier))


def read_letter(
    place: LetterPlace,
    cluster: str,
    topic: str,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> Letter:
    """Builds a letter from a record of a dlq lane. Never fails: unreadable headers give an emptier letter."""
    headers = _filled(headers)
    last = dict(headers)
    facts = _facts(last)
    cut = _number(last.get("braid-dl-cut"), -1)
    failed_at = _number(facts.get("last-failure"))
    return Letter(
        place=place,
        cluster=cluster,
        topic=topic,
        origin=_origin(facts, last),
        group=_text(facts.get("group")),
        attempts=_number(facts.get("attempts")),
        first_failure_ms=_number(facts.get("first-failure")),
        last_failure_ms=failed_at,
        time_ms=failed_at or timestamp_ms,
        error_class=_text(facts.get("error-class")),
        error_message=_text(facts.get("error-message")),
        value_bytes=cut if cut >= 0 else len(value or b""),
        quarantine=_text(last.get("braid-dl-quarantine")),
        cut=cut >= 0,
        replays=_number(last.get(REPLAYS_HEADER)),
        key=None if key is None else key[:DLQ_KEY_BYTES_MAX],
        headers=_own(headers),
    )


def damaged_letter(place: LetterPlace, cluster: str, topic: str, timestamp_ms: int, why: str) -> Letter:
    """A letter that stands for copies in a dlq lane that cannot be decoded: they are in the log, but unreadable."""
    return read_letter(place, cluster, topic, timestamp_ms, None, None, [("braid-dl-quarantine", why.encode())])


def traceback_of(headers: Headers) -> str:
    """The traceback of the failure, as far as the letter holds it."""
    last = dict(_filled(headers))
    names = ("braid-dl-traceback", "kafka_dlt-exception-stacktrace", "__connect.errors.exception.stacktrace")
    return next((last[name].decode("utf-8", "replace") for name in names if last.get(name)), "")


def original_headers(headers: Headers) -> list[tuple[str, bytes]]:
    """The headers the record had before it became a dead letter."""
    headers = _filled(headers)
    own = [
        (name, value)
        for name, value in headers
        if not name.startswith((_BRAID, _SPRING, _CONNECT)) and name not in (ID_HEADER, INGESTED_HEADER, LANE_HEADER)
    ]
    return own + [(_ORIGINAL[name], value) for name, value in headers if name in _ORIGINAL]


def replay_headers(letter: Letter, original: Iterable[tuple[str, bytes]], group: str) -> list[tuple[str, bytes]]:
    """The headers to send the record with again: its original ones, its identity, and its number of replays.

    Args:
        letter: The letter to replay.
        original: Headers of the original record.
        group: The one group it is for; '' for all.
    """
    own = [(name, value) for name, value in _filled(original) if name not in _RENEWED]
    ingested = letter.origin.ingested_at_ms or letter.origin.timestamp_ms or letter.time_ms
    own += [(ID_HEADER, letter.record_id.encode()), (INGESTED_HEADER, b"%d" % ingested)]
    own.append((REPLAYS_HEADER, b"%d" % (letter.replays + 1)))
    return [*own, (REPLAY_GROUP_HEADER, group.encode())] if group else own


def _filled(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Replaces missing header values by empty ones. Kafka allows headers without a value; Braid's dead letters have
    none."""
    return [(name, value or b"") for name, value in headers]


def _facts(last: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The headers of whichever tool wrote the letter, under Braid's names; numbers as text."""
    if "braid-dl-topic" in last or "braid-dl-error-class" in last:
        return {name.removeprefix(_BRAID): value for name, value in last.items() if name.startswith(_BRAID)}
    if any(name.startswith(_SPRING) for name in last):
        texts = {
            "topic": "original-topic",
            "group": "original-consumer-group",
            "error-class": "exception-fqcn",
            "error-message": "exception-message",
        }
        numbers = {"partition": "original-partition", "offset": "original-offset", "timestamp": "original-timestamp"}
        found = {name: last[_SPRING + theirs] for name, theirs in texts.items() if _SPRING + theirs in last}
        for name, theirs in numbers.items():
            if _SPRING + theirs in last:
                found[name] = b"%d" % int.from_bytes(last[_SPRING + theirs][:8], "big", signed=True)
        return found
    ours = {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "group": "connector.name",
        "error-class": "exception.class.name",
        "error-message": "exception.message",
    }
    return {name: last[_CONNECT + theirs] for name, theirs in ours.items() if _CONNECT + theirs in last}


def _origin(facts: Mapping[str, bytes], last: Mapping[str, bytes]) -> Origin:
    braid = "lane" in facts
    return Origin(
        lane=_text(facts.get("lane")),
        cluster=_text(facts.get("cluster")),
        topic=_text(facts.get("topic")),
        partition=_number(facts.get("partition"), -1),
        offset=_number(facts.get("offset"), -1),
        timestamp_ms=_number(facts.get("timestamp")),
        epoch=_number(facts.get("epoch")),
        id=_text(last.get("braid-dl-origin-id" if braid else ID_HEADER)),
        ingested_at_ms=_number(last.get("braid-dl-origin-ts" if braid else INGESTED_HEADER)),
        topic_id=_text(facts.get("topic-id")),
    )


def _own(headers: Headers) -> tuple[tuple[str, str], ...]:
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        if len(kept) == DLQ_HEADERS_MAX:
            break
        if not name.startswith((_BRAID, _SPRING, _CONNECT)) and name not in _RENEWED:
            kept.append((name[:DLQ_HEADER_BYTES_MAX], _text(value, DLQ_HEADER_BYTES_MAX)))
    return tuple(kept)


def _text(data: bytes | None, bytes_max: int = DLQ_TEXT_BYTES_MAX) -> str:
    return (data or b"")[:bytes_max].decode("utf-8", "replace")


def _number(data: bytes | None, otherwise: int = 0) -> int:
    """A decimal number below 2**63, else `otherwise`."""
    if data is None or not data.isdigit() or len(data) > _DIGITS_MAX:
        return otherwise
    number = int(data)
    return number if number < 1 << 63 else otherwise
