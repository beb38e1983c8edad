"""The acts of the demo, and how far the telemetry has come when each fault happens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Parts of the wanted observations after which things happen.
POISON_AT: Final = 0.05
MEMBER_DIES_AT: Final = 0.15
CLUSTER_DIES_AT: Final = 0.35
BACKLOG: Final = 0.03  # waits on the cluster when it dies,
BACKLOG_MIN: Final = 6_000  # but more than members have fetched already
CLUSTER_RETURNS_AFTER: Final = 0.10  # sent to the other cluster meanwhile


@dataclass(frozen=True)
class Plan:
    """The settings of one run of the demo.

    Attributes:
        directory: Of everything the run leaves behind.
        records: Observations to be acknowledged at least.
        rate_per_s: Of observations.
        keep: Whether the mesh stays.
        event_store: Whether a Spark job keeps the stream as a table.
        store: Where the mesh keeps its histories: `sqlite` or `etcd`.
        secure: Whether everything speaks mutual TLS to services, which enforce rights.
    """

    directory: Path
    records: int
    rate_per_s: int
    keep: bool
    event_store: bool = True
    store: str = ""
    secure: bool = True

    @property
    def console_port(self) -> int | None:
        """The console's port: any that is free where the mesh stays. Else None: nobody would look at it."""
        return 0 if self.keep else None
