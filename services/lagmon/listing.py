"""Asks other services for whole lists, again and again."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from braid.kernel.errors import BraidError
from braid.kernel.limits.lagmon import LAG_PEER_PAGES_MAX
from braid.kernel.ports import Host


class Page(Protocol):
    """A part of a list."""

    @property
    def next_page_token(self) -> str: ...


P = TypeVar("P", bound=Page)


async def ask_every(host: Host, seconds: float, ask: Callable[[], Awaitable[None]]) -> None:
    """Asks until cancelled; without an answer it asks again as late as with one."""
    while True:
        with contextlib.suppress(BraidError):  # it does not answer now: what is known stands
            await ask()
        await host.clock.sleep(seconds)


async def read_pages(ask: Callable[[str], Awaitable[P]]) -> Sequence[P]:
    """Reads all pages of a list; `ask` takes the token of a page. Returns nothing for a list that is too long."""
    pages: list[P] = []
    token = ""
    for _ in range(LAG_PEER_PAGES_MAX):
        pages.append(await ask(token))
        token = pages[-1].next_page_token
        if not token:
            return pages
    return []
