"""Addresses that a security profile may be sent to: how they are written, and which address matches. No I/O."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from braid.kernel.ids import read_number

_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_WILDCARD: Final = "*."
_PORTS: Final = range(1, 65_536)


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One entry of a profile's `hosts`: `host:port`, `host:*` or `*.example.com:9093`.

    `*.` stands for exactly one label, as in TLS certificates: `*.example.com` matches `b1.example.com`, and neither
    `example.com` nor `a.b1.example.com`. Names match in any case. Nothing is resolved: a name matches only that name,
    an address only that address.

    Attributes:
        host: A name in lower case, an IP address, or `*.` and the rest of a name.
        port: None for any.
    """

    host: str
    port: int | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port if self.port is not None else '*'}"

    def matches(self, host: str, port: int) -> bool:
        """Whether a connection to this host and port is allowed; a host that is out of form never is."""
        asked = _normal(host)
        if asked is None or self.port not in (None, port):
            return False
        if not self.host.startswith(_WILDCARD):
            return asked == self.host
        return not _is_ip(asked) and asked.partition(".")[2] == self.host.removeprefix(_WILDCARD)


def parse_allowed_host(text: str) -> AllowedHost:
    """Reads one entry of `hosts`.

    Raises:
        ValueError: it is out of form; the text says how, and what to write.
    """
    host, separator, port = text.strip().rpartition(":")
    if not separator or not host or (":" in host and not host.startswith("[")):
        raise ValueError(f"{text!r} is not host:port; write host:port, host:* for any port, or *.example.com:9093")
    number = read_number(port)
    if port != "*" and number not in _PORTS:
        raise ValueError(f"{text!r} has no port of 1 to 65535; write host:port, or host:* for any port")
    return AllowedHost(_parse_host(text, host), number)


def _parse_host(text: str, host: str) -> str:
    """The host of an entry in its normal form. Raises ValueError."""
    wildcard = _WILDCARD if host.startswith(_WILDCARD) else ""
    rest = host.removeprefix(wildcard)
    if "*" in rest:
        raise ValueError(f"{text!r} has * where it may not stand; it is the whole first label: *.example.com:9093")
    normal = _normal(rest)
    if normal is None:
        raise ValueError(f"{text!r} names no host; write a name, an IPv4 address, or an IPv6 address in [ ]")
    if wildcard and (_is_ip(normal) or normal.rpartition(".")[2].isdecimal()):
        raise ValueError(f"{text!r} has * before an address; it goes with names only: *.example.com:9093")
    return wildcard + normal


def _normal(host: str) -> str | None:
    """A host as it is compared: addresses in their short form, names in lower case; None when it is neither."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        name = host.lower().removesuffix(".")
        return name if host.isascii() and _NAME.fullmatch(name) else None


def _is_ip(normal: str) -> bool:
    try:
        ipaddress.ip_address(normal)
    except ValueError:
        return False
    return True
