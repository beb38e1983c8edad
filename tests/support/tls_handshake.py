"""A TLS handshake between two directories with certificate.pem, key.pem and ca.pem, in memory, by the `ssl` module."""

import ssl
from pathlib import Path
from typing import cast


def handshake(server: Path, client: Path, *, host: str = "localhost") -> tuple[list[str], list[str]]:
    """Lets both sides verify one another.

    Args:
        server: Directory of the side that accepts.
        client: Directory of the side that connects.
        host: What the client dialled, which the server's certificate must name.

    Returns:
        The URIs that the server sees of its client, and the client of its server.

    Raises:
        ssl.SSLError: one side refused the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting = _context(ssl.PROTOCOL_TLS_SERVER, server)
    accepting.verify_mode = ssl.CERT_REQUIRED
    connecting = _context(ssl.PROTOCOL_TLS_CLIENT, client)
    ends = [
        connecting.wrap_bio(to_client, to_server, server_hostname=host),
        accepting.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    seen_by_client, seen_by_server = (_uris(end) for end in ends)
    return seen_by_server, seen_by_client


def _context(protocol: int, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
    context.load_verify_locations(directory / "ca.pem")
    return context


def _uris(end: ssl.SSLObject) -> list[str]:
    found = cast("dict[str, tuple[tuple[str, str], ...]]", end.getpeercert() or {})
    return [value for kind, value in found["subjectAltName"] if kind == "URI"]
