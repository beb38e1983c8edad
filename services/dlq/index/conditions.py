"""Translates the part of a filter that the index can judge into SQL over its columns. Pure.

A condition may let through more letters than its filter, never fewer; the caller applies `filter.matches` to the
result. Values are passed as SQL arguments, never as part of the SQL text.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.kernel.filters.grammar import All, Comparison, Filter, Not, Some

_COLUMNS: Final = {"group": "l.owner", "lane": "l.lane", "id": "l.id"}
_NUMBERS: Final = {"attempts": "l.attempts", "partition": "l.origin_partition", "time": "l.time_ms"}


class Condition(NamedTuple):
    """An SQL expression over table `letters l`, its arguments, and whether it is exactly the filter."""

    sql: str
    arguments: tuple[str | int, ...]
    exact: bool


ANYTHING: Final = Condition("1", (), False)


def condition_of(filter: Filter) -> Condition:
    """The narrowest condition for a filter; `ANYTHING` if the index cannot judge it."""
    match filter:
        case Comparison():
            return _comparison(filter)
        case Not(part):
            inner = condition_of(part)
            return inner._replace(sql=f"NOT {inner.sql}") if inner.exact else ANYTHING
        case All(parts):
            return _joined("AND", "1", [condition_of(part) for part in parts])
        case Some(parts):
            return _joined("OR", "0", [condition_of(part) for part in parts])


def _comparison(test: Comparison) -> Condition:
    if isinstance(test.value, int):
        return Condition(f"({_NUMBERS[test.field]} {test.operator} ?)", (test.value,), True)
    if test.operator == "~":
        return ANYTHING
    if test.field == "error":
        equal = Condition("(l.error = ? OR l.error_name = ?)", (test.value, test.value), True)
    elif test.field in _COLUMNS:
        equal = Condition(f"({_COLUMNS[test.field]} = ?)", (test.value,), True)
    else:
        return ANYTHING
    return equal if test.operator == "=" else equal._replace(sql=f"(NOT {equal.sql})")


def _joined(word: str, empty: str, parts: Sequence[Condition]) -> Condition:
    sql = f" {word} ".join(part.sql for part in parts) or empty
    arguments = tuple(argument for part in parts for argument in part.arguments)
    return Condition(f"({sql})", arguments, all(part.exact for part in parts))
