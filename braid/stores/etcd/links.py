"""The connections to one member of etcd, and why one cannot be made: in plain text, or over mutual TLS."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from braid.host.tls.connections import TlsConnections
from braid.host.tls.faults import Refusal, refusal_of, server_fault
from braid.host.tls.files import TlsFiles, TlsMaterial
from braid.kernel.errors import StoreAccessDenied
from braid.kernel.limits.store import (
    ETCD_CONNECT_MS,
    ETCD_KEEPALIVE_MS,
    ETCD_KEEPALIVE_TIMEOUT_MS,
    ETCD_MESSAGE_BYTES_MAX,
    ETCD_RECONNECT_MS_MAX,
    ETCD_RECONNECT_MS_MIN,
)
from braid.stores.etcd.denials import denied

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # also switches off gRPC's own, "transparent" retries: a transaction is sent once
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_send_message_length", ETCD_MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", ETCD_MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", ETCD_KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", ETCD_KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", ETCD_RECONNECT_MS_MIN),
    ("grpc.max_reconnect_backoff_ms", ETCD_RECONNECT_MS_MAX),
    ("grpc.min_reconnect_backoff_ms", ETCD_CONNECT_MS),
    ("grpc.use_local_subchannel_pool", 1),  # connections of our own: closing one store leaves the others alone
)
_PLAINTEXT: Final = "the server speaks plain text: write etcd:// if that is meant"
_NO_TLS: Final = "; does it speak TLS? etcd:// asks for plain text"
_WANTS_TLS: Final = "the server wants TLS: write etcd+tls:// instead of etcd://"
# What grpc says when a server ended the handshake; etcd does with TLS 1.3 after grpc took it for complete.
_CLOSED: Final = ("Socket closed", "Unwrap failed", "ALERT")
_REMEDIES: Final = {
    "not signed": "name the CA of etcd's certificates in BRAID_STORE_TLS_CA",
    "not for": "give etcd's certificate that name or address",
    "server's certificate has expired": "renew etcd's certificate; etcd reads it at each handshake",
    "does not trust": "sign it by a CA in etcd's --trusted-ca-file, which etcd reads at its start alone",
    "has expired": "renew this process's certificate; it is read again",
}


class EtcdLink:
    """The way to one member."""

    def __init__(self, endpoint: str, files: TlsFiles | None) -> None:
        """To `host:port`, in plain text or over mutual TLS with `files`."""
        self._endpoint = endpoint
        self._files = files
        self._connections = TlsConnections(files, self._open, lambda channel: channel.close())
        self._asked: asyncio.Task[str] | None = None

    @contextmanager
    def channel(self) -> Iterator[grpc.aio.Channel]:
        """The connection for a call that begins now, kept open while the context lasts."""
        with self._connections.newest() as channel:
            yield channel

    def outdated(self, channel: grpc.aio.Channel) -> bool:
        """Whether the certificates changed since a connection was made."""
        return self._connections.outdated(channel)

    def answered(self) -> None:
        """A call was answered: the next failure begins another row."""
        self._asked = None

    async def denial(self, error: grpc.aio.AioRpcError) -> StoreAccessDenied | None:
        """The error of a call that was not sent because certificates do not fit; None for any other failure.

        A member that closes connections is asked why, once in a row of failures.
        """
        said = error.details() or ""
        if error.code() is not grpc.StatusCode.UNAVAILABLE or "failed to connect" not in said.lower():
            return None
        cause = self._server_fault(said) or self._expired() or await self._refused(said)
        if not cause:
            return None
        remedy = next((each for part, each in _REMEDIES.items() if part in cause), "")
        return denied(f"no connection to etcd at {self._endpoint}: {cause}", "connection", remedy)

    def hint(self, error: grpc.aio.AioRpcError) -> str:
        """Suggests the cause of a failure that proves nothing; '' for nothing."""
        return _NO_TLS if self._files is not None and "Handshake read failed" in (error.details() or "") else ""

    async def close(self) -> None:
        """Closes every connection; calls under way on them end."""
        await self._connections.close()

    def _open(self, material: TlsMaterial | None) -> grpc.aio.Channel:
        if material is None:
            return grpc.aio.insecure_channel(self._endpoint, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
        return grpc.aio.secure_channel(self._endpoint, credentials, options=_OPTIONS)

    def _server_fault(self, said: str) -> str:
        if self._files is None:
            return ""
        return server_fault(said, self._endpoint, f"an authority in {self._files.tls.ca}", _PLAINTEXT)

    def _expired(self) -> str:
        if self._files is None or self._files.current().expires_at > time.time():
            return ""
        return f"the certificate {self._files.tls.certificate} has expired"

    async def _refused(self, said: str) -> str:
        if not any(sign in said for sign in _CLOSED):
            return ""
        if self._asked is None:
            self._asked = asyncio.create_task(asyncio.to_thread(self._probe))
        return await asyncio.shield(self._asked)

    def _probe(self) -> str:
        tls = self._files.tls if self._files is not None else None
        try:
            refusal = refusal_of(self._endpoint, tls)
        except OSError:
            return ""
        if tls is None:
            return "" if refusal is Refusal.NONE else _WANTS_TLS
        if refusal is Refusal.EXPIRED:
            return f"the certificate {tls.certificate} has expired"
        # A member that stops closes connections, too. etcd says so when it does not like a certificate.
        trusted = refusal is not Refusal.ALERT
        return "" if trusted else f"the server does not trust the authority that signed {tls.certificate}"
