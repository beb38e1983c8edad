"""How many calls one caller may have open at a replica, by what they are for. Pure."""

from typing import Final

from braid.kernel.audit.calls import host_of
from braid.kernel.limits.rpc import (
    OPEN_CALLS_PER_CALLER_MAX,
    OPEN_STREAMS_PER_CALLER_MAX,
    OPEN_WATCHES_PER_CALLER_MAX,
)
from braid.kernel.ports import Caller

# Each member, producer or process has one of its own open, and thousands of them may share a principal.
_ONE_EACH: Final = frozenset({"Join", "Beat", "WatchRoutes", "WatchClusters"})
UNARY: Final = "unary"  # stands for all methods that are no streams


def counted_as(method: str, *, stream: bool) -> tuple[str, int]:
    """Returns the kind that calls of a method (its short name) are counted as, and how many of it may be open."""
    if not stream:
        return UNARY, OPEN_CALLS_PER_CALLER_MAX
    return method, OPEN_STREAMS_PER_CALLER_MAX if method in _ONE_EACH else OPEN_WATCHES_PER_CALLER_MAX


def counted_for(caller: Caller) -> str:
    """Names the caller that a call is counted for: a proved principal; else its host, as names can be invented."""
    return caller.principal if caller.authenticated else host_of(caller.peer)
