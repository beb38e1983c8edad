"""Lists in pages are read to their end, and never for ever."""

from dataclasses import dataclass
from typing import Final

import pytest

from braid.kernel.errors import Exhausted, NotFound
from braid.kernel.limits.rpc import LIST_PAGES_MAX
from braid.rpc.pages import pages_of


@dataclass
class Page:
    """One page of a list of numbers."""

    numbers: list[int]
    next_page_token: str = ""


PAGES: Final = {"": Page([1, 2], "b"), "b": Page([], "c"), "c": Page([3])}


async def test_every_page_is_read_also_behind_an_empty_one() -> None:
    async def ask(token: str) -> Page:
        return PAGES[token]

    assert [number async for page in pages_of(ask) for number in page.numbers] == [1, 2, 3]


async def test_a_list_without_end_is_refused() -> None:
    asked = 0

    async def ask(token: str) -> Page:
        nonlocal asked
        asked += 1
        return Page([asked], "on")

    with pytest.raises(Exhausted, match=f"more than {LIST_PAGES_MAX} pages"):
        [page async for page in pages_of(ask)]
    assert asked == LIST_PAGES_MAX


async def test_an_error_ends_the_list_and_reaches_the_caller() -> None:
    async def ask(token: str) -> Page:
        if token:
            raise NotFound("no such stream")
        return Page([1], "on")

    read = list[Page]()
    with pytest.raises(NotFound):
        async for page in pages_of(ask):
            read.append(page)
    assert [page.numbers for page in read] == [[1]]
