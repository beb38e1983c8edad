"""Generates the page of the gRPC APIs: services, methods, messages and enums, with the comments of their protos."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

from tools.reference_text import code, page, prose, table

_INTRODUCTION: Final = """The control APIs of every service, from their protos. Errors carry google.rpc details
(ErrorInfo, BadRequest, RetryInfo; see errors.md). `grpc.health.v1` answers everybody; reflection needs the role
`viewer` on the mesh where access is enforced. Calls carry `braid-request-id`, `braid-tenant` and
`braid-principal` in their metadata; a mutation that is repeated with its request id happens once."""
_FIELD, _MESSAGE, _ENUM, _SERVICE = 2, 4, 5, 6  # numbers of fields in descriptor.proto, as source locations use them
_NESTED: Final = 3
_SCALARS: Final = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


class Comments(NamedTuple):
    """Comments of one file, by the path of the element after them."""

    by_path: Mapping[tuple[int, ...], str]

    def at(self, *path: int) -> str:
        """The comment at a path, or ''."""
        return self.by_path.get(path, "")


def grpc_page(root: Path) -> str:
    """The page of the gRPC APIs, from the protos of a checkout.

    Raises:
        ValueError: they do not compile; protoc's reason is on stderr.
    """
    files = sorted(_compiled(root / "protos"), key=lambda file: (not file.service, file.name))
    packages = list(dict.fromkeys(sorted(file.package for file in files)))
    parts = []
    for package in packages:
        parts.append(f"## {package}\n")
        for file in files:
            if file.package == package:
                parts += _file_parts(file)
    return page("gRPC", _INTRODUCTION, parts)


def _compiled(protos: Path) -> Sequence[FileDescriptorProto]:
    """Every proto below a directory with its comments; imported protos from elsewhere are left out."""
    names = sorted(str(path) for path in protos.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as work:
        image = Path(work, "image.binpb")
        arguments = [f"--proto_path={protos}", "--include_source_info", f"--descriptor_set_out={image}", *names]
        if protoc.main(["protoc", *arguments]) != 0:
            raise ValueError("the protos do not compile")
        return FileDescriptorSet.FromString(image.read_bytes()).file


def _file_parts(file: FileDescriptorProto) -> Iterator[str]:
    comments = Comments(
        {tuple(each.path): each.leading_comments for each in file.source_code_info.location if each.leading_comments}
    )
    for number, service in enumerate(file.service):
        yield from _service_parts(service, comments, (_SERVICE, number))
    for number, message in enumerate(file.message_type):
        yield from _message_parts(message, comments, (_MESSAGE, number), "")
    for number, enum in enumerate(file.enum_type):
        yield from _enum_parts(enum, comments, (_ENUM, number))


def _service_parts(service: ServiceDescriptorProto, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {service.name}\n"
    if comments.at(*path):
        yield f"{prose(comments.at(*path))}\n"
    rows = [
        (code(method.name), _signature(method), comments.at(*path, _FIELD, number))
        for number, method in enumerate(service.method)
    ]
    yield table(("Method", "Request → response", "Notes"), rows)


def _signature(method: MethodDescriptorProto) -> str:
    request = f"{'stream ' if method.client_streaming else ''}{_short(method.input_type)}"
    response = f"{'stream ' if method.server_streaming else ''}{_short(method.output_type)}"
    return f"`{request}` → `{response}`"


def _message_parts(message: DescriptorProto, comments: Comments, path: tuple[int, ...], within: str) -> Iterator[str]:
    name = f"{within}{message.name}"
    yield f"#### {name}\n"
    if comments.at(*path):
        yield f"{prose(comments.at(*path))}\n"
    maps = {each.name: each for each in message.nested_type if each.options.map_entry}
    rows = [
        (str(field.number), code(field.name), code(_type(field, maps)), comments.at(*path, _FIELD, number))
        for number, field in enumerate(message.field)
    ]
    yield table(("No.", "Field", "Type", "Notes"), rows) or "No fields.\n"
    for number, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _message_parts(nested, comments, (*path, _NESTED, number), f"{name}.")
    for number, enum in enumerate(message.enum_type):
        yield from _enum_parts(enum, comments, (*path, _MESSAGE, number))


def _enum_parts(enum: EnumDescriptorProto, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"#### {enum.name}\n"
    if comments.at(*path):
        yield f"{prose(comments.at(*path))}\n"
    rows = [
        (str(value.number), code(value.name), comments.at(*path, _FIELD, number))
        for number, value in enumerate(enum.value)
    ]
    yield table(("No.", "Value", "Notes"), rows)


def _type(field: FieldDescriptorProto, maps: Mapping[str, DescriptorProto]) -> str:
    entry = maps.get(_short(field.type_name))
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key, {})}, {_type(value, {})}>"
    name = _short(field.type_name) or _SCALARS[field.type]
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def _short(name: str) -> str:
    return name.rpartition(".")[2]
