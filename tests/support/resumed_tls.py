"""A client that resumes TLS sessions, as grpc's own does not: a whole control RPC over a socket, by hand."""

import socket
import ssl
from typing import Final, NamedTuple

from braid.host.tls.paths import Tls

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_SECONDS: Final = 10.0


class Answer(NamedTuple):
    """The outcome of a call.

    Attributes:
        resumed: Whether the server took the session up again.
        data: Bytes of the response message; empty when none came.
        session: To resume with the next time.
    """

    resumed: bool
    data: bytes
    session: ssl.SSLSession | None


def context(tls: Tls, version: ssl.TLSVersion) -> ssl.SSLContext:
    """The context of a client with a certificate; a session belongs to it."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(tls.ca)
    made.load_cert_chain(tls.certificate, tls.key)
    made.set_alpn_protocols(["h2"])
    made.minimum_version = made.maximum_version = version
    return made


def call(made: ssl.SSLContext, address: str, path: str, session: ssl.SSLSession | None) -> Answer:
    """Calls a unary method with an empty message over a connection of its own. Blocks; an end of it is an answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), _SECONDS) as raw:
        try:
            with made.wrap_socket(raw, server_hostname=host, session=session) as wrapped:
                wrapped.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _request(path, host))
                data = _response(wrapped)
                return Answer(bool(wrapped.session_reused), data, wrapped.session)
        except (ssl.SSLError, ConnectionError):
            return Answer(False, b"", None)


def _request(path: str, host: str) -> bytes:
    headers = {":method": "POST", ":scheme": "https", ":path": path, ":authority": host}
    headers |= {"content-type": "application/grpc", "te": "trailers"}
    block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())  # RFC 7541, 6.2.2
    return _frame(_HEADERS, _END_HEADERS, 1, block) + _frame(_DATA, _END_STREAM, 1, bytes(5))


def _response(wrapped: ssl.SSLSocket) -> bytes:
    """The message of the first DATA frame; empty when the stream or connection ends before."""
    received = b""
    while True:
        while len(received) >= 9:
            length, kind, flags = int.from_bytes(received[:3]), received[3], received[4]
            if len(received) < 9 + length:
                break
            payload, received = received[9 : 9 + length], received[9 + length :]
            if kind == _DATA and payload:
                return payload[5:]
            if kind == _HEADERS and flags & _END_STREAM:
                return b""
        more = wrapped.recv(65_536)
        if not more:
            return b""
        received += more


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload
