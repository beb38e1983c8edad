"""Settings of the console's process, from `BRAID_CONSOLE_…` variables.

Where the mesh is, it finds as the command line does.
"""

import re
import sys
from pathlib import Path
from typing import Final, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from braid.host.addresses import is_loopback
from braid.host.secret_files import exposure
from braid.kernel.errors import Invalid
from console.server.web.signing_in import LINK, TOKEN

_WRONG_USAGE: Final = 2
_WAYS: Final = (LINK, TOKEN)
_TRACE_LINK: Final = re.compile(r"https?://[!-~]*\{trace_id\}[!-~]*")
_UNSPECIFIED: Final = ("0.0.0.0", "::")


class ConsoleSettings(BaseSettings):
    """Settings of one console process, from its environment.

    Attributes:
        listen: Where browsers reach it, `host:port`; port 0 chooses one.
        home: A directory of its own; the key of one-time links is there, for this process's user alone.
        sign_in: How people sign in: `link`, by one-time links that `braid open` prints, with the console's own rights;
            `token`, by a token of theirs that the mesh verifies, with their rights; or `link,token`.
        hosts: Names by which browsers call it, beside those of this machine and of `listen`, separated by commas.
        tls_certificate: What it shows browsers, a PEM file; without one it serves plain HTTP.
        tls_key: Its private key, a PEM file that nobody else may read.
        plaintext: Serve plain HTTP beyond this machine: something in front of it speaks TLS.
        trace_link: Where a trace is shown, an address with `{trace_id}` in it; the Messages page links to it.
        ready_file: Written once it serves: JSON with its address, `console`, and `pid`.
        parent_pid: The process ends when this one is no longer its parent; 0 for never.
    """

    model_config = SettingsConfigDict(env_prefix="BRAID_CONSOLE_", extra="ignore", frozen=True)

    listen: str = "127.0.0.1:7480"
    home: Path
    sign_in: str = LINK
    hosts: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    plaintext: bool = False
    trace_link: str = ""
    ready_file: Path | None = None
    parent_pid: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        host = self.address[0]
        if not self.ways or not set(self.ways) <= set(_WAYS):
            raise ValueError(f"sign_in: {self.sign_in!r} is none of {', '.join(_WAYS)}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_key: a certificate and its key are given together")
        if self.trace_link and not _TRACE_LINK.fullmatch(self.trace_link):
            raise ValueError("trace_link: is no address that begins with https:// or http:// and has {trace_id} in it")
        if not self.secure and not self.plaintext and not is_loopback(host):
            raise ValueError(
                "listen: cookies would cross the network in plain text; give tls_certificate and tls_key, or set "
                "plaintext where something in front speaks TLS"
            )
        return self

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of `listen`. Raises `ValueError`."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) >= 1 << 16:
            raise ValueError(f"listen: {self.listen!r} is not host:port")
        return host.strip("[]"), int(port)

    @property
    def ways(self) -> tuple[str, ...]:
        """How people sign in."""
        return tuple(each.strip() for each in self.sign_in.split(",") if each.strip())

    @property
    def names(self) -> tuple[str, ...]:
        """Hosts that requests may name, beside those of this machine.

        An address that stands for all of a machine is no name: pages of other sites reach this machine by it.
        """
        listen = self.address[0]
        own = () if listen in _UNSPECIFIED else (listen,)
        return (*own, *(each.strip() for each in self.hosts.split(",") if each.strip()))

    @property
    def secure(self) -> bool:
        """Whether browsers reach it by TLS."""
        return self.tls_certificate is not None


def settings_or_exit() -> ConsoleSettings:
    """This process's settings; says what is wrong with them, and exits with 2."""
    try:
        return ConsoleSettings()  # type: ignore[call-arg]  # from the environment
    except ValidationError as error:
        for each in error.errors():
            name = ".".join(map(str, each["loc"]))
            print(f"console: {f'BRAID_CONSOLE_{name.upper()}: ' if name else ''}{each['msg']}", file=sys.stderr)
        sys.exit(_WRONG_USAGE)


def check_files(settings: ConsoleSettings) -> None:
    """Raises `Invalid` where a file of TLS cannot be used, or other users may read the key."""
    for name, path in (("tls_certificate", settings.tls_certificate), ("tls_key", settings.tls_key)):
        if path is not None and not path.is_file():
            raise Invalid(f"{path} is no file", field=name, remedy="check the path")
    if settings.tls_key is not None and (exposed := exposure(settings.tls_key)):
        raise Invalid(f"{settings.tls_key} {exposed}", field="tls_key", remedy=f"chmod 600 {settings.tls_key}")
