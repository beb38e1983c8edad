"""The meaning of etcd's statuses, and the choice of the endpoint to ask."""

import grpc
import pytest

from braid.host.system import SystemClock
from braid.kernel.errors import BraidError, Compacted, Exhausted, NotFound, Refused, StoreAccessDenied, StoreUnavailable
from braid.stores.etcd import requests
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd.denials import TOKEN, refusal


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", Exhausted),
        (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found", NotFound),
        (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", Compacted),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", StoreAccessDenied),
        (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", StoreAccessDenied),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", StoreAccessDenied),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", StoreAccessDenied),
        (grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: authentication is not enabled", Refused),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", StoreUnavailable),
    ],
)
def test_what_etcd_refuses_did_not_happen(code: grpc.StatusCode, details: str, error: type[BraidError]) -> None:
    assert type(refusal(code, details)) is error


def test_a_token_that_is_over_is_told_from_a_missing_permission() -> None:
    over = refusal(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
    missing = refusal(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
    assert [each.metadata["problem"] for each in (over, missing) if each is not None] == [TOKEN, "permission"]


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed"),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
        (grpc.StatusCode.CANCELLED, ""),
        (grpc.StatusCode.UNKNOWN, "Stream removed"),
        (grpc.StatusCode.INTERNAL, ""),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max"),
    ],
)
def test_anything_else_may_have_happened(code: grpc.StatusCode, details: str) -> None:
    assert refusal(code, details) is None


def test_no_endpoint_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="endpoint"):
        EtcdClient([], SystemClock(), None)


async def test_a_closed_client_is_unavailable_at_once() -> None:
    client = EtcdClient(["127.0.0.1:1"], SystemClock(), None)
    await client.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await client.read(requests.get(b"key"))
