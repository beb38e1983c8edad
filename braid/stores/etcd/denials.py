"""Meanings of etcd's refusals, and the remedy for each. Pure.

A call that etcd refused was not carried out and never will be. After any other failure, a write may have happened.
"""

from typing import Final

import grpc

from braid.kernel.errors import BraidError, Compacted, Exhausted, NotFound, Refused, StoreAccessDenied, StoreUnavailable

_REFUSALS: Final[dict[grpc.StatusCode, type[BraidError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: Exhausted,  # request too large, too many operations
    grpc.StatusCode.NOT_FOUND: NotFound,  # a lease that has ended
    grpc.StatusCode.OUT_OF_RANGE: Compacted,
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.UNIMPLEMENTED: Refused,
}
_PERMISSION_REMEDY: Final = (
    "give the user's role Braid's keys: etcdctl role grant-permission ROLE readwrite --prefix /braid/v1/"
)
TOKEN: Final = (
    "token"  # the problem of a token that is over or missing: nothing was carried out, so send the call again
)
_USER_REMEDY: Final = "set BRAID_STORE_USER and BRAID_STORE_PASSWORD_FILE, or name a user of etcd in the certificate"


def refusal(code: grpc.StatusCode, details: str) -> BraidError | None:
    """Returns the error of a call that etcd refused outright; None when its outcome is not known."""
    denied = denial(details)
    if denied is not None:
        return denied
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and details.startswith("etcdserver:"):
        return StoreUnavailable(details, remedy="etcd is overloaded or out of space; see its alarms and quota")
    kind = _REFUSALS.get(code)
    return kind(details) if kind else None


def denial(details: str) -> StoreAccessDenied | None:
    """Returns the error of a call, or of a watch, that etcd denied its caller; None for any other end."""
    if "invalid auth token" in details or "revision of auth store is old" in details or "user name is empty" in details:
        return denied(f"etcd asks for a newer token: {details}", TOKEN, _USER_REMEDY)
    if "permission denied" in details:
        return denied(f"etcd does not allow it: {details}", "permission", _PERMISSION_REMEDY)
    return None


def user_missing() -> StoreAccessDenied:
    """Returns the error of a process that names no user, or whose certificate names none, where etcd asks for one."""
    return denied("etcd asks for a user, and this process names none", "user", _USER_REMEDY)


def denied(message: str, problem: str, remedy: str) -> StoreAccessDenied:
    """Returns the error with its problem; see `StoreAccessDenied`."""
    return StoreAccessDenied(message, remedy=remedy, metadata={"problem": problem})
