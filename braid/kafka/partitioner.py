"""Chooses the partition of a key: Kafka's murmur2, so that every client in every language agrees."""

from functools import lru_cache
from typing import Final

from braid.kernel.limits.client import HASHED_KEY_BYTES_MAX, HASHED_KEYS_MAX

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with the seed Kafka's Java client uses. Unsigned."""
    length = len(data)
    digest = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        digest = digest * _MULTIPLIER & _MASK ^ word
    if whole != length:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    digest = (digest ^ digest >> 13) * _MULTIPLIER & _MASK
    return digest ^ digest >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a key among `partitions`, as Kafka's default partitioner places it."""
    return (_remembered(key) if len(key) <= HASHED_KEY_BYTES_MAX else murmur2(key) & 0x7FFFFFFF) % partitions


@lru_cache(HASHED_KEYS_MAX)
def _remembered(key: bytes) -> int:
    """Caches the hashes of keys: keys repeat, and hashing one costs more than all other work on a record."""
    return murmur2(key) & 0x7FFFFFFF
