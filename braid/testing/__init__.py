"""For tests of applications: `MemoryMesh`, the SDK without brokers and services, on a clock that the test moves."""

from braid.testing.mesh import MemoryMesh

__all__ = ["MemoryMesh"]
