"""States ⇄ canonical JSON, derived from the dataclasses: equal states give equal bytes. For snapshots only.

A field added later takes its default when an older snapshot is read; a removed field is ignored.
"""

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import TypeVar, cast, get_args, get_origin, get_type_hints

from braid.kernel.errors import CorruptHistory

S = TypeVar("S")
_Reader = Callable[[object], object]
_PLAIN = frozenset((str, int, float, bool, type(None)))


def encode(state: object) -> bytes:
    """Encodes a state as bytes."""
    return json.dumps(_plain(state), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(kind: type[S], data: bytes) -> S:
    """Reads `encode`'s bytes. Raises `CorruptHistory`."""
    try:
        return cast("S", _reader(cast("object", kind))(json.loads(data)))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptHistory(f"a snapshot is no {kind.__name__}: {error}") from error


def _plain(value: object) -> object:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    if dataclasses.is_dataclass(kind):
        return {name: _plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value  # a named tuple


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind))


@cache
def _reader(kind: object) -> _Reader:
    """Builds the function that reads values of a type; cached by type, because resolving type hints is slow."""
    origin = get_origin(kind)
    if origin is types.UnionType:
        inner = _reader(next(each for each in get_args(kind) if each is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        inner = _reader(get_args(kind)[0])
        return lambda value: tuple([inner(each) for each in cast("list[object]", value)])
    if origin is not None:  # a mapping by name
        inner = _reader(get_args(kind)[1])
        return lambda value: {key: inner(each) for key, each in cast("dict[str, object]", value).items()}
    return _class_reader(cast("type", kind))


def _class_reader(kind: type) -> _Reader:
    if issubclass(kind, Enum):
        return kind
    if kind is bytes:
        return lambda value: bytes.fromhex(cast("str", value))
    if issubclass(kind, tuple) or dataclasses.is_dataclass(kind):
        build = cast("Callable[..., object]", kind)
        readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
        return (_tuple_reader if issubclass(kind, tuple) else _dataclass_reader)(build, readers)

    def read(value: object) -> object:
        if kind is float and type(value) is int:
            return float(value)
        if not isinstance(value, kind):
            raise ValueError(f"{value!r} is no {kind.__name__}")  # noqa: TRY004 (a damaged snapshot, not a wrong call)
        return value

    return read


def _tuple_reader(build: Callable[..., object], readers: Mapping[str, _Reader]) -> _Reader:
    def read(value: object) -> object:
        pairs = zip(readers.values(), cast("list[object]", value), strict=True)
        return build(*[reader(each) for reader, each in pairs])

    return read


def _dataclass_reader(build: Callable[..., object], readers: Mapping[str, _Reader]) -> _Reader:
    def read(value: object) -> object:
        given = cast("dict[str, object]", value)
        return build(**{name: reader(given[name]) for name, reader in readers.items() if name in given})

    return read
