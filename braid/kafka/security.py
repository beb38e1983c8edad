"""Security profiles: how a client proves itself to a cluster. Secrets are read here and go nowhere else."""

import os
import ssl
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from braid.host import secret_files
from braid.kafka.allowed_hosts import AllowedHost, parse_allowed_host
from braid.kafka.certificates import expiry_of
from braid.kernel.errors import ClusterAccessDenied, Invalid

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_TEXTS: Final = frozenset(
    {
        "security_protocol",
        "sasl_mechanism",
        "username",
        "password",
        "password_file",
        "ca_file",
        "certificate_file",
        "key_file",
    }
)
_HOSTS: Final = "hosts"
_EXAMPLE: Final = f'{_HOSTS} = ["kafka.example.com:9093"]'
_PLAINTEXT_PASSWORD: Final = "plaintext_password"
_KEYS: Final = _TEXTS | {_HOSTS, _PLAINTEXT_PASSWORD}


@dataclass(frozen=True, slots=True)
class Security:
    """Settings of one profile, as aiokafka's connections take them, and the addresses it may be sent to.

    Clients connect wherever the registry, or a broker's metadata, tells them to. `hosts` bounds that: each address is
    compared before a connection is opened, so an address elsewhere receives no byte.

    What this defends against: whoever may register or update clusters and names an address of his own; a broker or a
    registry that advertises addresses elsewhere.

    What it does not defend against: whoever controls an allowed name in DNS, or the network on the way to it (only TLS
    does, which checks the broker's certificate against that name); whoever controls an allowed broker, which is sent
    the password with mechanism PLAIN, and an exchange from which a weak password can be guessed with SCRAM.

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

    def client_settings(self) -> dict[str, object]:
        """Keyword arguments of aiokafka's clients and connections."""
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
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
            remedy=f"if that broker is yours, add {address!r} to {_HOSTS} in the profile; else correct the address",
            metadata={"access": "withheld"},
        )

    def explained(self, denied: ClusterAccessDenied) -> ClusterAccessDenied:
        """A broker's refusal with what this client knows of its own certificate, which TLS does not tell."""
        if denied.problem != "client_certificate" or self.certificate_file is None:
            return denied
        expiry = expiry_of(self.certificate_file)
        if expiry is None or expiry > datetime.now(UTC):
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


def read_profile(name: str) -> Security:
    """Reads a security profile.

    '' means plain text. Any other name is a TOML file: the path in `BRAID_KAFKA_PROFILE_<NAME>` (upper case, `_` for
    `-`), else `<name>.toml` in the directory `BRAID_KAFKA_PROFILES`. Its keys: `security_protocol`, `sasl_mechanism`,
    `username`, `password` or `password_file`, `ca_file`, `certificate_file`, `key_file`; `hosts`, a list of addresses
    that it may be sent to; `plaintext_password`, true to send a password without TLS.

    Files that hold a secret must be closed to other users: the profile itself when it has a `password`, else
    `password_file`, and the file with the private key.

    Raises:
        Invalid: there is no such profile, or it does not make sense; names it, never its secrets.
    """
    if not name:
        return Security()
    path = _profile_path(name)
    if path is None or not path.is_file():
        raise _invalid(name, "is unknown", f"write its settings to a file and name it in {_variable(name)}")
    return read_profile_file(name, path)


