"""Points of pathways and their hashes, as Datadog's Data Streams Monitoring computes them. Pure.

A record passes a point when a producer sends it, and another when a member of a group is handed it. A point's hash is
made of the service, of tags, and of the hash of the point before. So one number names a record's whole way.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.pathways import PATHWAY_HASHES_KEPT_MAX

_WORD: Final = (1 << 64) - 1
# FNV-1 with 64 bits (Fowler, Noll, Vo; RFC 9923): the offset basis and the prime.
_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_ENVIRONMENT: Final = "none"  # what Datadog's libraries take where nobody names one


class Edge(NamedTuple):
    """The stream and the group that a point of a pathway is about.

    Attributes:
        stream: The stream that the record is sent to, or comes from. A failover changes its topic, not its pathway.
        group: The group that is handed the record; empty for a record that is sent.
    """

    stream: str
    group: str = ""

    def tags(self) -> Sequence[str]:
        """Returns the point's tags, sorted, as Datadog's libraries tag Kafka's records."""
        stream = f"topic:{self.stream}"
        if self.group:
            return ("direction:in", f"group:{self.group}", stream, "type:kafka")
        return ("direction:out", stream, "type:kafka")


def fnv1(data: bytes) -> int:
    """Returns the FNV-1 hash of bytes."""
    found = _BASIS
    for byte in data:
        found = (found * _PRIME & _WORD) ^ byte
    return found


@lru_cache(maxsize=PATHWAY_HASHES_KEPT_MAX)
def point_hash(service: str, edge: Edge, parent: int) -> int:
    """Returns the hash of a point; `parent` is the hash of the point before, 0 where a pathway begins."""
    node = fnv1("".join((service, _ENVIRONMENT, *edge.tags())).encode())
    return fnv1(node.to_bytes(8, "little") + parent.to_bytes(8, "little"))
