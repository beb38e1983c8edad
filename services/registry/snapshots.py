"""States ⇄ canonical JSON, by the dataclasses themselves: equal states give equal bytes. For snapshots only.

A field added later takes its default when an older snapshot is read; a field that is gone is passed over.
"""

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar, cast, get_args, get_origin, get_type_hints

from braid.kernel.errors import CorruptHistory

S = TypeVar("S")


def encode(state: object) -> bytes:
    """A state as bytes."""
    return json.dumps(_plain(state), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(kind: type[S], data: bytes) -> S:
    """Reads `encode`'s bytes. Raises `CorruptHistory`."""
    try:
        return cast("S", _restore(kind, json.loads(data)))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptHistory(f"a snapshot is no {kind.__name__}: {error}") from error


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case bytes():
            return value.hex()
        case Mapping():
            return {key: _plain(each) for key, each in value.items()}
        case tuple():
            return [_plain(each) for each in value]
        case _ if dataclasses.is_dataclass(value):
            return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
        case _:
            return value


def _restore(kind: object, value: object) -> object:
    origin = get_origin(kind)
    if origin is types.UnionType:
        inner = next(each for each in get_args(kind) if each is not type(None))
        return None if value is None else _restore(inner, value)
    if origin is tuple:
        return tuple(_restore(get_args(kind)[0], each) for each in cast("list[object]", value))
    if origin is not None:  # a mapping by name
        inner = get_args(kind)[1]
        return {key: _restore(inner, each) for key, each in cast("dict[str, object]", value).items()}
    return _restore_class(cast("type", kind), value)


def _restore_class(kind: type, value: object) -> object:
    if issubclass(kind, Enum):
        return kind(value)
    if kind is bytes:
        return bytes.fromhex(cast("str", value))
    hints = get_type_hints(kind)
    if issubclass(kind, tuple):
        pairs = zip(hints.values(), cast("list[object]", value), strict=True)
        build = cast("Callable[..., object]", kind)  # a named tuple
        return build(*[_restore(hint, each) for hint, each in pairs])
    if dataclasses.is_dataclass(kind):
        given = cast("dict[str, object]", value)
        return kind(**{name: _restore(hint, given[name]) for name, hint in hints.items() if name in given})
    if kind.__name__ == "float" and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")  # noqa: TRY004 (a damaged snapshot, not a wrong call)
    return value
