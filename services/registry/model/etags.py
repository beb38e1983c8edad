"""Etags: whoever changes what they have read is told when it changed meanwhile. Pure."""

from braid.kernel.errors import Conflict


def check_etag(given: str, current: str, what: str) -> None:
    """Raises `Conflict` when an etag was given and is not the current one."""
    if given and given != current:
        raise Conflict(f"{what} has changed since it was read", field="etag", remedy="read it again, then repeat")
