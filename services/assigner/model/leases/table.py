"""The leases of a group by name: an immutable mapping that shares unchanged parts with its predecessor. Pure.

An event changes a few of very many leases. They lie in pages, channel by channel, and a new version copies the pages
it changes. Versions of one descent share their columns, which follow to whichever is asked for (`columns`).
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from types import MappingProxyType
from typing import Final, TypeVar, overload

from services.assigner.model.leases.columns import EMPTY, PAGE, LeaseColumns, Page
from services.assigner.model.leases.lease import Lease, split

T = TypeVar("T")

_NONE: Final[Mapping[str, Lease]] = MappingProxyType({})


class Leases(Mapping[str, Lease]):
    """A mapping from names to leases, iterated by channel, then by partition number."""

    __slots__ = ("_columns", "_count", "_pages")

    def __init__(self, leases: Mapping[str, Lease] = _NONE) -> None:
        """The leases of a plain mapping. Raises `ValueError` for a name that is none."""
        self._pages: dict[str, tuple[Page, ...]] = {}
        self._count = 0
        self._columns = [LeaseColumns()]
        if leases:
            made = self.changed(leases)
            self._pages, self._count = made._pages, made._count

    def changed(self, changes: Mapping[str, Lease | None]) -> "Leases":
        """A version in which some leases are others, new, or (None) gone. Raises `ValueError` as the constructor."""
        parts: dict[tuple[str, int], list[tuple[int, Lease | None]]] = {}
        for name, lease in changes.items():
            channel, partition = split(name)
            if partition < 0:
                raise ValueError(f"{name!r} is no lease")
            parts.setdefault((channel, partition // PAGE), []).append((partition % PAGE, lease))
        result = Leases.__new__(Leases)
        result._columns = self._columns
        result._pages, result._count = dict(self._pages), self._count
        for (channel, number), some in parts.items():
            result._turn(channel, number, some)
        return result

    def _turn(self, channel: str, number: int, some: list[tuple[int, Lease | None]]) -> None:
        """Replaces a page; called only while the version is being made."""
        pages = list(self._pages.get(channel, ()))
        pages += [EMPTY] * (number + 1 - len(pages))
        page = list(pages[number])
        for at, lease in some:
            self._count += (lease is not None) - (page[at] is not None)
            page[at] = lease
        pages[number] = tuple(page) if any(page) else EMPTY
        while pages and pages[-1] is EMPTY:
            pages.pop()
        if pages:
            self._pages[channel] = tuple(pages)
        else:
            self._pages.pop(channel, None)

    @property
    def columns(self) -> LeaseColumns:
        """The columns of this version; read them before asking for another version's."""
        if self._columns[0].crowded:
            self._columns[0] = LeaseColumns()
        return self._columns[0].follow(self._pages)

    @property
    def channels(self) -> list[str]:
        """Channels with leases, sorted by name."""
        return sorted(self._pages)

    def held_by(self, member: str) -> dict[str, Lease]:
        """Returns a member's leases, sorted by name."""
        return dict(self.columns.of(member))

    def of_channel(self, channel: str) -> Iterator[tuple[str, Lease]]:
        """Returns the leases of one channel by partition number."""
        for number, page in enumerate(self._pages.get(channel, ())):
            for at, lease in enumerate(page):
                if lease is not None:
                    yield f"{channel}/{number * PAGE + at}", lease

    def held(self) -> Iterator[tuple[str, int, str]]:
        """Yields channel, partition and holder of each lease with a holder, in no order."""
        for channel, pages in self._pages.items():
            for number, page in enumerate(pages):
                for at, lease in enumerate(page):
                    if lease is not None and lease.holder:
                        yield channel, number * PAGE + at, lease.holder

    def pairs(self) -> Iterator[tuple[str, Lease]]:
        """Yields all names with their leases."""
        for channel in self.channels:
            yield from self.of_channel(channel)

    # --- a mapping

    def __getitem__(self, name: str) -> Lease:
        lease = self._find(name)
        if lease is None:
            raise KeyError(name)
        return lease

    @overload
    def get(self, name: str, /) -> Lease | None: ...
    @overload
    def get(self, name: str, /, default: Lease | T) -> Lease | T: ...
    def get(self, name: str, /, default: Lease | T | None = None) -> Lease | T | None:
        """A lease, or else a default: without an exception, because histories begin with leases that are not there."""
        lease = self._find(name)
        return default if lease is None else lease

    def _find(self, name: str) -> Lease | None:
        channel, partition = split(name)
        pages = self._pages.get(channel, ())
        return pages[partition // PAGE][partition % PAGE] if 0 <= partition < len(pages) * PAGE else None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs())

    def items(self) -> ItemsView[str, Lease]:
        """All names with their leases."""
        return _Items(self)

    def values(self) -> ValuesView[Lease]:
        """All leases."""
        return _Values(self)

    def __repr__(self) -> str:
        return f"Leases({dict(self.items())!r})"


class _Items(ItemsView[str, Lease]):
    """Walks the pages instead of looking up every name."""

    def __init__(self, leases: Leases) -> None:
        super().__init__(leases)
        self._leases = leases

    def __iter__(self) -> Iterator[tuple[str, Lease]]:
        return self._leases.pairs()


class _Values(ValuesView[Lease]):
    """Walks the values of the pages, as `_Items` does."""

    def __init__(self, leases: Leases) -> None:
        super().__init__(leases)
        self._leases = leases

    def __iter__(self) -> Iterator[Lease]:
        return (lease for _, lease in self._leases.pairs())
