"""Kafka in memory, for tests and simulation: clusters that die, freeze and return, and processes that lose them.

Only asyncio primitives and the clock that is passed in; no threads, no sockets, no wall clock, no third-party client.
"""

from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.world import MemoryKafka, MemoryProcess

__all__ = ["MemoryCluster", "MemoryKafka", "MemoryProcess"]
