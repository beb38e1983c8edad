"""Fetched bytes of one partition, decoded as far as the caller asks and no further.

Batches may be hostile. A batch that cannot be decoded is reported as `DamagedBatch` and passed. A wrong checksum may
come from the way here, so that batch is fetched once more before it counts as damaged.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from operator import lt
from typing import NamedTuple

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord

from braid.kafka.batches.batch import (
    DAMAGE,
    BadChecksum,
    Frame,
    Inflater,
    NoFrame,
    Unreadable,
    check,
    columns_in,
    read_frame,
    reader_of,
    why_not,
)
from braid.kafka.batches.decompress import DoesNotFit
from braid.kafka.batches.large import LargeBatch, Piece
from braid.kafka.batches.reader import BatchReader
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import COLUMN_BATCH_BYTES_MAX, COLUMN_TOGETHER_RECORDS, INFLATED_INLINE_BYTES_MAX
from braid.kernel.ports import DamagedBatch, FetchedColumns, FetchedRecords, Isolation, KafkaRecord, TopicPartition
from braid.kernel.record_columns import RecordColumns, columns_of


class _Opened(NamedTuple):
    """A batch, or a piece of it, that was checked and inflated, or the error; neither if the batch has ended."""

    piece: Piece | None
    error: BaseException | None = None


class Chunk:
    """The records of one fetch answer from an offset on, and how far they were handed out.

    Attributes:
        next_offset: Where the next fetch or `take` goes on.
        used_up: Whether there is nothing more in here.
        large: Whether the next batch, or the next piece of one, takes too long for the event loop: call `open_large`
            elsewhere, then `take`.
        suspect: The offset at which the bytes were damaged, perhaps only on their way: to be fetched once more.
        failure: The bytes at `next_offset` were no batch twice.
        leader_epoch: The newest of the leaders that took what was opened, and what was fetched before.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        data: bytes,
        aborted: Sequence[tuple[int, int]],
        isolation: Isolation,
        *,
        end: int,
        suspect: int | None = None,
        leader_epoch: int = -1,
        keep_damaged_bytes: int = 0,
    ) -> None:
        """Holds undecoded bytes.

        Args:
            partition: Whose they are, for errors.
            offset: What was asked for; the first batch may begin before it.
            data: Record batches.
            aborted: Producer id and first offset of the transactions aborted in here, as the broker told.
            isolation: Whether aborted records are left out.
            end: The log's end, as the broker told.
            suspect: What the chunk before this one left as its `suspect`.
            leader_epoch: What it left as its `leader_epoch`.
            keep_damaged_bytes: Of each damaged batch, to be told with it.
        """
        self.next_offset = offset
        self.used_up = False
        self.large = False
        self.suspect: int | None = None
        self.failure: ClusterUnavailable | None = None
        self.leader_epoch = leader_epoch
        self._partition = partition
        self._data = memoryview(data)
        self._at = 0
        self._end = end
        self._keep_damaged_bytes = keep_damaged_bytes
        self._was_suspect = suspect
        self._committed_only = isolation is Isolation.READ_COMMITTED
        self._aborted = sorted(aborted, key=lambda transaction: transaction[1])
        self._aborting: set[int] = set()
        self._opened: _Opened | None = None
        self._pieces: LargeBatch | None = None  # the large batch whose pieces are handed out
        self._pieces_from: int | None = None  # `next_offset` when the first of them came; None until then
        self._batch: BatchReader | None = None
        self._many_at_once = True
        self._damaged: list[DamagedBatch] = []

    @property
    def size_bytes(self) -> int:
        """The size of the answer, which is kept until it is used up."""
        return len(self._data)

    def take(self, limit: int, inflater: Inflater) -> FetchedRecords:
        """Decodes up to `limit` further records and moves `next_offset` past them, and past offsets without records.

        Brings fewer when the turn's part of the event loop is used, and where `used_up` or `large` become true.
        """
        taken: list[KafkaRecord] = []

        def take(batch: BatchReader, room: int) -> int:
            before = len(taken)
            self._take_from_batch(batch, taken, room)
            return len(taken) - before

        damaged = self._fill(limit, inflater, take)
        return FetchedRecords(self._partition, taken, self.next_offset, damaged, self.leader_epoch)

    def take_columns(self, limit: int, inflater: Inflater, names: Sequence[str], whole: bool = False) -> FetchedColumns:
        """Takes like `take`, but as columns with the headers of these names; `whole` cuts no batch but the first."""
        parts: list[RecordColumns] = []
        loose: list[KafkaRecord] = []  # of batches read one by one: together they make a part

        def bind() -> None:
            nonlocal loose
            if loose:
                parts.append(columns_of(loose, names))
                loose = []  # the part keeps the one it was made of

        def take(batch: BatchReader, room: int) -> int:
            together = self._take_together(batch, room, inflater, names)
            if together is not None:
                bind()
                parts.append(together)
                return len(together)
            columns = batch.columns(self.next_offset, names)
            if columns is None:
                before = len(loose)
                self._take_from_batch(batch, loose, room)
                return len(loose) - before
            bind()
            part = columns.of(slice(room))
            if len(part):
                self._pass(int(part.offsets[-1]))
                parts.append(part)
            if len(part) == len(columns):
                self._finish(batch)
            return len(part)

        damaged = self._fill(limit, inflater, take, whole=whole)
        bind()
        return FetchedColumns(self._partition, parts, self.next_offset, damaged, self.leader_epoch)

    def _fill(
        self, limit: int, inflater: Inflater, take: Callable[[BatchReader, int], int], *, whole: bool = False
    ) -> Sequence[DamagedBatch]:
        """Takes records of batches; returns damaged ones. `whole`: a batch that would be cut waits for the next."""
        count = 0
        while (room := limit - count - len(self._damaged)) > 0:
            if self._batch is not None:
                if whole and count and not self._batch.begun and self._batch.frame.records > room:
                    break  # each part costs some 200 µs, however few its records are
                count += take(self._batch, room)
            elif self.used_up or self.large or inflater.left <= 0:
                break
            else:
                self._open_next(inflater)
        damaged, self._damaged = self._damaged, []
        return damaged

    def open_large(self) -> None:
        """Checks the batch that `large` means, and inflates its next piece; runs in a thread, alone with the chunk."""
        try:
            if self._pieces is None:
                frame = read_frame(self._data, self._at)
                assert frame is not None, "it was seen before"
                check(frame)
                if frame.is_control:
                    raise Unreadable(f"a control batch of {len(frame.raw)} bytes")
                self._pieces = LargeBatch(frame)
            self._opened = _Opened(self._pieces.next())
        except (*DAMAGE, DoesNotFit) as error:
            self._opened = _Opened(None, error)
        self.large = False

    def _take_from_batch(self, batch: BatchReader, taken: list[KafkaRecord], limit: int) -> None:
        """Adds records of the current batch. If one cannot be decoded, the batch is damaged from there on."""
        frame, before, wrong = batch.frame, len(taken), None
        try:
            taken.extend(islice(batch.records(self.next_offset), limit))  # what came before an error stays
        except DAMAGE as error:
            wrong = error
        offsets = [record.offset for record in islice(taken, before, None)]
        if offsets and not (
            self.next_offset <= offsets[0]
            and offsets[-1] <= frame.last_offset
            and all(map(lt, offsets, islice(offsets, 1, None)))
        ):
            del taken[before:]
            wrong = ValueError("its offsets are out of order")
        elif offsets:
            self.next_offset = offsets[-1] + 1
        if wrong is not None:
            self._end_with(frame, wrong)
        elif len(offsets) < limit:
            self._finish(batch)

    def _finish(self, batch: BatchReader) -> None:
        """Ends the current batch or piece, all of which was handed out."""
        self._batch = None
        if batch.piece.last:
            self._end_with(batch.frame, None)

    def _end_with(self, frame: Frame, wrong: BaseException | None) -> None:
        """Passes the rest of a batch that was begun."""
        self._batch = self._pieces = self._pieces_from = None
        if wrong is None:
            self._pass(frame.last_offset)
        else:
            self._pass_damaged(frame, wrong, frame.last_offset)

    def _take_together(
        self, batch: BatchReader, limit: int, inflater: Inflater, names: Sequence[str]
    ) -> RecordColumns | None:
        """The rest of a batch and all of some behind it, where batches are small; None when that cannot be.

        What lies behind is only looked at: a batch that is not simply sound ends the look, and is opened in its turn.
        """
        if (
            not (self._many_at_once and batch.piece.last)
            or batch.begun
            or not 0 < batch.frame.records < min(limit, COLUMN_TOGETHER_RECORDS)
        ):
            return None
        found = [(batch.frame, batch.plain)]
        at, left, room = self._at, inflater.left, limit - batch.frame.records
        size = len(batch.plain)
        while left > 0 and room > 0 and (next_one := self._sound_at(at, inflater)) is not None:
            size += len(next_one[1])
            if next_one[0].records > room or size > COLUMN_BATCH_BYTES_MAX:
                break
            found.append(next_one)
            room -= next_one[0].records
            at += len(next_one[0].raw)
            left -= len(next_one[0].raw) + (len(next_one[1]) if next_one[0].codec else 0)
        columns = columns_in(found, names)
        if columns is None:
            self._many_at_once = False  # one look for each chunk is enough
            return None
        columns = columns.of(slice(columns.offsets.searchsorted(self.next_offset), None))
        self._at, inflater.left = at, left
        self.leader_epoch = max(self.leader_epoch, found[-1][0].leader_epoch)
        self._end_with(found[-1][0], None)
        return columns

    def _sound_at(self, at: int, inflater: Inflater) -> tuple[Frame, memoryview] | None:
        """Opens the batch at a place, if it is small, sound and deliverable whatever became of transactions."""
        try:
            frame = read_frame(self._data, at)
            if frame is None or len(frame.raw) > INFLATED_INLINE_BYTES_MAX:
                return None
            check(frame)
            if frame.is_control or frame.is_transactional or frame.records >= COLUMN_TOGETHER_RECORDS:
                return None
            return frame, inflater.inflate(frame) if frame.codec else frame.raw
        except (*DAMAGE, NoFrame, DoesNotFit):
            return None

    def _open_next(self, inflater: Inflater) -> None:
        """Makes the next batch current if it has deliverable records; passes it if not, or if it is damaged."""
        if self._pieces_from is not None:
            self._open_piece(inflater)
            return
        frame = self._next_frame()
        if frame is None:
            return
        opened, self._opened = self._opened or self._open(frame, inflater), None
        if opened is None:
            self.large = True
            return
        self._at += len(frame.raw)
        self.leader_epoch = max(self.leader_epoch, frame.leader_epoch)
        inflater.left -= len(frame.raw)
        if opened.error is not None:
            self._pieces = None
            self._judge(frame, opened.error)
        elif opened.piece is None or not self._deliverable(frame) or frame.last_offset < self.next_offset:
            self._end_with(frame, None)
        else:
            self._pieces_from = None if self._pieces is None else self.next_offset
            self._begin(opened.piece, inflater)

    def _open_piece(self, inflater: Inflater) -> None:
        """Makes the next piece current; passes the rest of its batch if that is damaged."""
        assert self._pieces is not None and self._pieces_from is not None, "it has handed out a piece"
        opened, self._opened = self._opened, None
        if opened is None:
            self.large = True
        elif opened.piece is None:
            self._end_with(self._pieces.frame, opened.error)
        elif self._pieces_from < self.next_offset and (opened.piece.first or 0) < self.next_offset:
            self._end_with(self._pieces.frame, ValueError("its offsets are out of order"))
        else:
            self._begin(opened.piece, inflater)

    def _begin(self, piece: Piece, inflater: Inflater) -> None:
        inflater.left -= len(piece.plain) if piece.is_cut or piece.frame.codec else 0
        self._batch = BatchReader(piece)

    def _next_frame(self) -> Frame | None:
        """Returns the next batch; None, with the reason noted, if there is none."""
        try:
            frame = read_frame(self._data, self._at)
        except NoFrame as error:
            self._lose(str(error))
            return None
        if frame is None:
            self.used_up = True
            if self._at == 0:  # brokers cut the last batch of an answer, never the first (KIP-74)
                self._lose(f"{len(self._data)} bytes that are no whole batch")
        return frame

    def _open(self, frame: Frame, inflater: Inflater) -> _Opened | None:
        """Checks and inflates a batch; None when that takes too long for the event loop."""
        if len(frame.raw) > INFLATED_INLINE_BYTES_MAX:
            return None
        try:
            check(frame)
            if not self._deliverable(frame):
                return _Opened(None)
            return _Opened(Piece(frame, inflater.inflate(frame) if frame.codec else frame.raw))
        except DoesNotFit:
            inflater.left -= INFLATED_INLINE_BYTES_MAX
            return None
        except DAMAGE as error:
            return _Opened(None, error)

    def _deliverable(self, frame: Frame) -> bool:
        """Whether records of a sound batch are for the caller. The answer for one batch never changes."""
        if self._committed_only:
            while self._aborted and self._aborted[0][1] <= frame.base_offset:
                self._aborting.add(self._aborted.pop(0)[0])
            if frame.is_control:
                if ControlRecord.parse(next(reader_of(frame, frame.raw)).key) == ABORT_MARKER:
                    self._aborting.discard(frame.producer_id)
            elif frame.is_transactional and frame.producer_id in self._aborting:
                return False
        return not frame.is_control

    def _judge(self, frame: Frame, error: BaseException) -> None:
        """Passes a batch that is surely damaged; ends the chunk before one that may be intact when fetched again."""
        if not isinstance(error, BadChecksum):
            self._pass_damaged(frame, error, frame.last_offset)
        elif self._was_suspect == self.next_offset:
            self._pass_damaged(frame, error, self._last_offset_of_changed(frame))
        else:
            self.suspect = self.next_offset
            self.used_up = True

    def _last_offset_of_changed(self, frame: Frame) -> int:
        """Returns where a batch with an untrusted head ends: before the next batch, or at its lowest claim."""
        try:
            behind = read_frame(self._data, self._at)
        except NoFrame:
            behind = None
        if behind is not None and behind.base_offset > frame.base_offset:
            return behind.base_offset - 1
        least = min(frame.base_offset + max(frame.records, 1) - 1, frame.last_offset)
        last = least if least >= self.next_offset else frame.last_offset
        return max(self.next_offset, min(last, self._end - 1))

    def _pass_damaged(self, frame: Frame, error: BaseException, last: int) -> None:
        first = max(self.next_offset, frame.base_offset)
        if first <= last:
            size, newest_ms = len(frame.raw), max(0, frame.newest_ms)
            raw = bytes(frame.raw[: self._keep_damaged_bytes])
            self._damaged.append(
                DamagedBatch(first, last, why_not(frame, error), frame.attributes, size, newest_ms, raw)
            )
        self._pass(last)

    def _pass(self, last: int) -> None:
        self.next_offset = max(self.next_offset, last + 1)

    def _lose(self, what: str) -> None:
        """Ends the chunk where bytes are no batches; the first time they may have suffered on their way."""
        self.used_up = True
        if self._was_suspect != self.next_offset:
            self.suspect = self.next_offset
            return
        topic, number = self._partition
        self.failure = ClusterUnavailable(
            f"{topic} partition {number} holds no batch at offset {self.next_offset}, but {what}",
            metadata={"topic": topic, "partition": str(number), "offset": str(self.next_offset)},
        )
