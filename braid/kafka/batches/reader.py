"""Reads the records of one batch, or of a piece of a large one, one by one or as columns."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile

from braid.kafka.batches.batch import columns_in, reader_of
from braid.kafka.batches.large import Piece
from braid.kernel.ports import KafkaRecord
from braid.kernel.record_columns import RecordColumns


class BatchReader:
    """Hands out the records of a batch or piece: one by one, or as columns until the first was handed out."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.frame = piece.frame
        self.plain = piece.plain
        self._iterator: Iterator[KafkaRecord] | None = None
        self._names: Sequence[str] = ()
        self._columns: RecordColumns | None = None

    @property
    def begun(self) -> bool:
        """Whether records may have been handed out."""
        return self._iterator is not None or self._columns is not None

    def records(self, offset: int) -> Iterator[KafkaRecord]:
        """Returns the records not handed out yet, from an offset on."""
        if self._iterator is None:
            self._iterator = _from(reader_of(self.frame, self.plain, cut=self.piece.is_cut), offset)
        return self._iterator

    def columns(self, offset: int, names: Sequence[str]) -> RecordColumns | None:
        """Returns the same records as columns; None if they must be read one by one."""
        if self._iterator is not None:
            return None
        if self._columns is None or self._names != names:
            self._names, self._columns = names, columns_in([(self.frame, self.plain)], names)
            if self._columns is None:
                self.records(offset)
        return (
            None if self._columns is None else self._columns.of(slice(self._columns.offsets.searchsorted(offset), None))
        )


def _from(batch: Iterable[KafkaRecord], offset: int) -> Iterator[KafkaRecord]:
    return dropwhile(lambda record: record.offset < offset, batch)
