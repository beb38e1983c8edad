"""Which token a process shows in place of a certificate, and where it is named. Contents: `token_files`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from braid.host.tls.paths import CA_VARIABLE
from braid.kernel.errors import Invalid
from braid.kernel.limits.access.tokens import TOKEN_RELOAD_SECONDS

TOKEN_VARIABLE: Final = "BRAID_TOKEN"
TOKEN_FILE_VARIABLE: Final = "BRAID_TOKEN_FILE"


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token (a signed JWT), and whom the connection it travels over trusts. Either `file` or `text` is given.

    Attributes:
        file: Holds the token. It is read again when it changes, so whoever renews the token writes it there.
        text: The token itself, which nothing renews.
        ca: The authorities that may sign a service's certificate, a PEM file; None for the system's.
        reload_seconds: Files are looked at again after so long.
    """

    file: Path | None = None
    text: str = field(default="", repr=False)
    ca: Path | None = None
    reload_seconds: float = TOKEN_RELOAD_SECONDS

    def __post_init__(self) -> None:
        if self.file is not None and self.text:
            raise Invalid("a token and a file of one are given", field="token", remedy="give one of them")
        if self.file is None and not self.text:
            raise Invalid("is empty", field="token", remedy="give the token, or token_file")


def token_of_environment(environment: Mapping[str, str]) -> Token | None:
    """`Token` of BRAID_TOKEN_FILE or BRAID_TOKEN, and BRAID_TLS_CA; None where neither of the first two is set.

    Raises:
        Invalid: both are set.
    """
    file, text = environment.get(TOKEN_FILE_VARIABLE, ""), environment.get(TOKEN_VARIABLE, "")
    if file and text:
        raise Invalid(f"is set, and {TOKEN_FILE_VARIABLE}, too", field=TOKEN_VARIABLE, remedy="set one of them")
    if not file and not text:
        return None
    ca = environment.get(CA_VARIABLE, "")
    return Token(Path(file).expanduser() if file else None, text, Path(ca).expanduser() if ca else None)


def environment_of_token(token: Token | None) -> Mapping[str, str]:
    """Variables that name a token for a process of its own; `token_of_environment` reads them. None without one."""
    if token is None:
        return {}
    named = {TOKEN_FILE_VARIABLE: str(token.file)} if token.file else {TOKEN_VARIABLE: token.text}
    return {**named, **({CA_VARIABLE: str(token.ca)} if token.ca else {})}
