"""The contents of certificates: names, addresses, usages, validity. Pure; `signing` turns them into X.509."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from braid.certs.identity import Identity, IdentityKind
from braid.kernel.errors import Invalid, Refused
from braid.kernel.limits.access.certs import (
    ALT_NAMES_MAX,
    CA_DAYS,
    CERTIFICATE_BACKDATE_SECONDS,
    LEAF_DAYS,
    LEAF_DAYS_MAX,
)
from braid.kernel.timing.days import days_until

_DNS_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"(\*\.)?{_DNS_LABEL}(\.{_DNS_LABEL})*")
_DNS_CHARS_MAX: Final = 253  # RFC 1035
_BACKDATE: Final = timedelta(seconds=CERTIFICATE_BACKDATE_SECONDS)


class Validity(NamedTuple):
    """The period in which a certificate is accepted; both ends in UTC, whole seconds."""

    begins: datetime
    ends: datetime

    @property
    def days(self) -> int:
        """Whole days that it was issued for, without the backdating."""
        return round((self.ends - self.begins - _BACKDATE) / timedelta(days=1))

    def days_left(self, now: datetime) -> float:
        """Days until it ends; negative afterwards."""
        return days_until(self.ends.timestamp(), now.timestamp())


class Reached(NamedTuple):
    """The addresses of a service. Clients compare the address they dialled with them."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()


NOWHERE: Final = Reached()


@dataclass(frozen=True, slots=True)
class LeafContents:
    """The contents of a leaf.

    Attributes:
        identity: Its holder.
        trust_domain: The trust domain of its mesh.
        reached: Names and addresses of a service; empty for others.
        validity: When it is accepted.
    """

    identity: Identity
    trust_domain: str
    reached: Reached
    validity: Validity

    @property
    def spiffe_id(self) -> str:
        """The SPIFFE id that it carries as a URI."""
        return self.identity.spiffe_id(self.trust_domain)

    @property
    def serves(self) -> bool:
        """Whether a server may present it. Every leaf may be presented by a client."""
        return self.identity.kind is IdentityKind.SERVICE


def ca_validity(now: datetime) -> Validity:
    """The validity of a CA created now."""
    return Validity(_whole(now) - _BACKDATE, _whole(now) + timedelta(days=CA_DAYS))


def leaf_contents(
    identity: Identity, trust_domain: str, reached: Reached, days: int, now: datetime, ca_ends: datetime
) -> LeafContents:
    """The contents of a leaf issued now.

    Raises:
        Invalid: an argument is malformed; `field` names the flag.
        Refused: the leaf would outlive its CA.
    """
    if not 1 <= days <= LEAF_DAYS_MAX:
        raise Invalid(
            f"{days} is not between 1 and {LEAF_DAYS_MAX}", field="--days", remedy=f"leave it out for {LEAF_DAYS}"
        )
    validity = Validity(_whole(now) - _BACKDATE, _whole(now) + timedelta(days=days))
    if validity.ends > ca_ends:
        raise Refused(
            f"the CA ends on {ca_ends:%Y-%m-%d}, before a certificate of {days} days does",
            remedy="make another CA: braid certs rotate --ca",
        )
    return LeafContents(identity, trust_domain, _checked(identity, reached), validity)


def _checked(identity: Identity, reached: Reached) -> Reached:
    """Addresses without duplicates, in normal form. Raises `Invalid`."""
    if identity.kind is not IdentityKind.SERVICE:
        for flag, given in (("--dns", reached.dns), ("--ip", reached.ips)):
            if given:
                raise Invalid(f"{identity} is no service, so it needs no address", field=flag, remedy="leave it out")
        return reached
    if not (reached.dns or reached.ips):
        raise Invalid(
            f"{identity} needs a name or an address at which clients reach it",
            field="--dns",
            remedy="add --dns registry.example.com or --ip 10.0.0.1, once for each",
        )
    if len(reached.dns) + len(reached.ips) > ALT_NAMES_MAX:
        raise Invalid(f"more than {ALT_NAMES_MAX} names and addresses", field="--dns", remedy="use a wildcard name")
    return Reached(_unique([_dns_name(each) for each in reached.dns]), _unique([_ip(each) for each in reached.ips]))


def _dns_name(text: str) -> str:
    name = text.lower().rstrip(".")
    if len(name) > _DNS_CHARS_MAX or not _DNS_NAME.fullmatch(name):
        raise Invalid(f"{text!r} is no host name", field="--dns", remedy="for example registry.example.com")
    if re.fullmatch(r"[0-9.]+", name):
        raise Invalid(f"{text!r} is an address", field="--dns", remedy=f"write --ip {text}")
    return name


def _ip(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise Invalid(f"{text!r} is no IP address", field="--ip", remedy="for example 10.0.0.1 or ::1") from error


def _unique(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _whole(moment: datetime) -> datetime:
    """Truncates a time to whole seconds, the resolution of certificates."""
    return moment.replace(microsecond=0)
