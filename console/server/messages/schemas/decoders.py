"""Decodes values by their schemas: Avro by fastavro, Protobuf by descriptors, JSON as it is. Pure."""

import base64
import binascii
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import fastavro
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FileDescriptor

from console.server.messages.schemas.avro_bounds import Bounds, bounds_of, check_size
from console.server.messages.schemas.proto_text import file_of
from console.server.messages.schemas.wire import message_place

AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
JSON: Final = "json"
_NOT_MADE: Final = "decimal"  # a decimal of a megabyte takes minutes to write in digits: its bytes are shown
Schema = str | list[Any] | dict[Any, Any]  # as fastavro takes it
_GOOGLE: Final = "google/protobuf/"
_KNOWN: Final[Mapping[str, FileDescriptor]] = {
    each.DESCRIPTOR.name: each.DESCRIPTOR
    for each in (
        any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2,
        timestamp_pb2, type_pb2, wrappers_pb2,
    )
}  # fmt: skip
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]*")  # a file's text has other characters


class Described(NamedTuple):
    """A schema as the registry has it, with the schemas that it refers to, those first that others refer to.

    Attributes:
        kind: `AVRO`, `PROTOBUF` or `JSON`.
        text: JSON of Avro; of Protobuf the file, or its serialized descriptor in base 64.
        references: Each by the name under which it is referred to.
    """

    kind: str
    text: str
    references: Sequence[tuple[str, str]] = ()


class Decoder(NamedTuple):
    """Decodes the values of one schema. `decode` raises `ValueError` for what is no such value."""

    form: str
    decode: Callable[[bytes], object]


def decoder_of(described: Described) -> Decoder:
    """The decoder of a schema. Raises `ValueError` where it cannot be used, with the reason."""
    try:
        match described.kind:
            case "AVRO":
                return Decoder(AVRO, _avro(described))
            case "PROTOBUF":
                return Decoder(PROTOBUF, _protobuf(described))
            case "JSON":
                return Decoder(JSON, lambda payload: cast("object", json.loads(payload)))
            case kind:
                raise ValueError(f"its schema is of the unknown kind {kind[:50]}")
    except (KeyError, TypeError, AttributeError, RecursionError, fastavro.schema.SchemaParseException) as error:
        raise ValueError(f"its schema cannot be read: {type(error).__name__}") from error


# --- Avro


def _avro(described: Described) -> Callable[[bytes], object]:
    bounds: dict[str, Bounds] = {}
    named: dict[str, dict[str, object]] = {}
    for _, text in described.references:
        schema = _without_decimals(cast(Schema, json.loads(text)))
        bounds_of(schema, bounds)
        fastavro.parse_schema(schema, named_schemas=named)
    schema = _without_decimals(json.loads(described.text))
    whole = bounds_of(schema, bounds)
    parsed = fastavro.parse_schema(schema, named_schemas=named)

    def decode(payload: bytes) -> object:
        check_size(whole, len(payload))
        try:
            return fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
        except (EOFError, IndexError, OverflowError, KeyError, TypeError, MemoryError, RecursionError) as error:
            raise ValueError(f"it is no value of its schema: {type(error).__name__}") from error

    return decode


def _without_decimals(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_without_decimals(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_decimals(each) for name, each in schema.items()}
    if kept.get("logicalType") == _NOT_MADE:
        del kept["logicalType"]
    return kept


# --- Protobuf


def _protobuf(described: Described) -> Callable[[bytes], object]:
    pool = descriptor_pool.DescriptorPool()
    for name, text in described.references:
        _add(pool, text, name)
    file = _add(pool, described.text, "")
    messages = list(file.message_types_by_name.values())

    def decode(payload: bytes) -> object:
        place, data = message_place(payload)
        found = _at(messages, place)
        made = message_factory.GetMessageClass(found)()
        try:
            made.ParseFromString(data)
            return json_format.MessageToDict(made, preserving_proto_field_name=True, descriptor_pool=pool)
        except (message.DecodeError, json_format.Error, RecursionError, TypeError) as error:
            raise ValueError(f"it is no message of its schema: {type(error).__name__}") from error

    return decode


def _add(pool: descriptor_pool.DescriptorPool, text: str, name: str) -> FileDescriptor:
    """Adds a file, and files of Google's that it needs, which registries leave out."""
    file = _serialized(text) if _BASE64.fullmatch(text) else file_of(text)
    file.name = name or file.name or "schema.proto"
    for needed in file.dependency:
        if needed.startswith(_GOOGLE):
            _add_known(pool, needed)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName(file.name)


def _serialized(text: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, message.DecodeError) as error:
        raise ValueError("its schema is no serialized descriptor") from error
    return file


def _add_known(pool: descriptor_pool.DescriptorPool, name: str) -> None:
    known = _KNOWN.get(name)
    if known is None:
        raise ValueError(f"its schema needs {name[:100]}, which is nowhere")
    for each in known.dependencies:
        _add_known(pool, each.name)
    pool.AddSerializedFile(known.serialized_pb)


def _at(messages: Sequence[Descriptor], place: Sequence[int]) -> Descriptor:
    """The message at a place. Java's serializer does not count the entries of maps, which are messages, too."""
    found: Descriptor | None = None
    for number in place:
        here = messages if found is None else found.nested_types
        written = [each for each in here if not each.GetOptions().map_entry]
        counted = written if number < len(written) else here
        if not 0 <= number < len(counted):
            raise ValueError("its schema has no such message")
        found = counted[number]
    assert found is not None, "a place has a number"
    return found
