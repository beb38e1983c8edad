"""Pages that go through all groups: complete and in order, at a cost that depends on their size alone."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT, SLICE_SECONDS
from braid.kernel.timing.slices import Slices
from services.assigner.model.group import Group
from services.assigner.servicer.group_pages import page_size, page_through
from tests.support.metered_clock import MeteredClock

GROUPS: Final = {"a": 3, "a-b": 2, "b": 0, "c": 4}  # a-b comes after a, though `a-b/0` comes before `a/0`
STEP_SECONDS: Final = 0.002


@dataclass
class Listed:
    """Pages over groups with `items` items each, and the groups that were looked at."""

    groups: dict[str, int]
    clock: MeteredClock = field(default_factory=MeteredClock)
    looked_at: list[str] = field(default_factory=list)

    def page(self, size: int, token: str = "") -> tuple[list[str], str]:
        """A page of this size."""
        later = (Group(name) for name in sorted(self.groups) if name >= token.partition("/")[0])
        return asyncio.run(page_through(later, self._items, size, token, Slices(self.clock)))

    def all(self, size: int) -> Iterator[str]:
        """Every item, page by page."""
        items, token = self.page(size)
        yield from items
        while token:
            items, token = self.page(size, token)
            yield from items

    def _items(self, group: Group) -> Iterable[tuple[str, str]]:
        self.looked_at.append(group.name)
        self.clock.work(STEP_SECONDS)
        count = self.groups.get(group.name, 0)
        return [(f"{group.name}/{number}", f"{group.name}/{number}") for number in reversed(range(count))]


@pytest.mark.parametrize("size", range(1, 12))
def test_pages_of_any_size_hold_everything_once_in_order(size: int) -> None:
    assert list(Listed(GROUPS).all(size)) == [f"{name}/{at}" for name, count in GROUPS.items() for at in range(count)]


def test_a_page_looks_at_the_groups_it_holds_and_one_more() -> None:
    listed = Listed({f"g{number:04d}": 2 for number in range(1_000)})
    items, token = listed.page(10)
    assert (len(items), token, len(listed.looked_at)) == (10, "g0004/1", 6)
    listed.looked_at.clear()
    listed.page(10, token)
    assert listed.looked_at == [f"g{number:04d}" for number in range(4, 11)]


def test_a_page_that_finds_nothing_gives_others_their_turn() -> None:
    listed = Listed({f"g{number:04d}": 0 for number in range(1_000)})
    assert listed.page(10) == ([], "")
    assert listed.clock.longest <= SLICE_SECONDS + STEP_SECONDS


def test_a_list_goes_on_behind_a_group_that_is_gone() -> None:
    listed = Listed({"a": 2, "c": 1})
    assert listed.page(5, "b/7") == (["c/0"], "")


def test_sizes_are_bounded() -> None:
    assert (page_size(0), page_size(7), page_size(10**9)) == (PAGE_SIZE_DEFAULT, 7, PAGE_SIZE_MAX)
    with pytest.raises(Invalid):
        page_size(-1)
