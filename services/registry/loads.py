"""How much a cluster carries, as its brokers say: room on their disks, and bytes taken. No I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One cluster's load. A cluster that was not measured lately, or does not tell, has none.

    Attributes:
        measured_ms: When.
        broker: Whose disk is the fullest: the one with the smallest share free.
        free_bytes: Of that disk, as the broker may use it.
        total_bytes: Of that disk; more than zero.
        bytes_per_s: Taken by all logs of the cluster over the last minute, each partition counted once however many
            copies it has. Braid's records and everybody else's, as they lie on disk: compressed.
    """

    measured_ms: int
    broker: int
    free_bytes: int
    total_bytes: int
    bytes_per_s: float

    @property
    def free_share(self) -> float:
        """Free part of the fullest disk, 0 to 1."""
        return self.free_bytes / self.total_bytes
