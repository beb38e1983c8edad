"""Events as messages of the same names: what differs is declared, and what does not fit is refused at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Final, NamedTuple

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.histories.event_messages import Conversion, EventMessages, conversion

CONTEXT: Final = Context(1, "ada", "acme", "request-1", "why", 7)
_TEXT, _NUMBER, _MESSAGE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_MESSAGE,
)


def envelope() -> type[Message]:
    """An envelope of three events: `Opened` and `Renamed` of the first release, and `Counted` of a later one."""
    file = FileDescriptorProto(name="tests/events.proto", package="tests.events", syntax="proto3")
    file.dependency.append("braid/api/mesh/v1/event.proto")
    messages: Mapping[str, Sequence[tuple[str, FieldDescriptorProto.Type.ValueType, str]]] = {
        "Spec": [("size", _NUMBER, "")],
        "Opened": [("row", _NUMBER, ""), ("column", _NUMBER, ""), ("tags", _TEXT, "repeated")],
        "Renamed": [("spec", _MESSAGE, "Spec"), ("title", _TEXT, "")],
        "Counted": [("count", _NUMBER, "")],
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, of) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if of == "repeated":
                added.label = FieldDescriptorProto.LABEL_REPEATED
            elif of:
                added.type_name = f".tests.events.{of}"
    record = file.message_type.add(name="Record")
    for oneof in ("event", "later"):
        record.oneof_decl.add(name=oneof)
    record.field.add(name="metadata", number=1, type=_MESSAGE, type_name=".braid.api.mesh.v1.EventMetadata")
    for number, (name, oneof_index) in enumerate((("Opened", 0), ("Renamed", 0), ("Counted", 1)), 2):
        body = record.field.add(name=name.lower(), number=number, type=_MESSAGE, oneof_index=oneof_index)
        body.type_name = f".tests.events.{name}"
    Default().Add(file)
    return GetMessageClass(Default().FindMessageTypeByName("tests.events.Record"))


class Place(NamedTuple):
    row: int
    column: int


@dataclass(frozen=True)
class Opened:
    place: Place
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Renamed:
    spec: int
    name: str


@dataclass(frozen=True)
class Counted:
    count: int
    spec: int
    name: str


RECORD: Final = envelope()
SPEC: Final = GetMessageClass(Default().FindMessageTypeByName("tests.events.Spec"))


def spec_message(size: int) -> Message:
    message = SPEC()
    setattr(message, "size", size)  # noqa: B010 (no type knows this message)
    return message


def read_spec(message: Message) -> int:
    size: int = getattr(message, "size")  # noqa: B009
    if size > 99:
        raise ValueError(f"{size} is too much")
    return size


CONVERSIONS: Final[Mapping[str, Conversion]] = {"Spec": conversion(spec_message, read_spec)}


def table(*events: type) -> EventMessages:
    return EventMessages(
        RECORD, events, CONVERSIONS, names={"name": "title"}, spread={"place": Place}, beside={events[-1]: Renamed}
    )


EVENTS: Final = table(Opened, Renamed, Counted)


@pytest.mark.parametrize("event", [Opened(Place(1, 2), ("a", "b")), Renamed(5, "x"), Counted(3, 5, "x")])
def test_an_event_is_written_and_read_as_it_was(event: object) -> None:
    data = EVENTS.encode(event, CONTEXT)
    assert EVENTS.decode(data) == (event, CONTEXT)
    assert EVENTS.encode(event, CONTEXT) == data


def test_earlier_releases_read_a_later_event_as_the_one_beside() -> None:
    record = RECORD.FromString(EVENTS.encode(Counted(3, 5, "x"), CONTEXT))
    record.ClearField("later")
    assert EVENTS.decode(record.SerializeToString()) == (Renamed(5, "x"), CONTEXT)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xff\xff", "does not decode"),
        (b"", "type this release does not know"),
        (b"\xa2\x3f\x00", "type this release does not know"),
        (EVENTS.encode(Renamed(100, "x"), CONTEXT), "renamed: 100 is too much"),
    ],
)
def test_bytes_that_mean_no_known_event_are_a_corrupt_history(data: bytes, told: str) -> None:
    with pytest.raises(CorruptHistory, match=told):
        EVENTS.decode(data)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ((Opened, Renamed), r"Record is missing: \['Counted'\]"),
        ((Opened, Renamed, make_dataclass("Lost", []), Counted), r"Record is missing: \['Lost'\]"),
        ((Opened, Renamed, make_dataclass("Counted", ["count"])), r"Counted .* differ in \['name', 'spec'\]"),
        ((make_dataclass("Opened", ["place"]), Renamed, Counted), r"Opened .* differ in \['tags'\]"),
    ],
)
def test_events_that_do_not_fit_their_messages_are_refused(events: Sequence[type], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        table(*events)
