"""Protobuf messages as documents: plain values for JSON and YAML. Knows no resource.

Field names are the protos'. Enums are written as their lower-case value (`active`), bytes in hexadecimal, 64-bit
integers as numbers.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Document: TypeAlias = dict[str, Value]


def to_document(message: Message) -> Document:
    """Converts a message to plain values: every field of it, in the order of the proto."""
    return {
        field.name: _to_value(field, getattr(message, field.name))
        for field in cast("Sequence[FieldDescriptor]", message.DESCRIPTOR.fields)
        if not field.has_presence or message.HasField(field.name)
    }


def enum_text(descriptor: EnumDescriptor, number: int) -> str:
    """An enum's value in documents: `CHANNEL_STATE_ACTIVE` is `active`."""
    known = descriptor.values_by_number.get(number)
    if known is None:
        return str(number)
    return known.name.removeprefix(_prefix(descriptor)).lower()


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map, which protobuf describes as a repeated message of entries."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def entry_value(field: FieldDescriptor) -> FieldDescriptor:
    """The field that holds the values of a map."""
    assert field.message_type is not None, "asked only of maps"
    return field.message_type.fields_by_name["value"]


def _to_value(field: FieldDescriptor, value: object) -> Value:
    if is_map(field):
        entry = entry_value(field)
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _one(entry, each) for key, each in sorted(items, key=lambda item: str(item[0]))}
    if field.is_repeated:
        return [_one(field, each) for each in cast("Sequence[object]", value)]
    return _one(field, value)


def _one(field: FieldDescriptor, value: object) -> Value:
    if isinstance(value, Message):
        return to_document(value)
    if field.enum_type is not None:
        return enum_text(field.enum_type, cast("int", value))
    return value.hex() if isinstance(value, bytes) else cast("Value", value)


def _prefix(descriptor: EnumDescriptor) -> str:
    """The prefix of an enum's values: its zero is `<PREFIX>UNSPECIFIED`."""
    return descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
