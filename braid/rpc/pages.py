"""Reads lists that services answer in pages (AIP-158)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from braid.kernel.errors import Exhausted
from braid.kernel.limits.rpc import LIST_PAGES_MAX


class Page(Protocol):
    """The response of a List method."""

    @property
    def next_page_token(self) -> str:
        """The token of the next page; '' on the last."""
        ...


P = TypeVar("P", bound=Page)


async def pages_of(ask: Callable[[str], Awaitable[P]]) -> AsyncIterator[P]:
    """Yields every page of a list. `ask` requests the page of a token; the first one's is ''.

    Raises:
        Exhausted: the list does not end within `LIST_PAGES_MAX` pages.
        BraidError: `ask` raises it.
    """
    token = ""
    for _ in range(LIST_PAGES_MAX):
        page = await ask(token)
        yield page
        token = page.next_page_token
        if not token:
            return
    raise Exhausted(f"a list has more than {LIST_PAGES_MAX} pages", remedy="ask for a part of it")
