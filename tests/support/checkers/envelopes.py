"""Commits read once for all checkers."""

from functools import lru_cache

from braid.kernel import envelope
from tests.support.checkers.facts import Committed

_COMMITS_KEPT = 256  # each fact passes all checkers before the next one comes


@lru_cache(_COMMITS_KEPT)
def decode(offset: int, metadata: str) -> envelope.Decoded:
    """See `braid.kernel.envelope.decode`; the answer cannot be changed by anybody."""
    return envelope.decode(offset, metadata)


def read(commit: Committed) -> envelope.Decoded:
    """What a stored commit says."""
    return decode(commit.offset, commit.metadata)
