"""Values of records in the form that is asked for: as they are, or decoded by what a schema registry says of them."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

from braid.client.reading.record_filter import json_of
from braid.kernel.ports import KafkaRecord
from console.server.messages.decoding import Shown, preview, shown_as


class Values(Protocol):
    """How the values of one answer are read."""

    async def prepare(self, records: Sequence[KafkaRecord]) -> None:
        """Fetches what is needed to read these records, within bounds. Never raises for what a sender wrote."""
        ...

    def parsed(self, record: KafkaRecord) -> object:
        """The value as JSON has it, or `NO_JSON`."""
        ...

    def preview(self, record: KafkaRecord) -> Shown:
        """The beginning of the value, for a row."""
        ...

    def whole(self, record: KafkaRecord, most: int) -> Shown:
        """The value in full, up to a number of bytes."""
        ...


class PlainValues:
    """Values that say by themselves what they are: JSON, text or bytes."""

    def __init__(self, form: str) -> None:
        self._form = form

    async def prepare(self, records: Sequence[KafkaRecord]) -> None:
        """See `Values`: nothing is needed."""

    def parsed(self, record: KafkaRecord) -> object:
        """See `Values`."""
        return json_of(record.value)

    def preview(self, record: KafkaRecord) -> Shown:
        """See `Values`."""
        return preview(record.value, self._form)

    def whole(self, record: KafkaRecord, most: int) -> Shown:
        """See `Values`."""
        return shown_as(record.value, self._form, most)


def parsing_once(values: Values, record: KafkaRecord) -> Callable[[], object]:
    """Reads a record's value when it is first asked for, and then no more."""
    return cache(lambda: values.parsed(record))
