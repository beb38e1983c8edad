"""What a record asks of whoever handed it out: the work on its lease."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.kernel.busy_time import BusyTime
from braid.kernel.ids import LeaseId
from braid.kernel.ports import TopicPartition

if TYPE_CHECKING:
    from braid.client.records.record import Record


class OwnedLease(NamedTuple):
    """A lease this member owns."""

    id: LeaseId
    epoch: int
    cluster: ClusterAddress
    topic_partition: TopicPartition


class Failed(NamedTuple):
    """What a member knows of handlers that failed over one record.

    Attributes:
        first_ms: When first, milliseconds since the epoch.
        times: How often.
    """

    first_ms: int
    times: int


class Delivery(Protocol):
    """Work on one lease under one epoch, as records, batches and those who handle them see it."""

    @property
    def lease(self) -> OwnedLease:
        """What it is work on."""
        ...

    @property
    def topic_id(self) -> bytes:
        """Kafka's id of the topic; zeros until progress is restored."""
        ...

    @property
    def busy(self) -> BusyTime:
        """Counts the time of handlers."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Is set once the lease is gone."""
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
        """Whether the lease is gone: what is settled from now on changes nothing."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether records of its lane wait that no handler asked for yet."""
        ...

    def is_done(self, offset: int) -> bool:
        """Whether nothing is left to do about a record that was out lately."""
        ...

    def attempts(self, offset: int) -> int:
        """Failed attempts so far."""
        ...

    def failed(self, offset: int, now_ms: int) -> Failed:
        """A handler failed over a record, whosever fault it was; returns what is known with it."""
        ...

    def done(self, record: "Record") -> None:
        """The record was processed."""
        ...

    def done_many(self, offsets: NDArray[np.int64], chosen: NDArray[np.bool_], size: int) -> None:
        """Those chosen of some records, `size` bytes, were processed."""
        ...

    def retry(self, record: "Record", after_seconds: float) -> None:
        """The record is to come back; an attempt failed."""
        ...

    def postpone(self, record: "Record", after_seconds: float | None) -> None:
        """The record is to come back; at once with None."""
        ...

    def reject(self, record: "Record", reason: str) -> None:
        """The record is skipped in place."""
        ...

    def dead_letter(self, record: "Record", error: BaseException | str) -> None:
        """The record is to be copied to the dlq lane."""
        ...

    def copied(self, record: "Record") -> None:
        """The record's copy in the dlq lane was acknowledged, or is of no interest any more."""
        ...

    def uncopied(self, record: "Record", reason: str) -> None:
        """The record cannot be copied to the dlq lane, ever."""
        ...

    def abandon(self, record: "Record") -> None:
        """The record's handler was ended: somebody else gets it."""
        ...

    def back(self, record: "Record") -> None:
        """The record waits for a handler again."""
        ...

    def free(self, size: int) -> None:
        """Records of so many bytes wait here no longer, and will not be handed out."""
        ...
