"""Etags: a writer learns if what it has read has changed meanwhile. Pure."""

from braid.kernel.errors import Conflict


def check_etag(given: str, current: str, what: str) -> None:
    """Raises `Conflict` if an etag was given and is not the current one."""
    if given and given != current:
        raise Conflict(f"{what} has changed since it was read", field="etag", remedy="read it again, then repeat")
