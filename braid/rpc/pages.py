"""Reads lists that services answer in pages (AIP-158)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Protocol, TypeVar

from braid.kernel.errors import Exhausted
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.rpc import LIST_PAGES_MAX, UNARY_DEADLINE_SECONDS
from braid.rpc.mesh_client import ServiceClient


class ListRequest(Protocol):
    """The request of a List method."""

    page_size: int
    page_token: str


class Page(Protocol):
    """The response of a List method."""

    @property
    def next_page_token(self) -> str:
        """The token of the next page; '' on the last."""
        ...


P = TypeVar("P", bound=Page)
R = TypeVar("R", bound=ListRequest)


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


def listed(
    client: ServiceClient,
    method: str,
    request: ListRequest,
    response_type: type[P],
    *,
    timeout_seconds: float = UNARY_DEADLINE_SECONDS,
) -> AsyncIterator[P]:
    """Yields every page of a service's list, in pages as large as can be unless the request names a size.

    Raises:
        Exhausted: the list does not end within `LIST_PAGES_MAX` pages.
        BraidError: a call fails.
    """

    return pages_of(
        lambda token: client.unary(method, page_request(request, token), response_type, timeout_seconds=timeout_seconds)
    )


def page_request(request: R, token: str) -> R:
    """Returns the request of one page of a list, as large as can be unless the request names a size."""
    page = deepcopy(request)  # an earlier one may still be on its way, late
    page.page_size, page.page_token = request.page_size or PAGE_SIZE_MAX, token
    return page
