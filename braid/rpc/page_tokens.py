"""Tokens of pages: the place after which the next page begins, in a text that clients pass back unread (AIP-158). Pure.

A token is a JSON array of the parts of a place. Whatever a client makes up is refused, or is a place like any other.
"""

import json
from typing import Final, Generic, TypeVar, get_type_hints

from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import PAGE_TOKEN_CHARACTERS_MAX

PlaceT = TypeVar("PlaceT", bound=tuple[object, ...])
_NUMBERS: Final = range(-(1 << 63), 1 << 63)


class PageTokens(Generic[PlaceT]):
    """Writes and reads the tokens of one list, whose places are named tuples of strings and integers."""

    def __init__(self, place: type[PlaceT]) -> None:
        """Takes the class of the places. Raises `TypeError` if parts are neither strings nor integers."""
        self._place = place
        self._kinds = list(get_type_hints(place).values())
        if not set(self._kinds) <= {str, int}:
            raise TypeError(f"the parts of {place.__name__} are not all strings and integers")

    def write(self, place: PlaceT | None) -> str:
        """Returns the token of the page after a place; '' at the end of a list."""
        return "" if place is None else json.dumps(place, separators=(",", ":"))

    def read(self, token: str) -> PlaceT | None:
        """Reads the place after which a page begins; None for the first page.

        Raises:
            Invalid: no token of this list.
        """
        if not token:
            return None
        parts = _parsed(token)
        if [type(part) for part in parts] != self._kinds or any(type(n) is int and n not in _NUMBERS for n in parts):
            raise Invalid(
                "not a token of this method", field="page_token", remedy="pass next_page_token of the last page"
            )
        return tuple.__new__(self._place, parts)


def _parsed(token: str) -> list[object]:
    """Parses a JSON array; no parts for anything else."""
    if len(token) > PAGE_TOKEN_CHARACTERS_MAX:
        return []
    try:
        found = json.loads(token)
    except (ValueError, RecursionError):  # no JSON, or nested without end
        return []
    return found if isinstance(found, list) else []
