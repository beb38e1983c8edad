"""Errors over the wire: every class of the tree comes back as itself."""

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from braid.kernel.errors import BraidError, Code, Conflict, Invalid, NotLeader, QuotaExceeded, Refused, Unavailable
from braid.kernel.limits.rpc import ERROR_TEXT_BYTES_MAX
from braid.rpc.errors import error_classes, from_bytes, from_code, from_status, to_bytes, to_status

CLASSES = sorted(error_classes().values(), key=lambda cls: cls.__name__)


def test_reasons_are_unique() -> None:
    found: list[type[BraidError]] = [BraidError]
    for cls in found:
        found.extend(cls.__subclasses__())
    assert len({cls.reason for cls in found}) == len(found) == len(CLASSES) >= 25


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_comes_back_as_itself(cls: type[BraidError]) -> None:
    error = cls("what happened", remedy="try this", field="spec.lanes", metadata={"leader": "a:1", "offset": "7"})
    back = from_bytes(to_bytes(error))
    assert type(back) is cls
    assert (back.message, back.remedy, back.field, back.metadata) == (
        error.message,
        error.remedy,
        error.field,
        error.metadata,
    )
    assert str(back) == str(error)


def test_bytes_that_are_no_status_are_an_error_too() -> None:
    assert isinstance(from_bytes(b"\xff\xff"), Invalid)


def test_unavailable_suggests_when_to_try_again() -> None:
    status = to_status(Unavailable("later"))
    assert any(detail.Is(RetryInfo.DESCRIPTOR) for detail in status.details)
    assert not any(detail.Is(RetryInfo.DESCRIPTOR) for detail in to_status(Invalid("no")).details)


def test_a_quota_of_calls_alone_says_when_to_try_again() -> None:
    status, told = to_status(QuotaExceeded("too often", metadata={"retry_ms": "1500"})), RetryInfo()
    next(detail for detail in status.details if detail.Is(RetryInfo.DESCRIPTOR)).Unpack(told)
    assert told.retry_delay.ToMilliseconds() == 1_500
    assert not any(detail.Is(RetryInfo.DESCRIPTOR) for detail in to_status(QuotaExceeded("too many")).details)


@pytest.mark.parametrize("code", list(Code))
def test_an_unknown_reason_maps_by_code(code: Code) -> None:
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason="FROM_THE_FUTURE", domain="braid", metadata={"k": "v"}))
    error = from_status(Status(code=code.value, message="text", details=[detail]))
    if code is Code.INTERNAL:
        assert type(error) is BraidError
    elif code is Code.CANCELLED:
        assert type(error) is Unavailable
    else:
        assert error.code is code
    assert error.metadata == {"k": "v"}


def test_another_domain_s_reason_is_not_ours() -> None:
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason=NotLeader.reason, domain="example.com"))
    assert type(from_status(Status(code=Code.FAILED_PRECONDITION.value, details=[detail]))) is Refused


def test_a_reason_under_the_wrong_code_is_not_believed() -> None:
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason=NotLeader.reason, domain="braid"))
    assert type(from_status(Status(code=Code.ABORTED.value, details=[detail]))) is Conflict


def test_plain_statuses_and_unknown_codes_are_errors_too() -> None:
    assert type(from_code(14, "gone")) is Unavailable
    assert type(from_code(2, "boom")) is BraidError


def test_long_texts_are_cut_at_a_character() -> None:
    back = from_status(to_status(Invalid("é" * 5_000, remedy="x" * 5_000)))
    assert back.message == "é" * (ERROR_TEXT_BYTES_MAX // 2)
    assert len(back.remedy) == ERROR_TEXT_BYTES_MAX
