"""Values that may name a schema, read by it; those that name none are read as they are."""

import json
from collections.abc import Sequence
from typing import Final

from braid.client.reading.record_filter import NO_JSON
from braid.kernel.limits.client import FILTER_PARSED_BYTES
from braid.kernel.ports import KafkaRecord
from console.server.limits import (
    MESSAGES_PREVIEW_BYTES,
    SCHEMA_PREVIEW_BYTES,
    SCHEMAS_PER_ANSWER_MAX,
)
from console.server.messages.decoding import AUTO, Shown, shortened, shown_as
from console.server.messages.schemas.decoders import Decoder
from console.server.messages.schemas.registry import SchemaRegistry, Unknown
from console.server.messages.schemas.wire import Framed, framed
from console.server.messages.values import PlainValues

_TOO_DEEP: Final = "it is nested too deep"


class DecodedValues:
    """Values of one answer, some of which name their schema.

    Args:
        registry: Knows schemas.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._plain = PlainValues(AUTO)
        self._asked: set[int] = set()

    async def prepare(self, records: Sequence[KafkaRecord]) -> None:
        """See `Values`: asks for schemas, a bounded number for one answer."""
        frames = (framed(each.value) for each in records)
        ids = list(dict.fromkeys(each.schema_id for each in frames if each is not None))
        wanted = [each for each in ids if self._registry.wants(each) and each not in self._asked]
        wanted = wanted[: SCHEMAS_PER_ANSWER_MAX - len(self._asked)]
        self._asked.update(wanted)
        await self._registry.load(wanted)

    def parsed(self, record: KafkaRecord) -> object:
        """See `Values`."""
        frame = framed(record.value)
        if frame is None:
            return self._plain.parsed(record)
        try:
            return self._decoded(frame, FILTER_PARSED_BYTES)[1]
        except ValueError:
            return NO_JSON

    def preview(self, record: KafkaRecord) -> Shown:
        """See `Values`."""
        frame = framed(record.value)
        if frame is None:
            return self._plain.preview(record)
        return shortened(self._shown(record, frame, SCHEMA_PREVIEW_BYTES, MESSAGES_PREVIEW_BYTES))

    def whole(self, record: KafkaRecord, most: int) -> Shown:
        """See `Values`."""
        frame = framed(record.value)
        if frame is None:
            return self._plain.whole(record, most)
        return self._shown(record, frame, FILTER_PARSED_BYTES, most)

    def _shown(self, record: KafkaRecord, frame: Framed, decoded_most: int, most: int) -> Shown:
        schema = str(frame.schema_id)
        try:
            form, value = self._decoded(frame, decoded_most)
            text = json.dumps(value, ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else _TOO_DEEP
            return shown_as(record.value, "hex", most)._replace(reason=reason, schema=schema)
        return Shown(form, text[:most], len(text) > most, schema=schema)

    def _decoded(self, frame: Framed, most: int) -> tuple[str, object]:
        """The form and the value as JSON has it. Raises `ValueError` with the reason."""
        if len(frame.payload) > most:
            raise ValueError(f"it has more than {most} bytes: it is decoded when it is opened, or not at all")
        decoder = self._registry.find(frame.schema_id)
        if not isinstance(decoder, Unknown):
            return decoder.form, _decoded_by(decoder, frame.payload)
        raise ValueError(decoder.reason)


def _decoded_by(decoder: Decoder, payload: bytes) -> object:
    try:
        return _plain(decoder.decode(payload))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _plain(value: object) -> object:
    """A decoded value as JSON has it: bytes as hexadecimal, times and ids as text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
