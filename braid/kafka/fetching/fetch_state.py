"""The state of one partition in a fetcher."""

from dataclasses import dataclass, field

from braid.kafka.fetching.chunk import Chunk
from braid.kernel.errors import BraidError, OffsetOutOfRange
from braid.kernel.ports import TopicPartition


@dataclass(slots=True, eq=False)
class Assigned:
    """The state of an assigned partition.

    `position` is the offset the caller gets next, or the first one of the current chunk.

    `leader_epoch` and `known_end` say what is known of the log: the newest leader epoch of what was fetched or is
    done, and up to where anything is done. `seen_epoch` is the newest leader epoch that metadata or records showed.
    """

    position: int
    known_end: int = 0
    leader_epoch: int = -1
    seen_epoch: int = -1
    checked_epoch: int = -1  # the newest under which what is known of the log was found to be right
    paused: bool = False
    asked: bool = False  # a request for it is under way
    chunk: Chunk | None = None
    looking: bool = False  # whether its log is the one it was before
    failure: BraidError | None = None
    replica: int = -1
    suspect: int | None = None
    not_before: float = field(default=0.0)

    def wants_data(self, now: float) -> bool:
        wants = not self.paused and not self.asked and self.chunk is None and self.failure is None
        return wants and now >= self.not_before

    @property
    def unchecked(self) -> bool:
        """Whether there is a later leader than those under which the known log was fetched, or compared."""
        return 0 <= self.leader_epoch < self.seen_epoch and self.checked_epoch < self.seen_epoch

    def fail(self, partition: TopicPartition, why: str) -> None:
        """Makes the next fetch fail: the log cannot be read from the position on."""
        where = {"topic": partition.topic, "partition": str(partition.partition), "offset": str(self.position)}
        subject = f"offset {self.position} of {partition.topic} partition {partition.partition}"
        self.chunk = None
        self.failure = OffsetOutOfRange(f"{subject} {why}", metadata=where)
