"""The one tree of errors. Each has one gRPC code, a machine-readable reason, the field at fault and what to try.

Only errors live here, and what is common to whoever meets one; `braid.rpc.errors` turns them into gRPC statuses and
back.
"""

from collections.abc import Mapping
from enum import Enum
from numbers import Real
from typing import ClassVar

from braid.kernel.limits.client import RETRY_AFTER_SECONDS_MAX


class Code(Enum):
    """The gRPC status codes Braid uses, by number (google.rpc.Code)."""

    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class BraidError(Exception):
    """Root of every error that Braid raises on purpose.

    Attributes:
        message: What happened, in one sentence.
        remedy: What to try next; empty when there is nothing to do.
        field: The request field at fault, dotted (`spec.lanes.live.partitions`); empty when no field is.
        metadata: Further facts a program may act on (for example `leader`), as in google.rpc.ErrorInfo.
    """

    code: ClassVar[Code] = Code.INTERNAL
    reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self, message: str, *, remedy: str = "", field: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.field = field
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.message}{remedy}"


class Invalid(BraidError):
    """A request or value is out of form; `field` names which. `metadata['choices']` has values that it may have."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID"

    @property
    def choices(self) -> tuple[str, ...]:
        """Values that the field may have, where these are few."""
        told = self.metadata.get("choices", "")
        return tuple(told.split(",")) if told else ()


class RecordTooLarge(Invalid):
    """A record exceeds the stream's `max_record_bytes`."""

    reason = "RECORD_TOO_LARGE"


class BatchTooLarge(Invalid):
    """A batch exceeds the bound on uncompressed bytes."""

    reason = "BATCH_TOO_LARGE"


class Unauthenticated(BraidError):
    """The caller did not prove who it is: its certificate names nobody, or it claims to be somebody else."""

    code = Code.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class NotFound(BraidError):
    """The named thing does not exist."""

    code = Code.NOT_FOUND
    reason = "NOT_FOUND"


class HistoryHole(BraidError):
    """Events that an answer about the past needs are not kept; `metadata` names `history`, `first` and `last`."""

    code = Code.NOT_FOUND
    reason = "HISTORY_HOLE"


class AlreadyExists(BraidError):
    """A thing of that name exists already."""

    code = Code.ALREADY_EXISTS
    reason = "ALREADY_EXISTS"


class Refused(BraidError):
    """The state of the mesh does not allow the request now."""

    code = Code.FAILED_PRECONDITION
    reason = "REFUSED"


class ApprovalRequired(Refused):
    """A second person must approve the request first; `metadata['approval']` is the id of the approval that waits."""

    reason = "APPROVAL_REQUIRED"


class NotLeader(Refused):
    """The replica asked is a follower; `metadata['leader']` is the leader's address, empty when unknown."""

    reason = "NOT_LEADER"

    @property
    def leader(self) -> str:
        """The leader's address (`host:port`), empty when unknown."""
        return self.metadata.get("leader", "")


class FailoverBlocked(Refused):
    """No cluster can take the stream's traffic."""

    reason = "FAILOVER_BLOCKED"


class ClusterAutoCreatesTopics(Refused):
    """The cluster has `auto.create.topics.enable=true`, so deleted topics would rise again."""

    reason = "CLUSTER_AUTO_CREATES_TOPICS"


class EvidenceRefused(Refused):
    """A client reports on a cluster or a channel that it does not use, as far as the registry knows."""

    reason = "EVIDENCE_REFUSED"


class GroupOccupied(Refused):
    """The group's name is in use by other Kafka consumers on one of its clusters."""

    reason = "GROUP_OCCUPIED"


class LeaseLost(Refused):
    """The member no longer owns the channel partition."""

    reason = "LEASE_LOST"


class Fenced(Refused):
    """A newer holder or leader exists; what the stale one wrote was refused."""

    reason = "FENCED"


class TopicSealed(Refused):
    """The topic takes no more records; send by the current route."""

    reason = "TOPIC_SEALED"


class Conflict(BraidError):
    """The state changed under the request: another append came first, or the etag is stale. Read again, then retry."""

    code = Code.ABORTED
    reason = "CONFLICT"


class Unavailable(BraidError):
    """A part that is needed cannot be reached or is not ready; trying again later may work."""

    code = Code.UNAVAILABLE
    reason = "UNAVAILABLE"


class StreamExpired(Unavailable):
    """A stream lasted as long as the server lets one last, so that its caller proves anew who it is. Open it again."""

    reason = "STREAM_EXPIRED"


class CertificateUntrusted(Unavailable):
    """The caller's certificate was accepted once and is no more: it has ended, or its authority was removed."""

    reason = "CERTIFICATE_UNTRUSTED"


class OutcomeUnknown(Unavailable):
    """A write was sent and its answer never came: it may or may not have happened. Read back, never retry blindly."""

    reason = "OUTCOME_UNKNOWN"


class StoreUnavailable(Unavailable):
    """The event store cannot be reached or has lost its quorum."""

    reason = "STORE_UNAVAILABLE"


class StoreAccessDenied(StoreUnavailable):
    """The event store refuses this process, or this process does not trust the store; asking again changes nothing.

    `metadata['problem']` says what is wrong: `connection` (certificates, either side's), `user` (none was named),
    `password`, `token`, or `permission`.
    """

    reason = "STORE_ACCESS_DENIED"

    @property
    def problem(self) -> str:
        """The kind of problem, for programs: see above."""
        return self.metadata.get("problem", "")


