"""Identities of certificates: services, people and applications, named by SPIFFE ids. Pure.

A SPIFFE id is `spiffe://<trust domain>/<kind>/<name>` (SPIFFE-ID specification, section 2).
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple, Self

from braid.kernel.errors import Invalid
from braid.kernel.limits.access.certs import TRUST_DOMAIN_CHARS_MAX

DEFAULT_TRUST_DOMAIN: Final = "braid.local"
_SCHEME: Final = "spiffe://"
_TRUST_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_EXAMPLES: Final = "write service/registry-0, user/anna or app/indexer"


class IdentityKind(StrEnum):
    """The kind of a certificate's holder: a replica of a service, a person, or an application."""

    SERVICE = "service"
    USER = "user"
    APP = "app"


class Identity(NamedTuple):
    """The holder of a certificate within one trust domain, written `service/registry-0`."""

    kind: IdentityKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `<kind>/<name>`. Raises `Invalid` with the field NAME for any other form."""
        kind, _, name = text.partition("/")
        if kind not in list(IdentityKind) or not _NAME.fullmatch(name):
            raise Invalid(f"{text!r} is no name of a certificate", field="NAME", remedy=_EXAMPLES)
        return cls(IdentityKind(kind), name)

    def spiffe_id(self, trust_domain: str) -> str:
        """The identity as certificates carry it."""
        return f"{_SCHEME}{trust_domain}/{self}"


def check_trust_domain(text: str) -> str:
    """Returns `text` when it is a trust domain. Raises `Invalid` with the field --trust-domain."""
    if len(text) > TRUST_DOMAIN_CHARS_MAX or not _TRUST_DOMAIN.fullmatch(text):
        raise Invalid(
            f"{text!r} is no trust domain",
            field="--trust-domain",
            remedy=f"use lower-case letters, digits, dots, hyphens and underscores, like {DEFAULT_TRUST_DOMAIN}",
        )
    return text


def trust_domain_id(trust_domain: str) -> str:
    """The SPIFFE id of a whole trust domain, which its CA carries."""
    return f"{_SCHEME}{trust_domain}"


def parse_spiffe_id(uri: str) -> tuple[str, str]:
    """Splits a SPIFFE id into its trust domain and its path, without the leading slash. Raises `Invalid` if
    malformed."""
    if not uri.startswith(_SCHEME):
        raise Invalid(f"{uri!r} is no SPIFFE id")
    trust_domain, _, path = uri.removeprefix(_SCHEME).partition("/")
    return trust_domain, path
