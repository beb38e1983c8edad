"""Protobuf files as text: read as the compiler reads them, and refused where they are none."""

from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_tools import protoc

from console.server.messages.schemas.proto_text import file_of

ROOT: Final = Path(__file__).resolve().parents[4]
EVERYTHING: Final = """
// A comment; with a semicolon { and a brace.
syntax = "proto3"; /* and
another */
package shop.v1;
import public "google/protobuf/timestamp.proto";
option java_package = "a;b";
option (custom) = { name: "x" values: [1, 2]; };
enum State {
  option allow_alias = true;
  UNKNOWN = 0;
  PAID = 0x01 [deprecated = true];
  SETTLED = 1;
  LOST = -1;
  reserved 5 to 9; reserved "OLD";
}
message Order {
  option deprecated = false;
  reserved 2, 15 to max;
  reserved "gone";
  google.protobuf.Timestamp at = 1;
  repeated Line lines = 3 [packed = false, (check) = {a: 1; b: "]"}];
  map<string, Line> by_line_name = 4;
  map<int32, .shop.v1.State> states = 5;
  optional int32 extra = 6;
  oneof how { option (x) = 1; string card = 7; bool cash = 010; Line.Kind kind = 9; }
  message Line { enum Kind { NONE = 0; } Kind kind = 1; bytes data = 2; Order parent = 3; }
  State state = 11;;
  sint64 option = 12;
  optional string reserved = 13;
}
service Orders { rpc Get(Order) returns (stream Order) { option deprecated = true; } }
"""
OLD: Final = """
package old;
message Thing {
  required string name = 1 [default = "a\\"b"];
  optional double share = 2;
  extensions 100 to 199;
  repeated int32 numbers = 3 [packed = true];
}
extend Thing { optional int32 more = 100; }
"""


def compiled(texts: dict[str, str], folder: Path) -> DescriptorPool:
    """Compiles files, as the reference does."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    out = folder / "compiled"
    with as_file(files("grpc_tools") / "_proto") as known:
        options = [f"-I{folder}", f"-I{known}", "--include_imports", f"--descriptor_set_out={out}"]
        assert protoc.main(["", *options, *texts]) == 0
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def read(texts: dict[str, str], compiler: DescriptorPool) -> DescriptorPool:
    """Reads files, each after those that it needs."""
    pool, known = DescriptorPool(), set[str]()

    def add(name: str) -> None:
        if name in known:
            return
        known.add(name)
        by_compiler = compiler.FindFileByName(name)
        for needed in by_compiler.dependencies:
            add(needed.name)
        if name in texts:
            file = file_of(texts[name])
            file.name = name
            pool.AddSerializedFile(file.SerializeToString())
        else:
            pool.AddSerializedFile(by_compiler.serialized_pb)

    for each in texts:
        add(each)
    return pool


def facts(file: FileDescriptor) -> list[object]:
    """Everything by which values are decoded and shown."""
    messages = [fact for each in file.message_types_by_name.values() for fact in _message(each)]
    return [file.package, *messages, *map(_enum, file.enum_types_by_name.values())]


def _message(message: Descriptor) -> Iterator[object]:
    yield message.full_name, message.GetOptions().map_entry, [_field(each) for each in message.fields]
    yield [each.name for each in message.oneofs], [_enum(each) for each in message.enum_types]
    for each in message.nested_types:
        yield from _message(each)


def _field(field: FieldDescriptor) -> object:
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof
    place = field.name, field.number, field.type, field.is_repeated, field.is_required, field.has_presence
    return *place, kind and kind.full_name, oneof and oneof.name


def _enum(enum: EnumDescriptor) -> object:
    return enum.full_name, [(each.name, each.number) for each in enum.values]


def test_files_are_read_as_the_compiler_reads_them(tmp_path: Path) -> None:
    own = {str(path.relative_to(ROOT / "protos")): path.read_text() for path in (ROOT / "protos").rglob("*.proto")}
    custom = EVERYTHING.replace("option (custom)", "// option (custom)").replace(', (check) = {a: 1; b: "]"}', "")
    texts = {**own, "everything.proto": custom.replace("option (x) = 1;", ""), "old.proto": OLD}
    compiler = compiled(texts, tmp_path)
    found = read(texts | {"everything.proto": EVERYTHING}, compiler)
    for name in texts:
        assert facts(found.FindFileByName(name)) == facts(compiler.FindFileByName(name)), name
    assert len(texts) > 30


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {", "ends within a message"),
        ("message A { string a 1; }", "where '=' belongs"),
        ('syntax = "proto9";', "unknown syntax"),
        ("whatever", "where a message may begin"),
        ("message A { repeated group B = 1 { } }", "a group"),
        ('message A { string a = 1; } "', "where it may not be"),
        ("message A { string a = x; }", "invalid literal"),
        ("message A {" * 100, "levels deep"),
        (" " * (256 << 10) + ";", "characters"),
        ("\n\x05Other\x12\x04shop", "where it may not be"),
    ],
)
def test_a_text_that_is_no_file_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        file_of(text)
