"""Braid's errors as google.rpc statuses and back: code, ErrorInfo (reason, metadata), BadRequest (field), RetryInfo."""

from collections.abc import Mapping
from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import (
    AccessDenied,
    AlreadyExists,
    BraidError,
    Code,
    Conflict,
    CorruptHistory,
    DeadlineExceeded,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from braid.kernel.limits.rpc import ERROR_TEXT_BYTES_MAX, RETRY_HINT_SECONDS

DOMAIN: Final = "braid"
DETAILS_KEY: Final = "grpc-status-details-bin"
_REMEDY_KEY: Final = "braid-remedy"

# For reasons this release does not know: the class that stands for the code.
_BY_CODE: Final[Mapping[int, type[BraidError]]] = {
    Code.CANCELLED.value: Unavailable,
    Code.INVALID_ARGUMENT.value: Invalid,
    Code.DEADLINE_EXCEEDED.value: DeadlineExceeded,
    Code.NOT_FOUND.value: NotFound,
    Code.ALREADY_EXISTS.value: AlreadyExists,
    Code.PERMISSION_DENIED.value: AccessDenied,
    Code.RESOURCE_EXHAUSTED.value: Exhausted,
    Code.FAILED_PRECONDITION.value: Refused,
    Code.ABORTED.value: Conflict,
    Code.UNIMPLEMENTED.value: Unsupported,
    Code.UNAVAILABLE.value: Unavailable,
    Code.DATA_LOSS.value: CorruptHistory,
    Code.UNAUTHENTICATED.value: Unauthenticated,
}


def error_classes() -> Mapping[str, type[BraidError]]:
    """Every error class, by its reason."""
    found: dict[str, type[BraidError]] = {}
    waiting: list[type[BraidError]] = [BraidError]
    while waiting:
        cls = waiting.pop()
        found.setdefault(cls.reason, cls)  # an application may derive its own from `Retryable`
        waiting.extend(cls.__subclasses__())
    return found


_BY_REASON: Final = error_classes()


def to_status(error: BraidError) -> Status:
    """The status that carries an error over a connection; texts are truncated to what headers can hold."""
    metadata = {key: _cut(value) for key, value in error.metadata.items()}
    if error.remedy:
        metadata[_REMEDY_KEY] = _cut(error.remedy)
    details = [_packed(ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata))]
    if error.field:
        violation = BadRequest.FieldViolation(field=error.field, description=_cut(error.message))
        details.append(_packed(BadRequest(field_violations=[violation])))
    if seconds := RETRY_HINT_SECONDS if isinstance(error, Unavailable) else retry_seconds(error):
        delay = Duration()
        delay.FromMilliseconds(int(seconds * 1000))
        details.append(_packed(RetryInfo(retry_delay=delay)))
    return Status(code=error.code.value, message=_cut(error.message), details=details)


def from_status(status: Status) -> BraidError:
    """The error in a status; an unknown reason gives the class that represents its code."""
    info, field = ErrorInfo(), ""
    for detail in status.details:
        if detail.Is(ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(BadRequest.DESCRIPTOR):
            request = BadRequest()
            detail.Unpack(request)
            field = request.field_violations[0].field if request.field_violations else ""
    metadata = dict(info.metadata)
    remedy = metadata.pop(_REMEDY_KEY, "")
    cls = _BY_REASON.get(info.reason) if info.domain == DOMAIN else None
    if cls is None or cls.code.value != status.code:
        cls = _BY_CODE.get(status.code, BraidError)
    return cls(status.message, remedy=remedy, field=field, metadata=metadata)


def to_bytes(error: BraidError) -> bytes:
    """The serialised status of an error, as it stands in a message."""
    data: bytes = to_status(error).SerializeToString()
    return data


def from_bytes(data: bytes) -> BraidError:
    """The error in a serialised status; for bytes that are none, one that says so."""
    try:
        return from_status(Status.FromString(data))
    except DecodeError:
        return Invalid("the bytes are no status of an error")


def from_code(code: int, message: str) -> BraidError:
    """The error for a status without details, as transports themselves create them."""
    return from_status(Status(code=code, message=message))


def _packed(message: ErrorInfo | BadRequest | RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def _cut(text: str) -> str:
    return text.encode()[:ERROR_TEXT_BYTES_MAX].decode(errors="ignore")
