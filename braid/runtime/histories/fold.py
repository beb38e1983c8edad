"""One history in memory: folds recorded bytes into state, remembers request ids, makes snapshots of both. No I/O."""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.archive.chain import Mark, is_mark
from braid.kernel.decider import Context, PiecewiseCodec
from braid.kernel.errors import Compacted, CorruptHistory
from braid.kernel.limits.runtime import REQUESTS_REMEMBERED_MAX
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import HistoryId, Loaded, Snapshot
from braid.runtime.histories.kinds import Kind, RecordedEvent

_FRAME = struct.Struct(">4sII")  # magic, CRC-32 of the rest, length of the request ids
_MAGIC = b"BSN1"
_REMEDY = "run a release that knows these events, or restore the store from a backup"


def state_hash(kind: Kind[object, object, object], state: object) -> str:
    """SHA-256 of a state's canonical bytes: equal for equal states, however they were reached."""
    return hashlib.sha256(kind.codec.encode_state(state)).hexdigest()


@dataclass(frozen=True, slots=True)
class PinnedState:
    """A state to be saved as a snapshot. States never change, so encoding it can wait and be interrupted.

    Attributes:
        kind: The kind of its history.
        sequence: Sequence of the last event it contains.
        state: The state.
        requests: Keys of the requests remembered at that time.
    """

    kind: Kind[object, object, object]
    sequence: int
    state: object
    requests: tuple[str, ...]

    def pieces(self) -> Iterator[bytes]:
        """The state's canonical bytes in pieces, each encoded on demand; small ones if the codec supports that."""
        codec = self.kind.codec
        if isinstance(codec, PiecewiseCodec):
            yield from codec.state_pieces(self.state)
        else:
            yield codec.encode_state(self.state)

    def framed(self, pieces: Sequence[bytes], mark: Mark | None = None) -> Snapshot:
        """The snapshot made of all `pieces`; with a mark it vouches for archived events."""
        marks = [mark.text()] if mark else []
        requests = json.dumps([*marks, *self.requests], separators=(",", ":")).encode()
        body = b"".join((requests, *pieces))
        return Snapshot(self.sequence, _FRAME.pack(_MAGIC, zlib.crc32(body), len(requests)) + body)


class Frame(NamedTuple):
    """The content of a snapshot.

    Attributes:
        requests: Keys of the requests remembered at that time.
        mark: Its statement about the events it replaces; None from releases or meshes without an archive.
        state: The state's canonical bytes.
    """

    requests: Sequence[str]
    mark: Mark | None
    state: bytes


def open_frame(snapshot: Snapshot) -> Frame:
    """Splits a snapshot's bytes into its parts.

    Raises:
        CorruptHistory: they are damaged, or in an unknown format.
    """
    if len(snapshot.data) < _FRAME.size:
        raise CorruptHistory("the snapshot is cut short")
    magic, checksum, length = _FRAME.unpack_from(snapshot.data)
    body = snapshot.data[_FRAME.size :]
    if magic != _MAGIC or zlib.crc32(body) != checksum or length > len(body):
        raise CorruptHistory("the snapshot is damaged or of an unknown format")
    try:
        keys = [str(key) for key in json.loads(body[:length])]
    except (ValueError, TypeError) as error:
        raise CorruptHistory("the snapshot's requests do not decode") from error
    # An older release copies a mark from snapshot to snapshot as if it were a request: then it is of another sequence.
    found = (Mark.parse(key) for key in keys if is_mark(key))
    mark = next((each for each in found if each and each.sequence == snapshot.sequence), None)
    return Frame([key for key in keys if not is_mark(key)], mark, body[length:])


