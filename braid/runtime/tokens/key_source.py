"""Reads an issuer's keys from a file or a URL, within bounds of size and time. Blocks: it runs in a thread."""

import ssl
import time
import urllib.error
import urllib.request
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO

from braid.kernel.errors import Unavailable
from braid.kernel.limits.access.tokens import TOKEN_KEYS_BYTES_MAX, TOKEN_KEYS_READ_SECONDS
from braid.runtime.tokens.settings import TokenSettings, is_url

_CHUNK = 64 << 10


def read_keys(settings: TokenSettings) -> bytes:
    """The key set as it lies there.

    Raises:
        Unavailable: it cannot be read now, is too large, or takes too long.
    """
    if not is_url(settings.keys):
        return _of_file(Path(settings.keys).expanduser())
    try:
        return _of_url(settings.keys, settings.keys_ca)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"the keys at {settings.keys} cannot be read: {reason}") from error


def _of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(TOKEN_KEYS_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Unavailable(f"the keys in {path} cannot be read ({reason})", remedy="check the path") from error
    _check_size(len(found), str(path))
    return found


def _of_url(url: str, ca: Path | None) -> bytes:
    context = ssl.create_default_context(cafile=ca)
    # No proxy and no redirection: the keys come from whom the settings name.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirection()
    )
    end = time.monotonic() + TOKEN_KEYS_READ_SECONDS
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with opener.open(request, timeout=TOKEN_KEYS_READ_SECONDS) as response:
        found = bytearray()
        while chunk := response.read1(_CHUNK):
            found += chunk
            _check_size(len(found), url)
            if time.monotonic() > end:  # each read may take its time, and a server may send one byte at a time
                raise Unavailable(f"the keys at {url} did not come within {TOKEN_KEYS_READ_SECONDS:g} s")
    return bytes(found)


def _check_size(size: int, where: str) -> None:
    if size > TOKEN_KEYS_BYTES_MAX:
        raise Unavailable(f"{where} has more than the {TOKEN_KEYS_BYTES_MAX} bytes of a key set")


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Takes a redirection for the error that it is."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        raise urllib.error.HTTPError(req.full_url, code, f"it redirects to {newurl}", headers, fp)
