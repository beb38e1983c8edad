"""Filters of dead letters as they are typed: where one is wrong is shown below it. Pure."""

from braid.kernel.errors import Invalid

_FIELDS = ("spec.filter", "filter")


def pointed(error: Invalid, where: str) -> Invalid:
    """The error of a filter with a caret under the place, named after the flag; any other error as it is.

    Args:
        error: What the dlq service answered; `metadata['column']`, counted from 1, tells the place.
        where: The filter that was sent.
    """
    if error.field not in _FIELDS:
        return error
    message = error.message
    column = error.metadata.get("column", "")
    if column.isdecimal() and "^" not in message:
        message = f"{message}\n  {where}\n  {'':{int(column) - 1}}^"
    remedy = error.remedy or "for example error=ValueError and group=indexer and time>=2026-11-21T14:03"
    return Invalid(message, field="--where", remedy=remedy, metadata=error.metadata)
