"""Security profiles: how a client proves itself to a cluster. Secrets are read here and go nowhere else."""

import os
import ssl
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KEYS: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class Security:
    """Settings of one profile, as aiokafka's connections take them."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = None
    ssl_context: ssl.SSLContext | None = None

    def client_settings(self) -> dict[str, object]:
        """Keyword arguments of aiokafka's clients and connections."""
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_context": self.ssl_context,
        }


Profiles = Callable[[str], Security]


def read_profile(name: str) -> Security:
    """Reads a security profile.

    '' means plain text. Any other name is a TOML file: the path in `BRAID_KAFKA_PROFILE_<NAME>` (upper case, `_` for
    `-`), else `<name>.toml` in the directory `BRAID_KAFKA_PROFILES`. Its keys: `security_protocol`, `sasl_mechanism`,
    `username`, `password` or `password_file`, `ca_file`, `certificate_file`, `key_file`.

    Raises:
        Invalid: there is no such profile, or it does not make sense; names it, never its secrets.
    """
    if not name:
        return Security()
    path = _profile_path(name)
    if path is None or not path.is_file():
        raise _invalid(name, "is unknown", f"write its settings to a file and name it in {_variable(name)}")
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        return _security(name, settings)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ssl.SSLError) as error:
        raise _invalid(name, f"cannot be read: {type(error).__name__}", f"look at {path}") from error


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
    values = {key: str(value) for key, value in settings.items()}
    protocol = values.get("security_protocol", "SASL_SSL" if "username" in values else "SSL")
    mechanism = values.get("sasl_mechanism", "PLAIN")
    if protocol not in _PROTOCOLS:
        raise _invalid(name, f"has security_protocol {protocol!r}", f"use one of {', '.join(_PROTOCOLS)}")
    if mechanism not in _MECHANISMS:
        raise _invalid(name, f"has sasl_mechanism {mechanism!r}", f"use one of {', '.join(_MECHANISMS)}")
    password = values.get("password")
    if "password_file" in values:
        password = Path(values["password_file"]).read_text(encoding="utf-8").strip()
    if protocol.startswith("SASL") and (not values.get("username") or password is None):
        raise _invalid(name, "lacks username or password", "SASL needs both")
    context = _ssl_context(values) if protocol.endswith("SSL") else None
    return Security(protocol, mechanism, values.get("username"), password, context)


def _ssl_context(values: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=values.get("ca_file"))
    if "certificate_file" in values:
        context.load_cert_chain(values["certificate_file"], values.get("key_file"))
    return context


def _invalid(name: str, problem: str, remedy: str) -> Invalid:
    return Invalid(f"security profile {name!r} {problem}", field="security_profile", remedy=remedy)
