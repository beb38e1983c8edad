"""Tokens as `doctor` sees them: which replicas take them, and when the one that this side shows ends."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.core.times import age_text
from braid.cli.doctor.findings import Finding, Level

if TYPE_CHECKING:
    from braid.rpc.directory import KnownEndpoint

_WARN_SECONDS: Final = 60.0


async def with_tokens(endpoints: Sequence["KnownEndpoint"]) -> list["KnownEndpoint"]:
    """The replicas, where an address that speaks TLS, for callers with tokens, is not taken for one in plain text."""
    second = [each for each in endpoints if each.tls_address and each.tls_address != each.address]
    answers = await asyncio.gather(*(asyncio.to_thread(speaks_tls, each.address) for each in second))
    encrypted = {each.address for each, answer in zip(second, answers, strict=True) if answer}
    return [each._replace(address=each.tls_address) if each.address in encrypted else each for each in endpoints]


def speaks_tls(address: str) -> bool:
    """Whether a server takes connections over TLS without a client certificate. Blocks for a handshake."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is asked there, and nothing believed
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), CLI_PROBE_SECONDS) as raw,
            context.wrap_socket(raw),
        ):
            return True
    except OSError:
        return False


def check_token(token: str, now_seconds: float) -> Finding:
    """When the token that this side shows ends, as it says itself; the services judge it, and its signature."""
    ends = _end(token)
    if ends is None:
        remedy = "get a JWT from the issuer that the services take tokens of"
        return Finding("you", "token", Level.WARN, "the token is no JWT that says when it ends", remedy)
    left = ends - now_seconds
    if left <= 0:
        return Finding("you", "token", Level.FAIL, "the token has expired", "get a new one from its issuer")
    message = f"the token ends in {age_text(1, 1 + round(left * 1_000))}"
    if left < _WARN_SECONDS:
        return Finding("you", "token", Level.WARN, message, "renew it in its file: it is read again by itself")
    return Finding("you", "token", Level.OK, message)


def _end(token: str) -> float | None:
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
