"""Reads the file of a token and of those whom its connection trusts, and reads them again when they change.

A file that cannot be used leaves what was read before in use. No error has a token in it.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from braid.host import secret_files
from braid.host.reread_files import RereadFiles
from braid.host.tls.files import TlsMaterial
from braid.host.tokens import Token
from braid.kernel.errors import BraidError, Invalid, Unauthenticated, Unavailable
from braid.kernel.limits.access.tokens import TOKEN_BYTES_MAX
from braid.kernel.limits.rpc import TLS_FILE_BYTES_MAX

T = TypeVar("T")

_log: Final = logging.getLogger("braid.token")


class TokenFiles:
    """A `Token` as it was last read well. Safe to ask from any thread."""

    def __init__(self, token: Token) -> None:
        """Reads the files.

        Raises:
            Invalid: one is missing, unreadable, too large or out of form, or other users may read the token's. The
                field is `token`, `token_file` or `tls.ca`.
        """
        self._token = token
        self._text = _checked(token.text, "token") if token.text else ""
        self._file = None if token.file is None else _reread(token.file, _read_token, token.reload_seconds)
        nobody = TlsMaterial(b"", b"", b"", float("inf"))
        self._system = nobody
        self._ca = None if token.ca is None else _reread(token.ca, _read_ca, token.reload_seconds)

    @property
    def token(self) -> Token:
        """Where the files are."""
        return self._token

    def current(self) -> TlsMaterial:
        """The authorities that the connection trusts now: the same object until they change."""
        return self._system if self._ca is None else self._ca.current()

    def bearer(self) -> str:
        """The token to send with a call that begins now."""
        return self._text if self._file is None else self._file.current()

    def replace(self, text: str) -> None:
        """Sends another token from now on, where the token is a text that its owner renews.

        Raises:
            Invalid: it is none; the one before stays.
        """
        assert self._file is None, "a token in a file is renewed there"
        self._text = _checked(text, "token")

    def refused(self, error: Unauthenticated) -> BraidError:
        """The error of a refused token: where its file may hold a newer one soon, trying again later may work."""
        if self._file is None or error.metadata.get("problem") != "token_expired":
            return error
        remedy = "renew it there: it is read again by itself"
        return Unavailable(f"the token in {self._token.file} has expired", remedy=remedy, metadata=error.metadata)


def _reread(path: Path, read: Callable[[Path], T], seconds: float) -> RereadFiles[T]:
    return RereadFiles(
        [path],
        lambda: read(path),
        seconds,
        on_read=lambda _: _log.info("%s was read anew", path),
        on_unusable=lambda error: _log.warning(
            "the file changed and cannot be used: what was read before stays in use: %s", error
        ),
    )


def _read_token(path: Path) -> str:
    content, exposure = _content(path, "token_file")
    if exposure:
        raise Invalid(f"{path} {exposure}", field="token_file", remedy=f"chmod 600 {path}")
    return _checked(content.decode("ascii", errors="replace").strip(), "token_file", f"{path} ")


def _read_ca(path: Path) -> TlsMaterial:
    # Lazy: most programs that import Braid open no TLS connection.
    from cryptography.x509 import load_pem_x509_certificates

    content, _ = _content(path, "tls.ca")
    try:
        load_pem_x509_certificates(content[:TLS_FILE_BYTES_MAX])
    except ValueError:
        remedy = "it begins with -----BEGIN CERTIFICATE-----"
        raise Invalid(f"{path} holds no PEM certificate", field="tls.ca", remedy=remedy) from None
    return TlsMaterial(b"", b"", content, float("inf"))


def _content(path: Path, field: str) -> tuple[bytes, str]:
    try:
        return secret_files.read_bytes(path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Invalid(f"{path} cannot be read ({reason})", field=field, remedy="check the path") from None


def _checked(text: str, field: str, what: str = "it ") -> str:
    """A token that a header may carry. Errors have nothing of it."""
    if len(text) > TOKEN_BYTES_MAX:
        message = f"{what}has {len(text)} characters, more than the {TOKEN_BYTES_MAX} of a token"
        raise Invalid(message, field=field, remedy="is it the right file?")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid(f"{what}is no token: one line of printable ASCII", field=field, remedy="write a JWT there")
    return text
