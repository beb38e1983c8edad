"""Reads each commit once for all checkers."""

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
    """See `braid.kernel.envelope.decode`; the result is immutable."""
    return envelope.decode(offset, metadata)


def read(commit: Committed) -> envelope.Decoded:
    """The claims of a stored commit."""
    return decode(commit.offset, commit.metadata)


def stated(commit: Committed) -> Iterator[EnvelopeFields]:
    """The claims of a stored commit, those of the record beside it first. Raises `BraidError` for a record that is not
    its own."""
    fields = read(commit).fields
    if fields.spill is not None and commit.beside is not None:
        yield read_spilled(commit.group, TopicPartition(commit.log.topic, commit.log.partition), fields, *commit.beside)
    yield fields
