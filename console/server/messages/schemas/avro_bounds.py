"""How much an Avro schema can make of a value's bytes, so that no value is decoded that would fill the memory. Pure.

An array may claim more items than there are bytes, if an item takes none: `null`, an empty record, `fixed` of nothing.
A record of records makes many objects of one byte. Both come from whoever registers schemas, and who sends values.
"""

from typing import Final, NamedTuple, cast

Schema = object  # as JSON has it

_DEPTH_MAX: Final = 40  # types within one another
_NODES_MAX: Final = 2_000_000  # objects that decoding a value may make
_SIZES: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class Bounds(NamedTuple):
    """The bytes that decoding a type takes at least, and the objects that it makes at most.

    Attributes:
        bytes: The least that a value has.
        nodes: The most objects, without the items of arrays and maps.
        per_byte: The most objects that a byte within an array or map makes.
    """

    bytes: int
    nodes: int
    per_byte: float

    def objects(self, size: int) -> float:
        """The most objects that a value of so many bytes makes."""
        return self.nodes + self.per_byte * size


def check_size(bounds: Bounds, size: int) -> None:
    """Raises `ValueError` where a value of so many bytes could make more objects than there is room for."""
    if bounds.objects(size) > _NODES_MAX:
        raise ValueError(f"its schema could make more than {_NODES_MAX} parts of it")


def bounds_of(schema: Schema, known: dict[str, Bounds]) -> Bounds:
    """The bounds of a schema. Named types are added to `known`.

    Raises:
        ValueError: it refers to itself, is nested too deep, or has items that take no bytes.
    """
    return _Walk(known).bounds(schema, "", 0)


class _Walk:
    def __init__(self, known: dict[str, Bounds]) -> None:
        self._known = known
        self._open: set[str] = set()

    def bounds(self, schema: Schema, space: str, depth: int) -> Bounds:
        if depth > _DEPTH_MAX:
            raise ValueError(f"its schema is nested more than {_DEPTH_MAX} levels deep")
        if isinstance(schema, str):
            return self._named(schema, space)
        if isinstance(schema, list):
            parts = [self.bounds(each, space, depth + 1) for each in schema]
            return Bounds(1 + min(each.bytes for each in parts), *_largest(parts))
        if not isinstance(schema, dict):
            raise TypeError("it is no schema")
        match schema.get("type"):
            case "array":
                return self._items(self.bounds(schema["items"], space, depth + 1))
            case "map":
                item = self.bounds(schema["values"], space, depth + 1)
                return self._items(Bounds(item.bytes + 1, item.nodes + 1, item.per_byte))
            case "record" | "error":
                return self._record(schema, space, depth)
            case "enum":
                return self._keep(schema, space, Bounds(1, 1, 0.0))
            case "fixed":
                return self._keep(schema, space, Bounds(_size(schema), 1, 0.0))
            case inner:
                return self.bounds(inner, space, depth + 1)

    def _named(self, name: str, space: str) -> Bounds:
        if name in _SIZES:
            return Bounds(_SIZES[name], 1, 0.0)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._open:
            raise ValueError("its schema refers to itself")
        found = self._known.get(full) or self._known.get(name)
        if found is None:
            raise ValueError(f"its schema names {full[:100]}, which is nowhere")
        return found

    def _items(self, item: Bounds) -> Bounds:
        if item.bytes == 0:
            raise ValueError("its schema has items that take no bytes")
        return Bounds(1, 1, max(item.per_byte, item.nodes / item.bytes))

    def _record(self, schema: dict[str, Schema], space: str, depth: int) -> Bounds:
        name = _full_name(schema, space)
        self._open.add(name)
        inner = name.rpartition(".")[0]
        fields = cast("list[dict[str, Schema]]", schema.get("fields", []))
        parts = [self.bounds(each["type"], inner, depth + 1) for each in fields]
        self._open.discard(name)
        total = sum(each.nodes for each in parts)
        ratio = max((each.per_byte for each in parts), default=0.0)
        return self._keep(schema, space, Bounds(sum(each.bytes for each in parts), 1 + total, ratio))

    def _keep(self, schema: dict[str, Schema], space: str, bounds: Bounds) -> Bounds:
        self._known[_full_name(schema, space)] = bounds
        return bounds


def _largest(parts: list[Bounds]) -> tuple[int, float]:
    return 1 + max(each.nodes for each in parts), max(each.per_byte for each in parts)


def _size(schema: dict[str, Schema]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise ValueError("its schema has a size that is none")  # below zero, the bounds of what holds it are none
    return size


def _full_name(schema: dict[str, Schema], space: str) -> str:
    name, own = str(schema.get("name", "")), str(schema.get("namespace", space))
    return name if "." in name or not own else f"{own}.{name}"
