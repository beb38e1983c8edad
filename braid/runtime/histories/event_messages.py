"""Events ⇄ protobuf at rest, field by field: the base of all services' event codecs, which are tables. No rules.

The event `LeaseSplit` is the message `LeaseSplit` in the field `lease_split` of its service's envelope, and its
attributes are the message's fields. A codec declares only differences. A mismatch fails at import.

A replica that meets an unknown event type never leads again. So an event that earlier releases do not know is stored in
the oneof `later`, which they skip, beside an event that they know and that changes nothing there. If this release does
not know the later event either, it reads the one beside it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid
from braid.runtime.histories.event_metadata import metadata_message, read_context

V = TypeVar("V")
M = TypeVar("M")

_METADATA: Final = "metadata"
_ONEOFS: Final = ("later", "event")


class Conversion(NamedTuple):
    """How a value is converted to its message form and back."""

    write: Callable[[object], object]
    read: Callable[[object], object]


def conversion(write: Callable[[V], M], read: Callable[[M], V]) -> Conversion:
    """Creates a conversion. `read` raises `Invalid` or `ValueError` for values this release does not know."""
    return Conversion(cast("Callable[[object], object]", write), cast("Callable[[object], object]", read))


class _Column(NamedTuple):
    """An attribute of an event, and its message field."""

    attribute: str
    field: str
    convert: Conversion | None  # None for a value that stands for itself


class _Tuple(Protocol):
    """A class of named tuples, and its message."""

    _fields: tuple[str, ...]

    def __call__(self, *parts: object) -> tuple[object, ...]: ...


class _Form(NamedTuple):
    """An event type as a message in one field of the envelope."""

    event: type
    message: Callable[..., Message]
    field: str
    columns: Sequence[_Column]
    spread: Mapping[str, _Tuple]

    def write(self, event: object) -> Message:
        values: dict[str, object] = {}
        for attribute, field, convert in self.columns:
            value = getattr(event, attribute)
            values[field] = value if convert is None else convert.write(value)
        for attribute, kind in self.spread.items():
            values |= zip(kind._fields, getattr(event, attribute), strict=True)
        return self.message(**values)

    def read(self, record: Message) -> dict[str, object]:
        """The attributes that the record's message holds."""
        message = getattr(record, self.field)
        given: dict[str, object] = {}
        for attribute, field, convert in self.columns:
            value = getattr(message, field)
            given[attribute] = value if convert is None else convert.read(value)
        for attribute, kind in self.spread.items():
            given[attribute] = kind(*(getattr(message, part) for part in kind._fields))
        return given


class EventMessages:
    """Encodes a service's events, each as a message in its envelope."""

    def __init__(
        self,
        envelope: type[Message],
        events: Iterable[type],
        conversions: Mapping[str, Conversion],
        *,
        names: Mapping[str, str] | None = None,
        spread: Mapping[str, type[tuple[object, ...]]] | None = None,
        beside: Mapping[type, type] | None = None,
    ) -> None:
        """Matches the envelope's fields with events, by name.

        Args:
            envelope: The stored message type.
            events: All event types; dataclasses.
            conversions: Conversions by the name of the message or enum that represents a value.
            names: Field names by attribute, where they differ.
            spread: Named-tuple classes by attribute, whose parts are separate fields in a message without that field.
            beside: The event beside each event of a later release; it has the attributes that the later message lacks.

        Raises:
            TypeError: an event and its message differ.
        """
        self._envelope = cast("Callable[..., Message]", envelope)
        self._parse = envelope.FromString
        oneofs = envelope.DESCRIPTOR.oneofs_by_name
        self._oneofs = [name for name in _ONEOFS if name in oneofs]
        fields = [each for name in self._oneofs for each in oneofs[name].fields]
        bodies = {
            each.message_type.name: (each.name, cast("Descriptor", each.message_type))
            for each in fields
            if each.message_type
        }
        types = {event.__name__: event for event in events}
        if differing := types.keys() ^ bodies.keys():
            raise TypeError(f"an event or a field of {envelope.DESCRIPTOR.name} is missing: {sorted(differing)}")
        shape = _Shape(conversions, names or {}, cast("Mapping[str, _Tuple]", spread or {}))
        self._forms = {event: shape.form(event, *bodies[name]) for name, event in types.items()}
        self._by_field = {form.field: form for form in self._forms.values()}
        self._beside = {event: self._forms[other] for event, other in (beside or {}).items()}
        for event in types.values():
            self._check(event)

    def _check(self, event: type) -> None:
        forms = [self._forms[event], *([self._beside[event]] if event in self._beside else [])]
        told = {each.attribute for form in forms for each in form.columns} | self._forms[event].spread.keys()
        if differing := told ^ {each.name for each in dataclasses.fields(event)}:
            raise TypeError(f"{event.__name__} and its message differ in {sorted(differing)}")

    def encode(self, event: object, context: Context) -> bytes:
        """Encodes an event and its metadata; equal inputs give equal bytes."""
        forms = [form for form in (self._forms[type(event)], self._beside.get(type(event))) if form is not None]
        bodies = {form.field: form.write(event) for form in forms}
        return self._envelope(**{_METADATA: metadata_message(context)}, **bodies).SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[object, Context]:
        """Decodes `encode`'s bytes. Raises `CorruptHistory` for damaged bytes or unknown events."""
        try:
            record = self._parse(data)
        except DecodeError as error:
            raise CorruptHistory("an event does not decode") from error
        name = next((name for oneof in self._oneofs if (name := record.WhichOneof(oneof))), None)
        if name is None:
            raise CorruptHistory("an event is of a type this release does not know", remedy="run a newer release")
        form = self._by_field[name]
        try:
            given = form.read(record)
            if form.event in self._beside:
                given |= self._beside[form.event].read(record)
        except (Invalid, ValueError) as error:
            raise CorruptHistory(f"{name}: {error}", remedy="run a newer release") from error
        return form.event(**given), read_context(getattr(record, _METADATA))


class _Shape(NamedTuple):
    """The differences between a service's events and their messages."""

    conversions: Mapping[str, Conversion]
    names: Mapping[str, str]
    spread: Mapping[str, _Tuple]

    def form(self, event: type, field: str, message: Descriptor) -> _Form:
        attributes = [each.name for each in dataclasses.fields(event)]
        renamed = {self.names[each]: each for each in attributes if each in self.names}
        spread = {each: self.spread[each] for each in attributes if each in self.spread}
        spread = {
            each: kind for each, kind in spread.items() if self.names.get(each, each) not in message.fields_by_name
        }
        parts = {part for kind in spread.values() for part in kind._fields}
        columns = [
            _Column(renamed.get(each.name, each.name), each.name, _conversion_of(each, self.conversions))
            for each in message.fields
            if each.name not in parts
        ]
        return _Form(event, cast("Callable[..., Message]", GetMessageClass(message)), field, columns, spread)


def _conversion_of(field: FieldDescriptor, conversions: Mapping[str, Conversion]) -> Conversion | None:
    value = field.message_type or field.enum_type
    one = None if value is None else conversions[value.name]
    if not field.is_repeated:
        return one
    if one is None:
        return Conversion(_itself, cast("Callable[[object], object]", tuple))
    write, read = one
    return conversion(
        lambda values: [write(each) for each in cast("Iterable[object]", values)],
        lambda messages: tuple([read(each) for each in cast("Iterable[object]", messages)]),
    )


def _itself(value: object) -> object:
    return value
