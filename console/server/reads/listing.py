"""Reads of whole lists: each fills one part of a page with a row for each item."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar, cast

from google.protobuf.message import Message

from braid.rpc.pages import ListRequest, Page
from console.server.limits import POLL_SECONDS, ROWS_MAX
from console.server.live.parts import Content
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read

P = TypeVar("P", bound=Page)
M = TypeVar("M", bound=Message)


class _Named(Protocol):
    name: str


def name_of(item: Message) -> str:
    """The name of a message that has one."""
    return cast("_Named", item).name


def listing(
    part: str,
    service: str,
    method: str,
    request: Callable[[Params], ListRequest],
    response_type: type[P],
    items: Callable[[P], Iterable[M]],
    key: Callable[[M], str] = name_of,
    *,
    seconds: float = POLL_SECONDS,
    most: int = ROWS_MAX,
) -> Read:
    """Makes the read of a list, which fills a part.

    Args:
        part: Its name.
        service: Who has the list.
        method: The RPC that lists it.
        request: What the RPC is asked, for the parameters of a page.
        response_type: What it answers.
        items: The items of an answer.
        key: The key of an item's row.
        seconds: Between two reads.
        most: Rows at the most.
    """
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found, more = await reader.pages(service, method, request(params), response_type, items, most)
        return {part: memo.table(found, key, more)}

    return Read((part,), take, seconds)