class ClusterUnavailable(Unavailable):
    """A Kafka cluster cannot be reached or does not answer in time."""

    reason = "CLUSTER_UNAVAILABLE"


class ClusterAccessDenied(ClusterUnavailable):
    """This client has no access to a Kafka cluster: the cluster refuses it, or its security profile forbids it.

    It says nothing about the cluster: nobody reports it as unreachable for this. `metadata['access']` is
    `authentication` or `authorization`, or `withheld`: this client's security profile does not allow the address, so
    nothing was sent there. `metadata['problem']` says more, where it is known: `credentials`, `mechanism`, `token`,
    `client_certificate`, `client_certificate_expired`, `broker_certificate`, `broker_certificate_expired`, `tls`; or
    what a permission is missing on: `topic`, `group`, `cluster`, `idempotent_write`. Then `operation`,
    `resource_type` and `resource` name the ACL.
    """

    code = Code.PERMISSION_DENIED
    reason = "CLUSTER_ACCESS_DENIED"

    @property
    def authenticated(self) -> bool:
        """Whether the cluster knows who asks, and does not allow it."""
        return self.metadata.get("access") == "authorization"

    @property
    def problem(self) -> str:
        """The problem, for programs: see above; empty if unknown."""
        return self.metadata.get("problem", "")

    @property
    def withheld(self) -> bool:
        """Whether this client sent nothing, because its security profile does not allow the address."""
        return self.metadata.get("access") == "withheld"


class AccessDenied(BraidError):
    """The caller has no right to this; `metadata` names `principal`, `action`, `resource` and `method`."""

    code = Code.PERMISSION_DENIED
    reason = "ACCESS_DENIED"


class IdentityRevoked(AccessDenied):
    """The caller's principal or certificate was revoked; `metadata['identity']` names which. Asking again is vain."""

    reason = "IDENTITY_REVOKED"


class DeliveryUnknown(BraidError):
    """A send ran into its delivery timeout: the record may have arrived, and may still arrive."""

    code = Code.DEADLINE_EXCEEDED
    reason = "DELIVERY_UNKNOWN"


class DeadlineExceeded(BraidError):
    """A call did not finish within its deadline."""

    code = Code.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class HandlerTimeout(DeadlineExceeded):
    """A handler did not end within the consumer's `handler_timeout_seconds`: a failed attempt of its record."""

    reason = "HANDLER_TIMEOUT"


class Retryable(BraidError):
    """Raised by a handler: not the record's fault. It is tried again until it is done, and never dead-lettered for it.

    Making one raises `Invalid` where `after_seconds` is no number from 0 to `RETRY_AFTER_SECONDS_MAX`.

    Attributes:
        after_seconds: When to try again; None leaves it to the consumer's `Retry`.
    """

    code = Code.ABORTED
    reason = "RETRYABLE"

    def __init__(
        self,
        message: str,
        *,
        after_seconds: float | None = None,
        remedy: str = "",
        field: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, field=field, metadata=metadata)
        self.after_seconds = None if after_seconds is None else checked_wait(after_seconds)


class Reject(BraidError):
    """Raised by a handler: the record is not for this group. It is skipped in place, without a copy."""

    code = Code.ABORTED
    reason = "REJECT"


class Exhausted(BraidError):
    """A bound of `kernel.limits` was reached."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "EXHAUSTED"


class QuotaExceeded(Exhausted):
    """A tenant has or does as much as its quota lets it; the metadata has `tenant`, `quota`, `used` and `limit`."""

    reason = "QUOTA_EXCEEDED"


class Unsupported(BraidError):
    """This release does not know the request, protocol version or format."""

    code = Code.UNIMPLEMENTED
    reason = "UNSUPPORTED"


class CorruptHistory(BraidError):
    """A history has a hole, an unknown event or bytes that do not decode; its service refuses to decide upon it."""

    code = Code.DATA_LOSS
    reason = "CORRUPT_HISTORY"


class ArchiveDamaged(BraidError):
    """An archived object does not hold the events it should; `metadata` names `history`, `first`, `last`, `object`."""

    code = Code.DATA_LOSS
    reason = "ARCHIVE_DAMAGED"


class Compacted(BraidError):
    """A watch asked for a revision the store no longer keeps, or the store was restored: load again."""

    code = Code.ABORTED
    reason = "COMPACTED"


class Withdrawn(Refused):
    """A record was taken back from Kafka's client before it was in any request: it was not written there."""

    reason = "WITHDRAWN"


class OffsetOutOfRange(Refused):
    """A fetch position lies outside the log; `metadata` names `topic`, `partition` and `offset`."""

    reason = "OFFSET_OUT_OF_RANGE"


def checked_wait(after_seconds: float) -> float:
    """A wait that a handler asked for, in seconds. Raises `Invalid` unless it is a number that a record can wait."""
    given: object = after_seconds
    if not isinstance(given, Real) or not 0 <= after_seconds <= RETRY_AFTER_SECONDS_MAX:
        raise Invalid(
            f"must be a number of seconds from 0 to {RETRY_AFTER_SECONDS_MAX:,.0f}",
            field="after_seconds",
            remedy="read a header such as Retry-After as a number first",
        )
    return float(after_seconds)