class Fold:
    """A history folded up to `sequence`.

    Snapshots lag by one interval (`SNAPSHOT_EVERY_EVENTS`), so that recent events stay readable for people: a state is
    pinned at the end of an append, never within one, and becomes `due` when the next one is pinned.
    """

    __slots__ = (
        "_pinned",
        "_requests",
        "_snapshot_sequence",
        "due",
        "history",
        "interval_ended",
        "kind",
        "revision",
        "sequence",
        "state",
        "time_ms",
    )

    def __init__(self, history: HistoryId, kind: Kind[object, object, object]) -> None:
        self.history = history
        self.kind = kind
        self.state = kind.decider.initial(history.id)
        self.sequence = 0
        self.revision = 0
        self.time_ms = 0  # of the last event, as its leader's clock had it; 0 where it is not known
        self.due: PinnedState | None = None
        self.interval_ended = False  # set when a state is pinned: what was appended since the last time can be archived
        self._pinned: PinnedState | None = None
        self._snapshot_sequence = 0
        self._requests: dict[str, None] = {}

    def knows(self, tenant: str, request_id: str) -> bool:
        """Whether a recorded event came from this request (of the last `REQUESTS_REMEMBERED_MAX`)."""
        return _request_key(tenant, request_id) in self._requests

    def apply(self, first: int, events: Sequence[bytes], revision: int) -> Sequence[RecordedEvent]:
        """Folds the events of one append; already folded ones are skipped. All or nothing.

        Raises:
            CorruptHistory: bytes do not decode or name an unknown event.
            Compacted: events between `sequence` and `first` are missing.
        """
        recorded = self.decode(first, events, revision)
        state = self.state
        for record in recorded:
            state = self.kind.decider.evolve(state, record.event, record.context)
        self.state = state
        for record in recorded:
            self._remember(record.context)
        if recorded:
            self.sequence, self.time_ms = recorded[-1].sequence, recorded[-1].context.now_ms
            self.revision = max(self.revision, revision)
            self._pin()
        return recorded

    def encode(self) -> bytes:
        """State and remembered requests as bytes, for a snapshot."""
        pinned = self._pinned_now()
        return pinned.framed(list(pinned.pieces())).data

    def _pinned_now(self) -> PinnedState:
        return PinnedState(self.kind, self.sequence, self.state, tuple(self._requests))

    def decode(self, first: int, events: Sequence[bytes], revision: int) -> Sequence[RecordedEvent]:
        """The events among these that are not folded yet. Changes nothing; raises as `apply` does."""
        if events and first > self.sequence + 1:
            raise Compacted(f"{self.history} has no events from {self.sequence + 1} to {first - 1}")
        fresh = enumerate(events[max(0, self.sequence + 1 - first) :], max(first, self.sequence + 1))
        return [self._decode_one(sequence, data, revision) for sequence, data in fresh]

    def _decode_one(self, sequence: int, data: bytes, revision: int) -> RecordedEvent:
        try:
            event, context = self.kind.codec.decode(data)
        except CorruptHistory as error:
            raise self._corrupt(sequence, error.message) from error
        return RecordedEvent(self.history, sequence, revision, event, context, data)

    def _corrupt(self, sequence: int, message: str) -> CorruptHistory:
        facts = {"history": str(self.history), "sequence": str(sequence)}
        return CorruptHistory(f"{self.history} at {sequence}: {message}", remedy=_REMEDY, metadata=facts)

    def _remember(self, context: Context) -> None:
        if not context.request_id:
            return
        self._requests[_request_key(context.tenant, context.request_id)] = None
        while len(self._requests) > REQUESTS_REMEMBERED_MAX:
            del self._requests[next(iter(self._requests))]

    def _pin(self) -> None:
        if self.sequence - self._snapshot_sequence < SNAPSHOT_EVERY_EVENTS:
            return
        self._snapshot_sequence = self.sequence
        self.interval_ended = True
        self.due, self._pinned = self._pinned or self.due, self._pinned_now()

    def restore(self, loaded: Loaded) -> Sequence[RecordedEvent]:
        """Folds loaded events into a fresh history: snapshot, then tail. A tail of two intervals makes a snapshot due
        at once.

        Raises:
            CorruptHistory: the snapshot or an event does not decode.
        """
        if loaded.snapshot is not None:
            self.restore_snapshot(loaded.snapshot)
        start = self.sequence
        recorded = self.apply(loaded.first, loaded.events, loaded.revision)
        self.revision = loaded.revision
        self._pinned, self._snapshot_sequence = None, start
        if self.sequence - start >= 2 * SNAPSHOT_EVERY_EVENTS:
            self.due, self._snapshot_sequence = self._pinned_now(), self.sequence
            self.interval_ended = True
        return recorded

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Adopts a snapshot's state. Raises `CorruptHistory` if it does not decode."""
        try:
            frame = open_frame(snapshot)
            self.state = self.kind.codec.decode_state(frame.state)
        except CorruptHistory as error:
            raise self._corrupt(snapshot.sequence, f"snapshot: {error.message}") from error
        self._requests = dict.fromkeys(frame.requests)
        self.sequence, self.time_ms = snapshot.sequence, frame.mark.time_ms if frame.mark is not None else 0


def _request_key(tenant: str, request_id: str) -> str:
    return f"{tenant}/{request_id}"
