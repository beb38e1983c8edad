"""Whether a filter matches: its parts put together, and the comparisons that every vocabulary shares. Pure."""

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from braid.kernel.filters.grammar import All, Comparison, Filter, Not, Some

_Ordered = TypeVar("_Ordered", float, str)
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def satisfied(filter: Filter, compare: Callable[[Comparison], bool]) -> bool:
    """Whether a filter holds where `compare` says which of its comparisons do."""
    match filter:
        case Comparison():
            return compare(filter)
        case Not(part):
            return not satisfied(part, compare)
        case All(parts):
            return all(satisfied(part, compare) for part in parts)
        case Some(parts):
            return any(satisfied(part, compare) for part in parts)


def in_order(sign: str, found: _Ordered, value: _Ordered) -> bool:
    """Whether two numbers, or two texts, stand as `=`, `!=`, `<`, `<=`, `>` or `>=` says."""
    return _ORDER[sign](found, value)


def contains(text: str, value: str) -> bool:
    """The operator `~`: whether a text contains a value; case is ignored."""
    return value.casefold() in text.casefold()


def one_matches(sign: str, texts: Collection[str], value: str) -> bool:
    """Whether `=` or `~` holds for one of the texts of a field, or `!=` for all of them; there may be none."""
    if sign == "~":
        return any(contains(text, value) for text in texts)
    return (value in texts) == (sign == "=")