def read_profile_file(name: str, path: Path) -> Security:
    """Reads the profile of a name from a file. Raises as `read_profile`."""
    try:
        return _security(name, _read_settings(name, path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ssl.SSLError) as error:
        raise _invalid(name, f"cannot be read: {type(error).__name__}", f"look at {path}") from error


def _read_settings(name: str, path: Path) -> Mapping[str, object]:
    content, exposure = secret_files.read_bytes(path)
    settings = tomllib.loads(content.decode("utf-8"))
    if exposure and "password" in settings:
        raise _exposed(name, path, exposure)
    return settings


def _variable(name: str) -> str:
    return "BRAID_KAFKA_PROFILE_" + name.upper().replace("-", "_")


def _profile_path(name: str) -> Path | None:
    own, directory = os.environ.get(_variable(name)), os.environ.get("BRAID_KAFKA_PROFILES")
    if own:
        return Path(own)
    return Path(directory) / f"{name}.toml" if directory else None


def _security(name: str, settings: Mapping[str, object]) -> Security:
    unknown = sorted(set(settings) - _KEYS)
    if unknown:
        raise _invalid(name, f"has unknown settings: {', '.join(unknown)}", "check their spelling")
    values = {key: str(value) for key, value in settings.items() if key in _TEXTS}
    protocol = values.get("security_protocol", "SASL_SSL" if "username" in values else "SSL")
    mechanism = values.get("sasl_mechanism", "PLAIN")
    if protocol not in _PROTOCOLS:
        raise _invalid(name, f"has security_protocol {protocol!r}", f"use one of {', '.join(_PROTOCOLS)}")
    if mechanism not in _MECHANISMS:
        raise _invalid(name, f"has sasl_mechanism {mechanism!r}", f"use one of {', '.join(_MECHANISMS)}")
    plaintext_password = _sends_plaintext(name, settings)
    if (protocol, mechanism) == ("SASL_PLAINTEXT", "PLAIN") and not plaintext_password:
        raise _invalid(
            name,
            "would send its password readable to everybody on the way (SASL_PLAINTEXT with mechanism PLAIN)",
            f"use SASL_SSL, with ca_file for a private authority; to send it so: {_PLAINTEXT_PASSWORD} = true",
        )
    password = _password(name, values)
    if protocol.startswith("SASL") and (not values.get("username") or password is None):
        raise _invalid(name, "lacks username or password", "SASL needs both")
    hosts = _hosts(name, settings)
    context = _ssl_context(name, values) if protocol.endswith("SSL") else None
    has_secret = protocol.startswith("SASL") or (context is not None and "certificate_file" in values)
    warnings = _warnings(name, protocol, mechanism, unbounded=has_secret and not hosts)
    own = Path(values["certificate_file"]) if context is not None and "certificate_file" in values else None
    return Security(protocol, mechanism, values.get("username"), password, context, name, hosts, warnings, own)


def _sends_plaintext(name: str, settings: Mapping[str, object]) -> bool:
    found = settings.get(_PLAINTEXT_PASSWORD, False)
    if not isinstance(found, bool):
        raise _invalid(name, f"has {_PLAINTEXT_PASSWORD} = {found!r}", "write true or false, without quotes")
    return found


def _password(name: str, values: Mapping[str, str]) -> str | None:
    if "password_file" not in values:
        return values.get("password")
    path = Path(values["password_file"])
    content, exposure = secret_files.read_bytes(path)
    if exposure:
        raise _exposed(name, path, exposure)
    return content.decode("utf-8").strip()


def _hosts(name: str, settings: Mapping[str, object]) -> tuple[AllowedHost, ...]:
    found = settings.get(_HOSTS)
    if found is None:
        return ()
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise _invalid(name, f"has {_HOSTS} that are no list of addresses", f"write {_EXAMPLE}")
    try:
        return tuple(parse_allowed_host(each) for each in found)
    except ValueError as error:
        problem, _, remedy = str(error).partition("; ")
        raise _invalid(name, f"has {_HOSTS} in which {problem}", remedy) from error


def _ssl_context(name: str, values: Mapping[str, str]) -> ssl.SSLContext:
    """Checks the broker's certificate by `ca_file`, or else by the system's authorities."""
    context = ssl.create_default_context(cafile=values.get("ca_file"))
    if "certificate_file" in values:
        key = Path(values.get("key_file", values["certificate_file"]))
        if exposure := secret_files.exposure(key):
            raise _exposed(name, key, exposure)
        context.load_cert_chain(values["certificate_file"], values.get("key_file"))
    return context


def _warnings(name: str, protocol: str, mechanism: str, *, unbounded: bool) -> tuple[str, ...]:
    found = []
    if unbounded:
        found.append(
            f"security profile {name!r} carries a secret and names no {_HOSTS}: whoever may register clusters can have "
            f"it sent anywhere; write {_EXAMPLE} into it"
        )
    if protocol == "SASL_PLAINTEXT" and mechanism == "PLAIN":
        found.append(f"security profile {name!r} sends its password without TLS: everybody on the way can read it")
    elif protocol == "SASL_PLAINTEXT":
        found.append(
            f"security profile {name!r} uses {mechanism} without TLS: who listens on the way can guess the password, "
            "and read and change all records; use SASL_SSL"
        )
    return tuple(found)


def _exposed(name: str, path: Path, exposure: str) -> Invalid:
    return _invalid(name, f"has a secret in {path}, which {exposure}", f"chmod 600 {path}")


def _invalid(name: str, problem: str, remedy: str) -> Invalid:
    return Invalid(f"security profile {name!r} {problem}", field="security_profile", remedy=remedy)
