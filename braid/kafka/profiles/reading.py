"""Reads security profiles from environment and files, and again when a file has changed."""

import logging
import os
import ssl
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiokafka.abc import AbstractTokenProvider

from braid.host import secret_files
from braid.host.file_stamps import FileStamp, file_stamp
from braid.kafka.profiles.keys import HOSTS_EXAMPLE, ProfileKeys, invalid, parse_keys
from braid.kafka.profiles.token_endpoint import TokenEndpoint
from braid.kafka.profiles.tokens import FetchedTokens, FileTokens
from braid.kafka.security import HOSTS_KEY, OAUTHBEARER, Security
from braid.kernel.errors import Invalid
from braid.kernel.limits.kafka import KAFKA_PROFILES_MAX

_SECRETS: Final = ("password", "client_secret")
_log = logging.getLogger("braid.kafka")


class ProfileReader:
    """Profiles by name, each read once and again when one of its files has changed.

    '' means plain text. Any other name is a TOML file: the path in `BRAID_KAFKA_PROFILE_<NAME>` (upper case, `_` for
    `-`), else `<name>.toml` in the directory `BRAID_KAFKA_PROFILES`. `keys.py` knows its keys.

    Files that hold a secret must be closed to other users: the profile itself when it has a `password` or a
    `client_secret`, and each file with a password, a token or a private key.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, Path], WatchedProfile] = {}

    def __call__(self, name: str) -> Security:
        """The profile of a name.

        Raises:
            Invalid: there is no such profile, or it does not make sense; names it, never its secrets.
        """
        if not name:
            return Security()
        path = _profile_path(name)
        if path is None or not path.is_file():
            raise invalid(name, "is unknown", f"write its settings to a file and name it in {_variable(name)}")
        found = self._known.get((name, path))
        if found is None:
            if len(self._known) >= KAFKA_PROFILES_MAX:
                self._known.clear()
            found = WatchedProfile(name, path)
            self._known[name, path] = found
        return found.current()


class WatchedProfile:
    """One profile, as its files said it last."""

    def __init__(self, name: str, path: Path) -> None:
        """Reads it. Raises `Invalid`."""
        self._name = name
        self._path = path
        self._tokens: dict[TokenEndpoint | Path, AbstractTokenProvider] = {}
        self._files: Sequence[Path] = ()
        self._failure = ""
        self._stamps: tuple[FileStamp | None, ...] = ()
        self._security = Security()
        self._read()

    def current(self) -> Security:
        """The profile now. Files that do not make sense, as while they are replaced, leave the last one that did."""
        if self._look() != self._stamps:
            try:
                self._read()
            except Invalid as error:
                if str(error) != self._failure:
                    _log.warning("%s: what it was before goes on", error)
                self._failure = str(error)
                return replace(self._security, warnings=(*self._security.warnings, self._unread))
        return self._security

    @property
    def _unread(self) -> str:
        return f"security profile {self._name!r} was changed and cannot be read: what it was before goes on"

    def _read(self) -> None:
        try:
            keys = parse_keys(self._name, self._settings())
            self._files = [Path(each) for each in keys.files]
            stamps = self._look()  # before they are read: what changes meanwhile is read again
            security = self._secured(keys)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ssl.SSLError) as error:
            raise invalid(self._name, f"cannot be read: {_text(error)}", f"look at {self._path}") from error
        self._stamps, self._failure, self._security = stamps, "", security

    def _look(self) -> tuple[FileStamp | None, ...]:
        return tuple(file_stamp(each) for each in (self._path, *self._files))

    def _settings(self) -> Mapping[str, object]:
        content, exposure = secret_files.read_bytes(self._path)
        settings = tomllib.loads(content.decode("utf-8"))
        if exposure and any(key in settings for key in _SECRETS):
            raise _exposed(self._name, self._path, exposure)
        return settings

    def _secured(self, keys: ProfileKeys) -> Security:
        password = _password(keys) if keys.uses_sasl and keys.mechanism != OAUTHBEARER else None
        if keys.uses_sasl and keys.mechanism != OAUTHBEARER and (not keys.values.get("username") or password is None):
            raise invalid(self._name, "lacks username or password", "SASL needs both")
        context = _ssl_context(keys) if keys.uses_tls else None
        own = Path(keys.values["certificate_file"]) if context and "certificate_file" in keys.values else None
        return Security(
            keys.protocol,
            keys.mechanism,
            keys.values.get("username"),
            password,
            context,
            self._name,
            keys.hosts,
            _warnings(keys, unbounded=(keys.uses_sasl or own is not None) and not keys.hosts),
            own,
            self._provider(keys) if keys.mechanism == OAUTHBEARER else None,
            self.current,
        )

    def _provider(self, keys: ProfileKeys) -> AbstractTokenProvider:
        """One provider for one source, so that a token outlives what else changes in the profile."""
        source = _token_source(keys)
        if source not in self._tokens:
            if isinstance(source, TokenEndpoint):
                made: AbstractTokenProvider = FetchedTokens(self._name, source.ask)
            else:
                made = FileTokens(self._name, source)
            self._tokens = {source: made}
        return self._tokens[source]


def read_profile(name: str) -> Security:
    """Reads a security profile. Raises `Invalid`, as `ProfileReader`."""
    return ProfileReader()(name)


def read_profile_file(name: str, path: Path) -> Security:
    """Reads the profile of a name from a file. Raises `Invalid`."""
    return WatchedProfile(name, path).current()


def _variable(name: str) -> str:
    return "BRAID_KAFKA_PROFILE_" + name.upper().replace("-", "_")


def _profile_path(name: str) -> Path | None:
    own, directory = os.environ.get(_variable(name)), os.environ.get("BRAID_KAFKA_PROFILES")
    if own:
        return Path(own)
    return Path(directory) / f"{name}.toml" if directory else None


def _password(keys: ProfileKeys) -> str | None:
    if "password_file" not in keys.values:
        return keys.values.get("password")
    return _secret(keys, "password_file")


def _secret(keys: ProfileKeys, key: str) -> str:
    path = Path(keys.values[key])
    content, exposure = secret_files.read_bytes(path)
    if exposure:
        raise _exposed(keys.name, path, exposure)
    return content.decode("utf-8").strip()


def _token_source(keys: ProfileKeys) -> TokenEndpoint | Path:
    """Where tokens come from. Files with secrets are read once, to refuse a profile that could never get a token."""
    values = keys.values
    if "token_file" in values:
        _secret(keys, "token_file")
        return Path(values["token_file"])
    if "client_secret_file" in values:
        _secret(keys, "client_secret_file")
    ca_file = values.get("token_ca_file") or values.get("ca_file")
    if ca_file is not None and values["token_endpoint"].startswith("https"):
        ssl.create_default_context(cafile=ca_file)  # raises what is wrong with it
    return TokenEndpoint(
        values["token_endpoint"],
        values["client_id"],
        values.get("client_secret", ""),
        Path(values["client_secret_file"]) if "client_secret_file" in values else None,
        values.get("scope", ""),
        Path(ca_file) if ca_file is not None else None,
    )


def _ssl_context(keys: ProfileKeys) -> ssl.SSLContext:
    """Checks the broker's certificate by `ca_file`, or else by the system's authorities."""
    values = keys.values
    context = ssl.create_default_context(cafile=values.get("ca_file"))
    if "certificate_file" in values:
        key = Path(values.get("key_file", values["certificate_file"]))
        if exposure := secret_files.exposure(key):
            raise _exposed(keys.name, key, exposure)
        password = _secret(keys, "key_password_file") if "key_password_file" in values else ""
        asked = list[str]()

        def open_key() -> str:
            """Given always: OpenSSL would ask at the terminal for the password of an encrypted key."""
            asked.append(password)
            return password

        try:
            context.load_cert_chain(values["certificate_file"], values.get("key_file"), open_key)
        except ssl.SSLError as error:
            if asked and not password:
                remedy = "name a file with its password in key_password_file"
                raise invalid(keys.name, f"has an encrypted key in {key}", remedy) from error
            if asked:
                raise invalid(
                    keys.name, f"has a password that does not open {key}", "mend key_password_file"
                ) from error
            raise
    return context


def _warnings(keys: ProfileKeys, *, unbounded: bool) -> tuple[str, ...]:
    found = []
    if unbounded:
        found.append(
            f"security profile {keys.name!r} carries a secret and names no {HOSTS_KEY}: a caller that may register "
            f"clusters can have it sent anywhere; write {HOSTS_EXAMPLE} into it"
        )
    if keys.protocol == "SASL_PLAINTEXT" and keys.mechanism in ("PLAIN", OAUTHBEARER):
        secret = "password" if keys.mechanism == "PLAIN" else "token"
        found.append(f"security profile {keys.name!r} sends its {secret} without TLS: everybody on the way can read it")
    elif keys.protocol == "SASL_PLAINTEXT":
        found.append(
            f"security profile {keys.name!r} uses {keys.mechanism} without TLS: who listens on the way can guess the "
            "password, and read and change all records; use SASL_SSL"
        )
    return tuple(found)


def _exposed(name: str, path: Path, exposure: str) -> Invalid:
    return invalid(name, f"has a secret in {path}, which {exposure}", f"chmod 600 {path}")


def _text(error: Exception) -> str:
    """An error's kind, and the file that it names: its text may hold what stands in the file."""
    name = error.filename if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return f"{type(error).__name__}{f' ({name})' if name else ''}"
