"""Protobuf messages from documents, plain values that people write; `braid.rpc.documents` writes them.

Reading is strict: an unknown field or a wrong type is refused with its path.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from braid.cli.errors import nearest
from braid.kernel.errors import Invalid
from braid.rpc.documents import Document as Document
from braid.rpc.documents import Value as Value
from braid.rpc.documents import entry_value, is_map
from braid.rpc.documents import enum_text as enum_text
from braid.rpc.documents import to_document as to_document

_INTEGERS = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)


def from_document(document: Value, into: Message, path: str) -> None:
    """Fills a message from plain values.

    Args:
        document: The values.
        into: The message; fields that the document lacks stay as they are.
        path: The document's path, for errors (`spec`).

    Raises:
        Invalid: a field is unknown or of another type; `field` is its path.
    """
    known = cast("Mapping[str, FieldDescriptor]", into.DESCRIPTOR.fields_by_name)
    for name, value in _mapping(document, path).items():
        here = f"{path}.{name}"
        if name not in known:
            raise unknown_field(name, path, known)
        field = known[name]
        if value is None:
            continue
        if is_map(field):
            _read_map(field, value, into, here)
        elif field.is_repeated and field.message_type is not None:
            for index, each in enumerate(_list(value, here)):
                from_document(each, getattr(into, name).add(), f"{here}[{index}]")
        elif field.is_repeated:
            listed = [_scalar(field, each, f"{here}[{index}]") for index, each in enumerate(_list(value, here))]
            getattr(into, name).extend(listed)
        elif field.message_type is not None:
            getattr(into, name).SetInParent()
            from_document(value, getattr(into, name), here)
        else:
            setattr(into, name, _scalar(field, value, here))


def unknown_field(name: str, path: str, known: Collection[str]) -> Invalid:
    """The error for an unknown field, with the nearest known one."""
    close = nearest(name, known)
    remedy = f"did you mean {close}?" if close else f"known here: {', '.join(sorted(known)) or 'none'}"
    return Invalid("there is no such field", field=f"{path}.{name}" if path else name, remedy=remedy)


def _read_map(field: FieldDescriptor, value: Value, into: Message, path: str) -> None:
    entry = entry_value(field)
    target = getattr(into, field.name)
    for key, each in _mapping(value, path).items():
        here = f"{path}.{key}"
        if entry.message_type is None:
            target[key] = _scalar(entry, each, here)
        else:
            from_document({} if each is None else each, target[key], here)


def _scalar(field: FieldDescriptor, value: Value, path: str) -> bool | int | float | str:
    if field.enum_type is not None:
        return _enum_number(field.enum_type, value, path)
    if field.type == FieldDescriptor.TYPE_BOOL and isinstance(value, bool):
        return value
    if field.type in _INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        if not -(1 << 31) <= value < 1 << 31 and field.type == FieldDescriptor.TYPE_INT32:
            raise Invalid(f"{value} is out of range", field=path)
        return value
    if field.type == FieldDescriptor.TYPE_DOUBLE and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, str):
        return value
    wanted = {
        FieldDescriptor.TYPE_BOOL: "true or false",
        FieldDescriptor.TYPE_DOUBLE: "a number",
        FieldDescriptor.TYPE_STRING: "text; put it in quotes",
    }
    expected = "a whole number" if field.type in _INTEGERS else wanted.get(field.type, "something else")
    raise Invalid(f"{value!r} is not what belongs here", field=path, remedy=f"write {expected}")


def _enum_number(descriptor: EnumDescriptor, value: Value, path: str) -> int:
    numbers = {enum_text(descriptor, each.number): each.number for each in descriptor.values if each.number}
    if isinstance(value, str) and (text := value.lower().replace("-", "_")) in numbers:
        return numbers[text]
    raise Invalid(f"{value!r} is unknown", field=path, remedy=f"use one of {', '.join(numbers)}")


def _mapping(value: Value, path: str) -> Mapping[str, Value]:
    if not isinstance(value, dict):
        raise Invalid(f"{value!r} is not a mapping", field=path, remedy="write names and values below it")
    for key in value:
        if not isinstance(key, str):
            raise Invalid(f"the name {key!r} is not text", field=path, remedy="put it in quotes")
    return value


def _list(value: Value, path: str) -> Sequence[Value]:
    if not isinstance(value, list):
        raise Invalid(f"{value!r} is not a list", field=path, remedy="write [one, another]")
    return value
