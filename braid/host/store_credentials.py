"""Credentials for an event store that is a server: the files of mutual TLS, and a user with a password."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from braid.host import secret_files
from braid.host.addresses import is_loopback
from braid.host.tls.paths import Tls, reload_seconds_of, tls_of_environment, tls_of_files
from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import TLS_FILE_BYTES_MAX

CERTIFICATE_VARIABLE: Final = "BRAID_STORE_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "BRAID_STORE_TLS_KEY"
CA_VARIABLE: Final = "BRAID_STORE_TLS_CA"
USER_VARIABLE: Final = "BRAID_STORE_USER"
PASSWORD_VARIABLE: Final = "BRAID_STORE_PASSWORD_FILE"

ETCD_TLS_SCHEME: Final = "etcd+tls"
ETCD_SCHEMES: Final = ("etcd", ETCD_TLS_SCHEME)


@dataclass(frozen=True, slots=True)
class StoreCredentials:
    """How a process proves to the event store who it is.

    Attributes:
        tls: The files of mutual TLS; None where the URL asks for plain text.
        user: Of the store; empty for none, or for the one that the certificate names.
        password_file: The user's password, a line in a file that nobody else may read. It may hold two, while the
            password changes: each is tried.
    """

    tls: Tls | None = None
    user: str = ""
    password_file: Path | None = None

    def __post_init__(self) -> None:
        if bool(self.user) != (self.password_file is not None):
            missing = PASSWORD_VARIABLE if self.user else USER_VARIABLE
            raise Invalid("is not set", field=missing, remedy=f"set both {USER_VARIABLE} and {PASSWORD_VARIABLE}")


def etcd_credentials(
    scheme: str, endpoints: Sequence[str], credentials: StoreCredentials | None
) -> StoreCredentials | None:
    """The credentials to show an etcd by its URL: without TLS in plain text, and with it only where there is some.

    Args:
        scheme: Of the URL, `etcd` or `etcd+tls`.
        endpoints: Of the URL, `host:port` each.
        credentials: What the process has.

    Raises:
        Invalid: TLS is asked for and no files are named, or a password would leave this machine in plain text.
    """
    if scheme == ETCD_TLS_SCHEME:
        if credentials is None or credentials.tls is None:
            remedy = f"set {CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {CA_VARIABLE}, or BRAID_TLS_… for all connections"
            raise Invalid(f"{scheme}:// needs the files of mutual TLS", field="store", remedy=remedy)
        return credentials
    if credentials is None or credentials.password_file is None:
        return None
    exposed = [each for each in endpoints if not is_loopback(each.rpartition(":")[0])]
    if exposed:
        what = f"the password of {credentials.user} would travel to {exposed[0]} in plain text"
        raise Invalid(what, field=PASSWORD_VARIABLE, remedy=f"use {ETCD_TLS_SCHEME}://")
    return replace(credentials, tls=None)


def store_credentials_of_environment(environment: Mapping[str, str]) -> StoreCredentials:
    """Credentials of the variables `BRAID_STORE_…`; the files of `BRAID_TLS_…` where those name none.

    Raises:
        Invalid: some variables are set without the others they need.
    """
    names = (CERTIFICATE_VARIABLE, KEY_VARIABLE, CA_VARIABLE)
    certificate, key, ca = (environment.get(name, "") for name in names)
    tls = tls_of_files(certificate, key, ca, names=names, reload_seconds=reload_seconds_of(environment))
    password = environment.get(PASSWORD_VARIABLE, "")
    password_file = Path(password).expanduser() if password else None
    user = environment.get(USER_VARIABLE, "")
    return StoreCredentials(tls or tls_of_environment(environment), user, password_file)


def environment_of(credentials: StoreCredentials) -> Mapping[str, str]:
    """Variables that name the credentials, for a process of its own; `store_credentials_of_environment` reads them."""
    found: dict[str, str] = {}
    if credentials.tls is not None:
        found |= {
            CERTIFICATE_VARIABLE: str(credentials.tls.certificate),
            KEY_VARIABLE: str(credentials.tls.key),
            CA_VARIABLE: str(credentials.tls.ca),
        }
    if credentials.password_file is not None:
        found |= {USER_VARIABLE: credentials.user, PASSWORD_VARIABLE: str(credentials.password_file)}
    return found


def read_passwords(path: Path, limit: int) -> tuple[str, ...]:
    """The passwords in a file, one a line.

    Args:
        path: The file.
        limit: How many it may hold.

    Raises:
        Invalid: it is missing, unreadable, open to others, empty, too large, or holds more than `limit` lines.
    """
    try:
        content, exposure = secret_files.read_bytes(path)
    except FileNotFoundError:
        raise _wrong(path, "does not exist", "check the path") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise _wrong(path, f"cannot be read ({reason})", "let this process's user read it") from None
    if exposure:
        raise _wrong(path, exposure, f"chmod 600 {path}")
    try:
        lines = tuple(line for line in content[: TLS_FILE_BYTES_MAX + 1].decode().splitlines() if line)
    except UnicodeDecodeError:
        raise _wrong(path, "is no text", "write the password alone into it") from None
    if len(content) > TLS_FILE_BYTES_MAX or not 0 < len(lines) <= limit:
        raise _wrong(path, f"holds {len(lines)} lines", f"write the password into it, in a line; at most {limit} lines")
    return lines


def _wrong(path: Path, what: str, remedy: str) -> Invalid:
    return Invalid(f"{path} {what}", field=PASSWORD_VARIABLE, remedy=remedy)
