"""How a client proves itself to a cluster, and where it may: the value that a security profile becomes. No files here.

Profiles are read in `profiles`. Secrets go nowhere else.
"""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiokafka.abc import AbstractTokenProvider

from braid.kafka.allowed_hosts import AllowedHost
from braid.kafka.certificates import expiry_of, subject_of
from braid.kernel.errors import ClusterAccessDenied, Invalid

ANONYMOUS: Final = "ANONYMOUS"  # how Kafka calls whoever shows no credentials
OAUTHBEARER: Final = "OAUTHBEARER"
HOSTS_KEY: Final = "hosts"


@dataclass(frozen=True, slots=True)
class Security:
    """Settings of one profile, as aiokafka's connections take them, and the addresses it may be sent to.

    Clients connect wherever the registry, or a broker's metadata, tells them to. `hosts` bounds that: each address is
    compared before a connection is opened, so an address elsewhere receives no byte.

    What this defends against: whoever may register or update clusters and names an address of his own; a broker or a
    registry that advertises addresses elsewhere.

    What it does not defend against:

    - Somebody who controls an allowed name in DNS, or the network on the way to it. Only TLS does, which checks the
      broker's certificate against that name.
    - Somebody who controls an allowed broker. It is sent the password with mechanism PLAIN, the token with OAUTHBEARER,
      and with SCRAM an exchange from which a weak password can be guessed.

    Attributes:
        protocol: Kafka's `security.protocol`.
        mechanism: Kafka's `sasl.mechanism`.
        username: For SASL.
        password: For SASL; never part of the text of this value.
        ssl_context: For TLS: it checks the broker's certificate and name.
        profile: The profile's name; '' for plain text.
        hosts: Addresses it may be sent to; empty for any.
        warnings: What is allowed and not safe, for people.
        certificate_file: Of the client, to say why brokers refuse it.
        tokens: For mechanism OAUTHBEARER.
        renew: Returns this profile as its files say it now.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None
    profile: str = ""
    hosts: tuple[AllowedHost, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    certificate_file: Path | None = field(default=None, compare=False)
    tokens: AbstractTokenProvider | None = field(default=None, compare=False, repr=False)
    renew: "Callable[[], Security] | None" = field(default=None, compare=False, repr=False)

    def current(self) -> "Security":
        """This profile with the secrets that its files hold now. Asked before each connection is opened."""
        return self if self.renew is None else self.renew()

    async def prepare(self) -> None:
        """Gets a token, where one is needed: aiokafka leaves a connection open whose token does not come.

        Raises:
            KafkaError: there is none; its cause is `ClusterAccessDenied`.
        """
        if self.tokens is not None:
            await self.tokens.token()

    @property
    def user(self) -> str:
        """The Kafka user that it logs in as, as far as it says; see `Kafka.user`."""
        if self.protocol.startswith("SASL_"):
            return "" if self.mechanism == OAUTHBEARER else self.username or ""
        if self.certificate_file is not None:
            return subject_of(self.certificate_file)
        return ANONYMOUS

    def client_settings(self) -> dict[str, object]:
        """Keyword arguments of aiokafka's clients and connections."""
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "sasl_oauth_token_provider": self.tokens,
            "ssl_context": self.ssl_context,
        }

    def denial(self, host: str, port: int) -> ClusterAccessDenied | None:
        """Why nothing may be sent to an address with this profile; None where it may."""
        if not self.hosts or any(each.matches(host, port) for each in self.hosts):
            return None
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        allowed = ", ".join(map(str, self.hosts))
        return ClusterAccessDenied(
            f"security profile {self.profile!r} may not be sent to {address}: its hosts are {allowed}",
            remedy=f"if that broker is yours, add {address!r} to {HOSTS_KEY} in the profile; else correct the address",
            metadata={"access": "withheld"},
        )

    def explained(self, denied: ClusterAccessDenied) -> ClusterAccessDenied:
        """A broker's refusal with what only this client knows: its mechanism, and its own certificate's dates."""
        if denied.problem == "credentials" and self.mechanism == OAUTHBEARER:
            return ClusterAccessDenied(
                f"{denied.message.rpartition(': ')[0]}: it does not accept the token",
                remedy="look at the token's issuer, audience and expiry, and at what the brokers ask for",
                metadata={**denied.metadata, "problem": "token"},
            )
        expiry = expiry_of(self.certificate_file) if self.certificate_file is not None else None
        if denied.problem != "client_certificate" or expiry is None or expiry > datetime.now(UTC):
            return denied
        return ClusterAccessDenied(
            f"{denied.message}: {self.certificate_file} expired on {expiry:%Y-%m-%d %H:%M} UTC",
            remedy=f"put a new certificate into {self.certificate_file}",
            metadata={**denied.metadata, "problem": "client_certificate_expired"},
        )

    def check_addresses(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Checks addresses that somebody declares. Raises `Invalid`, with the field `bootstrap`."""
        for host, port in addresses:
            if (denial := self.denial(host, port)) is not None:
                raise Invalid(denial.message, field="bootstrap", remedy=denial.remedy)


Profiles = Callable[[str], Security]
