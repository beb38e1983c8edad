"""Reads the text of a Protobuf file as far as values are decoded by it: messages, fields and enums. Pure.

Not every registry serializes schemas. Services, options and extensions say nothing about a value's bytes, and are
passed over. Names of types stay as they are written: the pool of descriptors finds them.
"""

import re
from collections import Counter
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_CHARS_MAX: Final = 256 << 10  # some 50 ms
_DEPTH_MAX: Final = 40  # messages within one another
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<token> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \.?[A-Za-z_][\w.]*
        | [-+]?\.?[0-9][\w.]* | [-+{}()\[\]<>;=,:/] )""",
    re.VERBOSE | re.DOTALL,
)
_SCALARS: Final = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_BRACKETS: Final = {"{": "}", "[": "]", "(": ")"}
_PASSED_OVER: Final = ("option", "reserved", "extensions", "extend", "service")


def file_of(text: str) -> FileDescriptorProto:
    """Reads a file. Raises `ValueError` where it is no such text."""
    if len(text) > _CHARS_MAX:
        raise ValueError(f"its schema has more than {_CHARS_MAX} characters")
    tokens = _Tokens(text)
    file = FileDescriptorProto(syntax="proto2")
    while tokens.more:
        match tokens.next():
            case "syntax":
                tokens.expect("=")
                file.syntax = tokens.next()[1:-1]
                tokens.expect(";")
            case "import":
                name = tokens.next()
                file.dependency.append((tokens.next() if name in ("public", "weak") else name)[1:-1])
                tokens.expect(";")
            case "package":
                file.package = tokens.next()
                tokens.expect(";")
            case "message":
                _message(tokens, file.message_type.add(), file.syntax, 1)
            case "enum":
                _enum(tokens, file.enum_type.add())
            case ";":
                pass
            case word if word in _PASSED_OVER:
                tokens.pass_over()
            case word:
                raise ValueError(f"its schema has {word[:50]!r} where a message may begin")
    if file.syntax not in ("proto2", "proto3"):
        raise ValueError(f"its schema is of the unknown syntax {file.syntax[:50]}")
    return file


class _Tokens:
    """The words and signs of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._found: list[str] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"its schema has {text[at]!r} where it may not be")
            if match["token"]:
                self._found.append(match["token"])
            at = match.end()
        self._at = 0

    @property
    def more(self) -> bool:
        """Whether there are more."""
        return self._at < len(self._found)

    def peek(self) -> str:
        """The next one, which stays the next."""
        if not self.more:
            raise ValueError("its schema ends within a message")
        return self._found[self._at]

    def next(self) -> str:
        """The next one."""
        found = self.peek()
        self._at += 1
        return found

    def expect(self, wanted: str) -> None:
        """Takes the next one. Raises `ValueError` where it is another than wanted."""
        found = self.next()
        if found != wanted:
            raise ValueError(f"its schema has {found[:50]!r} where {wanted!r} belongs")

    def pass_over(self) -> None:
        """Takes the rest of a statement, options of a field for example: up to a semicolon, or a block in braces."""
        open_until: list[str] = []
        while True:
            token = self.next()
            if token in _BRACKETS:
                open_until.append(_BRACKETS[token])
            elif open_until and token == open_until[-1]:
                open_until.pop()
                if not open_until and token == "}" and (not self.more or self.peek() != ";"):
                    return
            elif not open_until and token == ";":
                return


def _message(tokens: _Tokens, message: DescriptorProto, syntax: str, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"its schema is nested more than {_DEPTH_MAX} levels deep")
    message.name = tokens.next()
    tokens.expect("{")
    while (word := tokens.next()) != "}":
        if word == "message":
            _message(tokens, message.nested_type.add(), syntax, depth + 1)
        elif word == "enum":
            _enum(tokens, message.enum_type.add())
        elif word == "oneof":
            _oneof(tokens, message)
        elif word == "map" and tokens.peek() == "<":
            _map(tokens, message)
        elif word in _PASSED_OVER and tokens.peek() != "=":
            tokens.pass_over()
        elif word != ";":
            _field(tokens, message, word)
    if syntax == "proto3":
        for field in message.field:
            if field.proto3_optional:  # has a group of its own, behind all others
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    else:
        for field in message.field:
            field.ClearField("proto3_optional")


def _field(tokens: _Tokens, message: DescriptorProto, word: str) -> FieldDescriptorProto:
    field = message.field.add(label=_LABELS.get(word, FieldDescriptorProto.LABEL_OPTIONAL))
    field.proto3_optional = word == "optional"
    _typed(field, tokens.next() if word in _LABELS else word)
    field.name = tokens.next()
    tokens.expect("=")
    field.number = _number(tokens.next())
    tokens.pass_over()
    return field


def _typed(field: FieldDescriptorProto, name: str) -> None:
    if name == "group":
        raise ValueError("its schema has a group, which only old files have")
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:
        field.type_name = name


def _oneof(tokens: _Tokens, message: DescriptorProto) -> None:
    place = len(message.oneof_decl)
    message.oneof_decl.add(name=tokens.next())
    tokens.expect("{")
    while (word := tokens.next()) != "}":
        if word == "option":
            tokens.pass_over()
        elif word != ";":
            _field(tokens, message, word).oneof_index = place


def _map(tokens: _Tokens, message: DescriptorProto) -> None:
    tokens.expect("<")
    key = tokens.next()
    tokens.expect(",")
    value = tokens.next()
    tokens.expect(">")
    name = tokens.next()
    tokens.expect("=")
    entry = message.nested_type.add(name="".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
        _typed(entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL), kind)
    field = message.field.add(name=name, number=_number(tokens.next()), label=FieldDescriptorProto.LABEL_REPEATED)
    field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, entry.name
    tokens.pass_over()


def _enum(tokens: _Tokens, enum: EnumDescriptorProto) -> None:
    enum.name = tokens.next()
    tokens.expect("{")
    while (word := tokens.next()) != "}":
        if word in ("option", "reserved") and tokens.peek() != "=":
            tokens.pass_over()
        elif word != ";":
            tokens.expect("=")
            sign = tokens.next() if tokens.peek() in ("-", "+") else ""
            enum.value.add(name=word, number=_number(f"{sign}{tokens.next()}"))
            tokens.pass_over()
    if any(count > 1 for count in Counter(each.number for each in enum.value).values()):
        enum.options.allow_alias = True


def _number(text: str) -> int:
    """A whole number as the language writes it: 12, 0x0c or 014. Raises `ValueError`."""
    octal = len(text) > 1 and text[0] == "0" and text[1:].isdecimal()
    return int(text, 8 if octal else 0)
