"""Kafka's error codes as Braid's errors. Codes by number, from the protocol guide; nothing is retried here."""

import ssl
from typing import Final, NoReturn

from aiokafka.errors import AuthenticationFailedError, AuthenticationMethodNotSupported, BrokerResponseError

from braid.kafka.permissions import Need
from braid.kafka.tls_errors import Problem, handshake_problem
from braid.kernel.errors import (
    AlreadyExists,
    BatchTooLarge,
    BraidError,
    ClusterAccessDenied,
    ClusterUnavailable,
    Fenced,
    GroupOccupied,
    Invalid,
    NotFound,
    Refused,
)

OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC: Final = 3
MESSAGE_TOO_LARGE: Final = 10
OFFSET_METADATA_TOO_LARGE: Final = 12
COORDINATOR_LOADING: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
ILLEGAL_GENERATION: Final = 22
INCONSISTENT_GROUP_PROTOCOL: Final = 23
UNKNOWN_MEMBER_ID: Final = 25
INVALID_SESSION_TIMEOUT: Final = 26
RECORD_LIST_TOO_LARGE: Final = 18
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_DENIED: Final = 29
CLUSTER_AUTHORIZATION_FAILED: Final = 31
TOPIC_ALREADY_EXISTS: Final = 36
NON_EMPTY_GROUP: Final = 68
GROUP_NOT_FOUND: Final = 69
MEMBER_ID_REQUIRED: Final = 79
GROUP_MAX_SIZE_REACHED: Final = 81

# The coordinator is elsewhere, or not ready yet; a broker says so for about a second after its start.
COORDINATOR_RETRY: Final = frozenset(
    {COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS}
)
# The partition's leader is elsewhere, not elected, or not caught up: look again.
LEADER_RETRY: Final = frozenset({UNKNOWN_TOPIC, 5, 6, 9, 56, 74, 75, 76, 78, 100, 103})
# A newer holder of the group exists: generation, member, instance or member epoch is stale.
FENCED: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, 82, 110, 113})
# Who asks is not known there: SASL mechanism, SASL state, name or password, delegation token.
_MECHANISM: Final = "let security_protocol and sasl_mechanism of the security profile be what the listener takes"
_UNAUTHENTICATED: Final = {
    33: Problem("mechanism", "it does not support the SASL mechanism", _MECHANISM),
    34: Problem("mechanism", "it does not expect SASL now", _MECHANISM),
    58: Problem("credentials", "name or password are wrong", "look at username and password of the security profile"),
    61: Problem("credentials", "it takes no delegation tokens", _MECHANISM),
}
# Who asks is known, and may not do this.
_UNAUTHORIZED: Final = {
    TOPIC_DENIED: "no permission on the topic",
    30: "no permission on the group",
    CLUSTER_AUTHORIZATION_FAILED: "no permission on the cluster",
    53: "no permission on the transactional id",
    65: "no permission on the delegation token",
}
_PROFILE: Final = "look at the security profile of this client: name, password, mechanism, certificates"
ACCESS_DENIED: Final = frozenset({*_UNAUTHENTICATED, *_UNAUTHORIZED})
# A handshake that ended because the broker did: it refused nobody.
_BROKEN_OFF: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_CAUSES_MAX: Final = 8
# The request or one of its values is out of form.
_INVALID: Final = frozenset({17, 24, INVALID_SESSION_TIMEOUT, 28, 37, 38, 39, 40, 42, 44})


def error_for(code: int, subject: str, need: Need | None = None) -> BraidError:
    """The error a broker's code stands for.

    Args:
        code: Not 0.
        subject: What it is about, for the message (`topic braid.logs.live.1`).
        need: What the request needs, to name the ACL that is missing.
    """
    said = f"Kafka answered error {code} for {subject}"
    if code in ACCESS_DENIED:
        return _denied(code, subject, need)
    if code in FENCED:
        text = f"{said}: the generation or member is not the group's current one"
        return Fenced(text, metadata={"unknown_member": "true"} if code == UNKNOWN_MEMBER_ID else None)
    if code in (INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED):
        return GroupOccupied(
            f"{said}: other Kafka consumers use its name",
            field="group",
            remedy="stop them, or use another group's name",
        )
    if code in (UNKNOWN_TOPIC, GROUP_NOT_FOUND):
        return NotFound(f"{subject} does not exist")
    if code == TOPIC_ALREADY_EXISTS:
        return AlreadyExists(f"{subject} exists already")
    if code == OFFSET_METADATA_TOO_LARGE:
        return Invalid(
            f"the commit metadata of {subject} is larger than its cluster accepts",
            field="metadata",
            remedy="raise offset.metadata.max.bytes there",
        )
    if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
        return BatchTooLarge(f"a batch for {subject} is larger than its max.message.bytes")
    if code == NON_EMPTY_GROUP:
        return Refused(f"{subject} has members", remedy="stop them first")
    if code in _INVALID:
        return Invalid(said)
    return ClusterUnavailable(said)


def access_error(error: BaseException, subject: str, need: Need | None = None) -> ClusterAccessDenied | None:
    """Returns the access error that a client library's error means, if any; it may be the cause of a vaguer one.

    Args:
        error: Of connecting or asking.
        subject: What was asked, for the message (`broker east:9092`).
        need: What the request needs, to name the ACL that is missing.
    """
    cause: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if isinstance(cause, ClusterAccessDenied):
            return cause
        if isinstance(cause, BrokerResponseError) and cause.errno in ACCESS_DENIED:
            return _denied(cause.errno, subject, need)
        if isinstance(cause, AuthenticationFailedError | AuthenticationMethodNotSupported):
            return _unauthenticated(subject, Problem("credentials", str(cause) or type(cause).__name__, _PROFILE))
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _BROKEN_OFF):
            return _unauthenticated(subject, handshake_problem(cause))
        if cause is None:
            return None
        cause = cause.__cause__
    return None


def _denied(code: int, subject: str, need: Need | None) -> ClusterAccessDenied:
    if code in _UNAUTHENTICATED:
        return _unauthenticated(subject, _UNAUTHENTICATED[code])
    if (missing := need.missing(code) if need is not None else None) is not None:
        return ClusterAccessDenied(
            f"Kafka refuses this client for {subject}: it lacks {missing} (error {code})",
            remedy=missing.remedy,
            metadata={"access": "authorization", **missing.metadata},
        )
    return ClusterAccessDenied(
        f"Kafka refuses this client for {subject}: {_UNAUTHORIZED[code]} (error {code})",
        remedy="allow it on the cluster: kafka-acls.sh --add --allow-principal …",
        metadata={"access": "authorization"},
    )


def _unauthenticated(subject: str, problem: Problem) -> ClusterAccessDenied:
    return ClusterAccessDenied(
        f"Kafka refuses this client for {subject}: {problem.text}",
        remedy=problem.remedy,
        metadata={"access": "authentication", "problem": problem.kind},
    )


def check(code: int, subject: str, message: str | None = None, *, need: Need | None = None) -> None:
    """Raises what `code` stands for, with the broker's own words when it sent some; 0 passes."""
    if code:
        raise_error(code, subject, message, need=need)


def raise_error(code: int, subject: str, message: str | None = None, *, need: Need | None = None) -> NoReturn:
    """Raises what `code` stands for."""
    error = error_for(code, subject, need)
    if message:
        raise type(error)(
            f"{error.message}: {message}", remedy=error.remedy, field=error.field, metadata=error.metadata
        )
    raise error
