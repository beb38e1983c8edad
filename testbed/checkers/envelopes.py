"""Commits read once for all checkers."""

from collections.abc import Iterator
from functools import lru_cache

from braid.kernel import envelope
from braid.kernel.envelope.spill import read_spilled
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from testbed.checkers.facts import Committed

_COMMITS_KEPT = 256  # each fact passes all checkers before the next one comes


@lru_cache(_COMMITS_KEPT)
def decode(offset: int, metadata: str) -> envelope.Decoded:
    """See `braid.kernel.envelope.decode`; the answer cannot be changed by anybody."""
    return envelope.decode(offset, metadata)


def read(commit: Committed) -> envelope.Decoded:
    """What a stored commit says."""
    return decode(commit.offset, commit.metadata)


def stated(commit: Committed) -> Iterator[EnvelopeFields]:
    """What a stored commit says, first what the record beside it does. Raises `BraidError` for one that is not its."""
    fields = read(commit).fields
    if fields.spill is not None and commit.beside is not None:
        yield read_spilled(commit.group, TopicPartition(commit.log.topic, commit.log.partition), fields, *commit.beside)
    yield fields
