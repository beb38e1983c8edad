"""The port from a record to the work on its lease."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.kernel.ids import LeaseId
from braid.kernel.pathways.header import Context
from braid.kernel.ports import TopicPartition
from braid.kernel.timing.busy_time import BusyTime

if TYPE_CHECKING:
    from braid.client.records.record import Record


class OwnedLease(NamedTuple):
    """A lease this member owns."""

    id: LeaseId
    epoch: int
    cluster: ClusterAddress
    topic_partition: TopicPartition


class Failed(NamedTuple):
    """The failures of handlers over one record, as a member knows them.

    Attributes:
        first_ms: When first, milliseconds since the epoch.
        times: How often.
    """

    first_ms: int
    times: int


class Pathways(Protocol):
    """The pathways of a lease's records that were handed out lately."""

    def of_record(self, offset: int) -> Context | None:
        """Returns the context of a record; None if it has none."""
        ...

    def of_batch(self, offsets: NDArray[np.int64]) -> Context | None:
        """Returns the context of one of a batch's records, each once; None when none is left."""
        ...


class Delivery(Protocol):
    """Work on one lease under one epoch, as records, batches and their handlers use it."""

    @property
    def lease(self) -> OwnedLease:
        """The lease that is worked on."""
        ...

    @property
    def topic_id(self) -> bytes:
        """Kafka's id of the topic; zeros until progress is restored."""
        ...

    @property
    def pathways(self) -> Pathways | None:
        """The pathways of its records; None where they are not followed."""
        ...

    @property
    def busy(self) -> BusyTime:
        """Counts the time of handlers."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """An event that is set once the lease is gone."""
        ...

    @property
    def working(self) -> bool:
        """Whether records are fetched and handed out."""
        ...

    @property
    def draining(self) -> bool:
        """Whether the lease was asked back."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the lease is gone: settling records then changes nothing."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether fetched records of its lane wait for a handler."""
        ...

    def is_done(self, offset: int) -> bool:
        """Whether a record that was out lately is settled."""
        ...

    def attempts(self, offset: int) -> int:
        """Returns the number of failed attempts so far."""
        ...

    def failed(self, offset: int, now_ms: int) -> Failed:
        """Counts a handler's failure over a record, whatever its cause; returns the record's failures."""
        ...

    def done(self, record: "Record") -> None:
        """Marks a record as processed."""
        ...

    def done_many(self, offsets: NDArray[np.int64], chosen: NDArray[np.bool_], size: int) -> None:
        """Marks chosen records, `size` bytes in all, as processed."""
        ...

    def retry(self, record: "Record", after_seconds: float) -> None:
        """Brings a record back after a failed attempt."""
        ...

    def postpone(self, record: "Record", after_seconds: float | None) -> None:
        """Brings a record back without counting an attempt; at once with None."""
        ...

    def reject(self, record: "Record", reason: str) -> None:
        """Skips a record in place."""
        ...

    def dead_letter(self, record: "Record", error: BaseException | str) -> None:
        """Has a record copied to the dlq lane."""
        ...

    def copied(self, record: "Record") -> None:
        """Marks a record done: its copy in the dlq lane was acknowledged, or is no longer needed."""
        ...

    def uncopied(self, record: "Record", reason: str) -> None:
        """Rejects a record that can never be copied to the dlq lane."""
        ...

    def abandon(self, record: "Record") -> None:
        """Gives back a record whose handler was ended."""
        ...

    def back(self, record: "Record") -> None:
        """Queues a record for a handler again."""
        ...

    def free(self, size: int) -> None:
        """Frees the memory of records that wait here no longer and will not be handed out."""
        ...
