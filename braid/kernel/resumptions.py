"""Resumptions: reports of a producer whose partition continues over another connection. Shared by SDK and registry.

A log that lost its end has another leader, so whoever writes on does so over another connection, or finds its offsets
begin again lower. Kafka keeps a producer's id and a sequence with each batch (KIP-98): by these the registry sees
whether the records that were acknowledged before lie where they did.
"""

from typing import Final, NamedTuple

SEQUENCES: Final = 1 << 31  # a producer's sequence counts 0 … 2³¹-1 and begins again


class Stretch(NamedTuple):
    """Consecutive acknowledged offsets of records with consecutive sequences; `sequence` is the first record's."""

    first: int
    next: int
    sequence: int


class Resumption(NamedTuple):
    """A partition's acknowledgements before and after a connection ended: offsets.

    Attributes:
        first: The first that came over the connection before, of records that were sent over no other.
        next: The one after the last of them.
        resumed: The first that came over the other connection; not below `next` unless its record was sent after all
            of these, so that a lower one proves that the log was cut.
        producer: Kafka's id of the client they came for; -1 of a client without one, or where it is not told.
        stretches: Which of them were this producer's own, in order, as far as that is remembered: the first and the
            newest always are. Empty from producers of older releases.
    """

    partition: int
    first: int
    next: int
    resumed: int
    producer: int = -1
    stretches: tuple[Stretch, ...] = ()
