"""The keys of a security profile, and which of them belong together. No files are read here."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from braid.kafka.allowed_hosts import AllowedHost, parse_allowed_host
from braid.kafka.security import HOSTS_KEY, OAUTHBEARER
from braid.kernel.errors import Invalid

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
HOSTS_EXAMPLE: Final = f'{HOSTS_KEY} = ["kafka.example.com:9093"]'
PLAINTEXT_PASSWORD: Final = "plaintext_password"
SYSTEM_CA: Final = "system_ca"
_PASSWORDS: Final = ("username", "password", "password_file")
_ENDPOINT: Final = ("client_id", "client_secret", "client_secret_file", "scope", "token_ca_file")
_TOKENS: Final = ("token_file", "token_endpoint", *_ENDPOINT)
_TLS: Final = ("ca_file", "certificate_file", "key_file", "key_password_file")
_TEXTS: Final = frozenset({"security_protocol", "sasl_mechanism", *_PASSWORDS, *_TOKENS, *_TLS})
_KEYS: Final = _TEXTS | {HOSTS_KEY, PLAINTEXT_PASSWORD, SYSTEM_CA}
_FILES: Final = tuple(sorted(key for key in _TEXTS if key.endswith("_file")))


@dataclass(frozen=True, slots=True)
class ProfileKeys:
    """A profile whose keys make sense together; what is in its files is not known yet.

    Attributes:
        name: The profile's.
        values: Keys with texts.
        protocol: Kafka's `security.protocol`.
        mechanism: Kafka's `sasl.mechanism`.
        hosts: Addresses it may be sent to; empty for any.
        system_ca: Whether the system's authorities count.
    """

    name: str
    values: Mapping[str, str]
    protocol: str
    mechanism: str
    hosts: tuple[AllowedHost, ...]
    system_ca: bool

    @property
    def uses_sasl(self) -> bool:
        """Whether a password or a token is sent."""
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def files(self) -> Sequence[str]:
        """Files that it names."""
        return [self.values[key] for key in _FILES if key in self.values]


def parse_keys(name: str, settings: Mapping[str, object]) -> ProfileKeys:
    """Checks the keys of a profile.

    Raises:
        Invalid: one is unknown, out of form, missing, or does not go with another; names it, and what to write.
    """
    unknown = sorted(set(settings) - _KEYS)
    if unknown:
        raise invalid(name, f"has unknown settings: {', '.join(unknown)}", f"use of {', '.join(sorted(_KEYS))}")
    values = {key: str(value) for key, value in settings.items() if key in _TEXTS}
    mechanism = values.get("sasl_mechanism", "PLAIN")
    sends_secret = "username" in values or mechanism == OAUTHBEARER
    protocol = values.get("security_protocol", "SASL_SSL" if sends_secret else "SSL")
    if protocol not in PROTOCOLS:
        raise invalid(name, f"has security_protocol {protocol!r}", f"use one of {', '.join(PROTOCOLS)}")
    if mechanism not in MECHANISMS:
        raise invalid(name, f"has sasl_mechanism {mechanism!r}", f"use one of {', '.join(MECHANISMS)}")
    keys = ProfileKeys(name, values, protocol, mechanism, _hosts(name, settings), _truth(name, settings, SYSTEM_CA))
    _check_plaintext(keys, allowed=_truth(name, settings, PLAINTEXT_PASSWORD))
    _check_authorities(keys)
    _check_certificate(keys)
    if mechanism == OAUTHBEARER:
        _check_tokens(keys)
    else:
        _refuse(keys, _TOKENS, f"only sasl_mechanism {OAUTHBEARER!r} uses", f'write sasl_mechanism = "{OAUTHBEARER}"')
    return keys


def _check_plaintext(keys: ProfileKeys, *, allowed: bool) -> None:
    if keys.protocol != "SASL_PLAINTEXT" or keys.mechanism not in ("PLAIN", OAUTHBEARER) or allowed:
        return
    secret = "token" if keys.mechanism == OAUTHBEARER else "password"
    raise invalid(
        keys.name,
        f"would send its {secret} readable to everybody on the way (SASL_PLAINTEXT with mechanism {keys.mechanism})",
        f"use SASL_SSL, with ca_file for a private authority; to send it so: {PLAINTEXT_PASSWORD} = true",
    )


def _check_authorities(keys: ProfileKeys) -> None:
    """A secret goes only to brokers whose authority somebody named: any public one could sign for a stranger."""
    if keys.system_ca and "ca_file" in keys.values:
        raise invalid(keys.name, f"has both ca_file and {SYSTEM_CA} = true", "keep the one whose authorities you mean")
    if keys.protocol == "SASL_SSL" and not keys.system_ca and "ca_file" not in keys.values:
        remedy = f'name the authority of the brokers\' certificates: ca_file = "/path/ca.pem"; or {SYSTEM_CA} = true'
        raise invalid(keys.name, "sends a password or a token, and names no ca_file", remedy)


def _check_certificate(keys: ProfileKeys) -> None:
    if "certificate_file" not in keys.values:
        _refuse(keys, ("key_file", "key_password_file"), "needs certificate_file", "name the client's certificate, too")


def _check_tokens(keys: ProfileKeys) -> None:
    if keys.protocol in ("PLAINTEXT", "SSL"):
        raise invalid(keys.name, f"has {OAUTHBEARER} with {keys.protocol}", 'write security_protocol = "SASL_SSL"')
    _refuse(keys, _PASSWORDS, f"{OAUTHBEARER} does not use", "keep token_file, or token_endpoint and client_id")
    if ("token_file" in keys.values) == ("token_endpoint" in keys.values):
        raise invalid(keys.name, "needs either token_file or token_endpoint", "name one place where tokens come from")
    if "token_file" in keys.values:
        _refuse(keys, _ENDPOINT, "only token_endpoint uses", "name token_endpoint in the place of token_file")
        return
    if not keys.values.get("client_id"):
        raise invalid(keys.name, "lacks client_id", "token_endpoint needs the id of a client")
    if ("client_secret" in keys.values) == ("client_secret_file" in keys.values):
        raise invalid(keys.name, "needs either client_secret or client_secret_file", "the file is safer")
    _check_endpoint(keys)


def _check_endpoint(keys: ProfileKeys) -> None:
    url = keys.values["token_endpoint"]
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("https", "http") or not host or parts.username or parts.fragment:
        raise invalid(keys.name, f"has token_endpoint {url!r}", "write https://host/path, without user and fragment")
    if parts.scheme == "http" and not is_loopback(host):
        raise invalid(keys.name, "would send its client secret to token_endpoint without TLS", f"write https://{host}…")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(keys: ProfileKeys, unwanted: Sequence[str], why: str, remedy: str) -> None:
    if found := [key for key in unwanted if key in keys.values]:
        raise invalid(keys.name, f"has {', '.join(found)}, which {why}", remedy)


def _truth(name: str, settings: Mapping[str, object], key: str) -> bool:
    found = settings.get(key, False)
    if not isinstance(found, bool):
        raise invalid(name, f"has {key} = {found!r}", "write true or false, without quotes")
    return found


def _hosts(name: str, settings: Mapping[str, object]) -> tuple[AllowedHost, ...]:
    found = settings.get(HOSTS_KEY)
    if found is None:
        return ()
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise invalid(name, f"has {HOSTS_KEY} that are no list of addresses", f"write {HOSTS_EXAMPLE}")
    try:
        return tuple(parse_allowed_host(each) for each in found)
    except ValueError as error:
        problem, _, remedy = str(error).partition("; ")
        raise invalid(name, f"has {HOSTS_KEY} in which {problem}", remedy) from error


def invalid(name: str, problem: str, remedy: str) -> Invalid:
    """The error that a profile does not make sense; it never holds a secret."""
    return Invalid(f"security profile {name!r} {problem}", field="security_profile", remedy=remedy)
