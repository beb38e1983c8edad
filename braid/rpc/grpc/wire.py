"""Conventions that both ends of a gRPC connection share: options, metadata keys, errors in trailers."""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Final

import grpc
from google.rpc.status_pb2 import Status

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.rpc import (
    CALLS_PENDING_MAX,
    CONNECTION_CALLS_MAX,
    CONNECTION_IDLE_SECONDS,
    HANDSHAKE_SECONDS,
    HEALTH_CALLS_MAX,
    HEALTH_CONNECTION_SECONDS,
    HEALTH_MESSAGE_BYTES_MAX,
    KEEPALIVE_INTERVAL_SECONDS,
    KEEPALIVE_TIMEOUT_SECONDS,
    MESSAGE_BYTES_MAX,
    METADATA_BYTES_MAX,
    RECONNECT_BACKOFF_SECONDS,
)
from braid.rpc.errors import DETAILS_KEY, from_code, from_status, to_status

# A peer that half-closes and one whose connection broke look alike for a while, which grows with load. So a client that
# ends a stream well says so in it: it announces the mark in the call's metadata, and sends it last. No message begins
# with a zero byte (field number 0).
END_MARK_KEY: Final = "braid-end-mark"
END_MARK: Final = b"\x00"

# What grpc.aio makes of a write to a call that its server has ended: the status it ended with is lost to it.
_LOST_STATUS: Final = "Internal error from Core"

_log = logging.getLogger("braid.rpc")
# The system's reason at the end of what grpc says: `… Failed to connect to remote host: Connection refused`.
_CAUSE: Final = re.compile(r"remote host: (?:connect: )?([A-Za-z ]+[a-z])")

_UNCOMPRESSED: Final = 1 << grpc.Compression.NoCompression.value
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_KEEPALIVE_MS: Final = int(KEEPALIVE_INTERVAL_SECONDS * 1000)
_COMMON_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Both, or else grpc refuses at random what lies between them.
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    # Nobody here compresses: whoever does is refused before anything is inflated.
    ("grpc.compression_enabled_algorithms_bitset", _UNCOMPRESSED),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT_SECONDS * 1000)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CLIENT_OPTIONS: Final = (
    *_COMMON_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", int(RECONNECT_BACKOFF_SECONDS[0] * 1000)),
    ("grpc.min_reconnect_backoff_ms", int(RECONNECT_BACKOFF_SECONDS[1] * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(RECONNECT_BACKOFF_SECONDS[1] * 1000)),
    ("grpc.enable_http_proxy", 0),  # control RPCs stay inside the mesh
    ("grpc.enable_retries", 0),  # retries are ours, with a request id
    ("grpc.use_local_subchannel_pool", 1),
)
SERVER_OPTIONS: Final = (
    *_COMMON_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),  # a port in use must be an error
    # Beyond grpc's own thousand it cancels calls at random, which clients see as broken streams.
    ("grpc.server.max_pending_requests", CALLS_PENDING_MAX),
    ("grpc.server.max_pending_requests_hard_limit", CALLS_PENDING_MAX),
    # It covers TCP, TLS and the settings of HTTP/2.
    ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
    ("grpc.max_connection_idle_ms", int(CONNECTION_IDLE_SECONDS * 1000)),
    ("grpc.max_concurrent_streams", CONNECTION_CALLS_MAX),
)
_HEALTH_CONNECTION_MS: Final = int(HEALTH_CONNECTION_SECONDS * 1000)
# For a port of health checks alone, where nobody proves anything. Each option stands once: grpc would take the first.
HEALTH_OPTIONS: Final = tuple(
    {
        **dict(SERVER_OPTIONS),
        "grpc.max_receive_message_length": HEALTH_MESSAGE_BYTES_MAX,
        "grpc.max_concurrent_streams": HEALTH_CALLS_MAX,
        "grpc.max_connection_idle_ms": _HEALTH_CONNECTION_MS,
        "grpc.max_connection_age_ms": _HEALTH_CONNECTION_MS,
        "grpc.max_connection_age_grace_ms": _HEALTH_CONNECTION_MS,
    }.items()
)


def connections_option(most: int) -> tuple[str, int]:
    """The option of a server that closes connections beyond `most` at each of its ports, before their handshakes."""
    return ("grpc.max_allowed_incoming_connections", most)


def marks_its_end(metadata: Iterable[tuple[str, str | bytes]] | None) -> bool:
    """Whether the client of a stream sends `END_MARK` when it ends the stream cleanly."""
    return any(key == END_MARK_KEY for key, _ in metadata or ())


def trailers_of(error: BraidError) -> tuple[grpc.StatusCode, str, Sequence[tuple[str, bytes]]]:
    """Code, message and trailing metadata that carry an error."""
    status = to_status(error)
    return _CODES[status.code], status.message, ((DETAILS_KEY, status.SerializeToString()),)


def error_of(error: grpc.aio.AioRpcError, address: str) -> BraidError:
    """The error the server raised, or the one that represents the transport's failure."""
    trailers = error.trailing_metadata()
    details = trailers.get(DETAILS_KEY) if trailers is not None else None
    if isinstance(details, bytes):
        return from_status(Status.FromString(details))
    if error.details() == _LOST_STATUS:
        return Unavailable(f"{address}: the stream ended while it was written to")
    code: tuple[int, str] = error.code().value
    told = error.details() or code[1]
    if error.code() is grpc.StatusCode.UNAVAILABLE and "connect" in told.lower():
        _log.debug("%s: %s", address, told)
        return Unavailable(f"{address}: {_connection_text(told)}")
    return from_code(code[0], f"{address}: {told}")


def _connection_text(told: str) -> str:
    """The connection's failure without addresses: the caller knows the address."""
    cause = _CAUSE.search(told)
    if cause is not None:
        return f"no connection ({cause[1].lower()})"
    return "no connection" if "failed to connect" in told.lower() else "the connection broke"
