"""Requests that a hostile caller may send, made from the descriptors of the protos.

Pure but for the dice. Half of the fields make sense, so that calls get past the first check; the rest does not.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Fields = frozenset[str]

HOSTILITIES: Final = (0.03, 0.1, 0.3, 0.8)  # of a request: the part of its fields that make no sense
DEPTH_MAX: Final = 6
HUGE_ITEMS: Final = (40, 2_000, 30_000)
VALUES_MAX: Final = 50_000  # of one request
CHARACTERS_MAX: Final = 6_000_000  # of the texts of one request
HUGE_PART: Final = 0.02  # of hostile values that are long, too: each costs milliseconds

_INTEGERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
BOUNDARIES: Final = tuple(
    sorted({sign * (power + step) for power in (0, 1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64) for sign in (1, -1)
            for step in (-1, 0, 1)} | {1_000, 10_000, 20_001, 10**15})
)  # fmt: skip
FLOATS: Final = (0.0, -0.0, -1.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"))
TEXTS: Final = (
    "", " ", "/", "//", "a/b", "a/b/c/d/e", ":", ":1", "-", "~", "*", "..", "../../etc/passwd", "\0", "a\0b", "\x1b[2J",
    "\r\n", "\u202e", "\ufeff", "é" * 40, "\U0001f9f5", "a" * 63, "a" * 64, "A", "%s%n{}", "'; drop table letters; --",
    "(" * 300, "not " * 300, "a = 'b' and " * 200, "NaN", "-1", "²", "1" * 20, "logs/live/" + "9" * 5_000,
    "logs/live/1/" + "9" * 5_000, "stream/logs:" + "9" * 5_000, "stream/logs:-1", "٣", "logs/live/٣", "logs/live/0",
    "logs/1/0/" + "9" * 19, "9" * 19 + "/logs/1/0/0/1", "1/logs/1/0/0/" + "9" * 19, "east:" + "9" * 5_000, "9" * 5_000,
    "a" * 70_000,
)  # fmt: skip
HUGE_TEXT: Final = "x" * 2_000_000
_KINDS: Final = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_MESSAGE: str,  # a map's keys
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_INT64: int,
}


class Names(NamedTuple):
    """Names of things that exist, by the fields that hold them.

    Attributes:
        by_field: Values of a field of that name, whatever message it is in.
        by_message: Those of a field of one message: `GetGroupRequest.name`.
    """

    by_field: Mapping[str, Sequence[object]]
    by_message: Mapping[str, Sequence[object]]

    def of(self, field: FieldDescriptor) -> Sequence[object]:
        """Values for a field that make sense; none where any number or text does."""
        named = self.by_message.get(_name(field))
        found = named if named is not None else self.by_field.get(field.name, ())
        kind = _KINDS.get(field.type)
        return [each for each in found if kind is not None and isinstance(each, kind)]


class Requests:
    """Makes requests of any method by chance.

    Args:
        dice: Every choice; the same dice make the same requests.
        names: Of what exists.
    """

    def __init__(self, dice: random.Random, names: Names) -> None:
        self._dice = dice
        self._names = names
        self._texts = [each for many in names.by_field.values() for each in many if isinstance(each, str)]
        self._left, self._room = VALUES_MAX, CHARACTERS_MAX

    def make(self, descriptor: Descriptor, hostility: float | None = None) -> Message:
        """A request of a type, of a random hostility unless one is given."""
        self._left, self._room = VALUES_MAX, CHARACTERS_MAX
        return self._message(descriptor, self._dice.choice(HOSTILITIES) if hostility is None else hostility, 0)

    def change(self, message: Message) -> None:
        """Changes some fields of a request that made sense to what makes none."""
        self._left, self._room = VALUES_MAX, CHARACTERS_MAX
        for _ in range(self._dice.randint(0, 3)):
            self._change(message)

    def _change(self, message: Message) -> None:
        """Sets one field to what makes little sense, often of a message that is in the message."""
        inner = [each for field, value in message.ListFields() for each in _messages(field, value)]
        if inner and self._dice.random() < 0.7:
            self._change(self._dice.choice(inner))
        elif fields := list(message.DESCRIPTOR.fields):
            field = cast("FieldDescriptor", self._dice.choice(fields))
            self._set(message, field, self._dice.choice(HOSTILITIES), 1)

    def _message(self, descriptor: Descriptor, hostility: float, depth: int) -> Message:
        message = GetMessageClass(descriptor)()
        if depth > DEPTH_MAX or not self._left:
            return message
        chosen: set[FieldDescriptor] = {
            self._dice.choice(each.fields) for each in descriptor.oneofs if len(each.fields) > 1
        }
        for field in descriptor.fields:
            of_choice = field.containing_oneof is not None and len(field.containing_oneof.fields) > 1
            if of_choice and (field not in chosen or self._dice.random() < hostility / 4):
                continue
            if of_choice or self._dice.random() < 0.7:
                self._set(message, field, hostility, depth + 1)
        return message

    def _set(self, message: Message, field: FieldDescriptor, hostility: float, depth: int) -> None:
        if _is_map(field):
            for _ in range(self._count(hostility)):
                self._set_entry(message, field, hostility, depth)
        elif field.is_repeated:
            made = [self._value(field, hostility, depth) for _ in range(self._count(hostility))]
            getattr(message, field.name).extend(made)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(self._value(field, hostility, depth))
        else:
            setattr(message, field.name, self._value(field, hostility, depth))

    def _set_entry(self, message: Message, field: FieldDescriptor, hostility: float, depth: int) -> None:
        entry = _inner(field).fields_by_name
        keys = self._names.of(field) if self._dice.random() > hostility else ()
        key = self._dice.choice(keys) if keys else self._value(entry["key"], hostility, depth)
        value, there = self._value(entry["value"], hostility, depth), getattr(message, field.name)
        if isinstance(value, Message):
            there[key].CopyFrom(value)
        else:
            there[key] = value

    def _count(self, hostility: float) -> int:
        if self._dice.random() < hostility * HUGE_PART * 2:
            return min(self._left, self._dice.choice(HUGE_ITEMS))
        return self._dice.randint(0, 3)

    def _value(self, field: FieldDescriptor, hostility: float, depth: int) -> Any:
        self._left = max(0, self._left - 1)
        hostile = self._dice.random() < hostility
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            return self._message(_inner(field), hostility, depth)
        if not hostile and (known := self._names.of(field)):
            return self._dice.choice(known)
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                return self._text(field, hostile)
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._dice.random() < 0.3
            case FieldDescriptor.CPPTYPE_ENUM:
                assert field.enum_type is not None
                declared = [each.number for each in field.enum_type.values]
                return self._dice.choice([-1, 99, (1 << 31) - 1] if hostile else declared)
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self._dice.choice(FLOATS) if hostile else self._dice.choice((0.25, 0.5, 1.0, 2.0))
            case kind:
                return self._integer(kind, hostile)

    def _text(self, field: FieldDescriptor, hostile: bool) -> str | bytes:
        if not hostile:
            text = self._dice.choice(("", "some reason", "x"))
        elif self._dice.random() < HUGE_PART:
            text = HUGE_TEXT
        else:
            text = self._dice.choice(TEXTS if self._dice.random() < 0.7 else self._texts)
        self._room -= len(text)
        if self._room < 0:
            text = text[:8]
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text

    def _integer(self, kind: int, hostile: bool) -> int:
        low, high = _INTEGERS[kind]
        if not hostile:
            return self._dice.randint(0, 4)
        return self._dice.choice([each for each in BOUNDARIES if low <= each <= high])


def fields_of(descriptor: Descriptor) -> Fields:
    """All fields that a request may have, those of the messages in it included: `StreamSpec.lanes`."""
    found: set[str] = set()
    waiting, seen = [descriptor], {descriptor.full_name}
    while waiting:
        holder = waiting.pop()
        for field in holder.fields:
            if not holder.GetOptions().map_entry:
                found.add(_name(field))
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return frozenset(found)


def fields_in(message: Message) -> Iterator[str]:
    """The fields that a request has set; of many alike in a list, those of the first."""
    for field, value in message.ListFields():
        yield _name(field)
        for inner in _messages(field, value):
            yield from fields_in(inner)


def _messages(field: FieldDescriptor, value: Any) -> Sequence[Message]:
    """The messages in a field: of a list or a map the first few."""
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return ()
    if _is_map(field):
        value = [each for each in list(value.values())[:2] if isinstance(each, Message)]
    return cast("Sequence[Message]", value[:3] if field.is_repeated else [value])


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _inner(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None
    return field.message_type


def _name(field: FieldDescriptor) -> str:
    assert field.containing_type is not None
    return f"{field.containing_type.name}.{field.name}"
