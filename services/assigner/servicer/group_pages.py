"""Pages of lists that go through the groups: a page costs what it holds, and not what all groups have."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from braid.kernel.errors import Invalid
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.timing.slices import Slices
from services.assigner.model.group import Group

T = TypeVar("T")


async def page_through(
    groups: Iterable[Group], items: Callable[[Group], Iterable[tuple[str, T]]], size: int, token: str, slices: Slices
) -> tuple[list[T], str]:
    """Returns the items after a token, and the next page's token; '' at the end.

    Args:
        groups: In order, from the group of the token on.
        items: Returns the items of a group with their keys, `<group>/…`, by which they are ordered within the group.
        size: How many items the page has at most.
        token: The last key of the page before; '' for the first page.
        slices: Give other tasks their turn between groups.
    """
    begun, found = token.partition("/")[0], list[tuple[str, T]]()
    for group in groups:
        of_group = sorted(items(group), key=_key)
        found += [each for each in of_group if each[0] > token] if group.name == begun else of_group
        if len(found) > size:
            break
        await slices.turn()
    return [item for _, item in found[:size]], found[size - 1][0] if len(found) > size else ""


def page_size(asked: int) -> int:
    """Returns how many items a page has. Raises `Invalid`."""
    if asked < 0:
        raise Invalid(f"a page of {asked} items", field="page_size", remedy="use 0 for the default")
    return min(asked or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)


def _key(item: tuple[str, T]) -> str:
    return item[0]
