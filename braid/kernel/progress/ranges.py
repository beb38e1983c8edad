"""Sets of offsets as half-open integer ranges: an immutable value and its algebra. Nothing here knows Kafka."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self

from braid.kernel.errors import Invalid


class Span(NamedTuple):
    """One half-open range `[start, end)` of integers; `start < end` inside a `Ranges`."""

    start: int
    end: int


class Ranges:
    """A set of integers held as sorted, disjoint, coalesced half-open spans.

    Immutable and hashable; equal sets are equal values. Touching spans are always merged, so `[1, 2)` with `[2, 3)`
    is one span. Set operations are linear in the number of spans, `in` and `covers` are logarithmic.

    Attributes:
        edges: Start, end, start, end … of the spans; strictly increasing.
    """

    __slots__ = ("edges",)
    edges: tuple[int, ...]

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        """Builds the union of any spans, in any order; empty ones are ignored.

        Raises:
            Invalid: a span ends before it starts.
        """
        object.__setattr__(self, "edges", _coalesced(sorted(spans)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Ranges is immutable: {name}")

    @classmethod
    def of_offsets(cls, offsets: Iterable[int]) -> Self:
        """The set of these integers."""
        return cls((offset, offset + 1) for offset in offsets)

    @classmethod
    def of_edges(cls, edges: Sequence[int]) -> Self:
        """Builds from start, end, start, end …; the caller vouches that they strictly increase."""
        made = cls.__new__(cls)
        object.__setattr__(made, "edges", tuple(edges))
        return made

    def __repr__(self) -> str:
        return f"Ranges({[tuple(span) for span in self]})"

    def __eq__(self, other: object) -> bool:
        return self.edges == other.edges if isinstance(other, Ranges) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.edges)

    def __bool__(self) -> bool:
        return bool(self.edges)

    def __iter__(self) -> Iterator[Span]:
        """Iterates over the spans, not over the integers in them."""
        return map(Span._make, zip(self.edges[::2], self.edges[1::2], strict=True))

    def __len__(self) -> int:
        """How many spans there are; `count` says how many integers."""
        return len(self.edges) // 2

    def __contains__(self, offset: int) -> bool:
        return bisect_right(self.edges, offset) % 2 == 1

    def __or__(self, other: "Ranges") -> "Ranges":
        return self.union(other)

    def __sub__(self, other: "Ranges") -> "Ranges":
        return self.subtract(other)

    def __and__(self, other: "Ranges") -> "Ranges":
        return self.intersect(other)

    def __le__(self, other: "Ranges") -> bool:
        """Whether this set is a subset of the other."""
        return all(other.covers(start, end) for start, end in self)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans in increasing order; two neighbours never touch."""
        return tuple(self)

    @property
    def count(self) -> int:
        """How many integers the set holds."""
        return sum(self.edges[1::2]) - sum(self.edges[::2])

    @property
    def start(self) -> int | None:
        """The smallest integer, None when empty."""
        return self.edges[0] if self.edges else None

    @property
    def end(self) -> int | None:
        """One past the largest integer, None when empty."""
        return self.edges[-1] if self.edges else None

    def covers(self, start: int, end: int) -> bool:
        """Whether every integer of `[start, end)` is in the set; an empty range always is."""
        if start >= end:
            return True
        index = bisect_right(self.edges, start)
        return index % 2 == 1 and end <= self.edges[index]

    def add(self, start: int, end: int) -> "Ranges":
        """This set with `[start, end)` added.

        Raises:
            Invalid: `end` is below `start`.
        """
        return self.union(Ranges(((start, end),)))

    def union(self, other: "Ranges") -> "Ranges":
        """The integers in either set."""
        if not (self.edges and other.edges):
            return self if self.edges else other
        if self.edges[-1] < other.edges[0]:
            return Ranges.of_edges(self.edges + other.edges)
        if other.edges[-1] < self.edges[0]:
            return Ranges.of_edges(other.edges + self.edges)
        return Ranges((*self, *other))

    def subtract(self, other: "Ranges") -> "Ranges":
        """The integers in this set and not in the other."""
        if not (self.edges and other.edges):
            return self
        return self.intersect(other.gaps(self.edges[0], self.edges[-1]))

    def intersect(self, other: "Ranges") -> "Ranges":
        """The integers in both sets."""
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        edges: list[int] = []
        for start, end in few:
            edges += many.clip(start, end).edges
        return Ranges.of_edges(edges)

    def clip(self, start: int, end: int) -> "Ranges":
        """The integers of this set within `[start, end)`; logarithmic but for the copy."""
        if not self.edges or (start <= self.edges[0] and self.edges[-1] <= end):
            return self
        if start >= end:
            return EMPTY
        first, last = bisect_right(self.edges, start), bisect_left(self.edges, end)
        head = (start,) if first % 2 else ()
        tail = (end,) if last % 2 else ()
        return Ranges.of_edges(head + self.edges[first:last] + tail)

    def gaps(self, start: int, end: int) -> "Ranges":
        """The integers of `[start, end)` that are not in the set."""
        if start >= end:
            return EMPTY
        inner = self.clip(start, end).edges
        head = inner[1:] if inner and inner[0] == start else (start, *inner)
        return Ranges.of_edges(head[:-1] if head and inner and inner[-1] == end else (*head, end))


def _coalesced(spans: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    edges: list[int] = []
    for start, end in spans:
        if end < start:
            raise Invalid(f"the range [{start}, {end}) ends before it starts")
        if end == start:
            continue
        if edges and start <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        else:
            edges += (start, end)
    return tuple(edges)


EMPTY: Final = Ranges()
