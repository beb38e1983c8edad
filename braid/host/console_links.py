"""One-time links to the console, signed with a key that only the user who runs it can read.

The console writes a fresh key at each start, so links made before are over with it. A user who can read the file
makes links without asking a process.
"""

import base64
import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

from braid.host.private_files import make_directory, write_file
from braid.host.secret_files import read_bytes
from braid.kernel.errors import Invalid, Unavailable

KEY_FILE: Final = "link.key"
LINK_SECONDS: Final = 300.0  # a link that is not opened within it is over
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 16
_TIME_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 32
_SIGNED: Final = b"braid console link 1\0"


class Link(NamedTuple):
    """A link with a valid signature: its nonce, and when it expires."""

    nonce: bytes
    expire_ms: int


def write_key(directory: Path) -> bytes:
    """Writes a fresh key below a directory, for its owner alone. Raises `OSError`."""
    make_directory(directory)
    key = secrets.token_bytes(_KEY_BYTES)
    with write_file(directory / KEY_FILE) as file:
        file.write(key)
    return key


def read_key(directory: Path) -> bytes:
    """Reads the key of a console that runs.

    Raises:
        Unavailable: there is none.
        Invalid: other users may read it, or it is none.
    """
    path = directory / KEY_FILE
    try:
        key, exposure = read_bytes(path)
    except OSError as error:
        remedy = "start it: braid dev --detach; or run this as the user who started it"
        raise Unavailable(f"no console of yours runs: {path} cannot be read", remedy=remedy) from error
    if exposure:
        raise Invalid(f"{path} {exposure}", field="link key", remedy="start the console anew: it writes another")
    if len(key) != _KEY_BYTES:
        raise Invalid(f"{path} holds no key", field="link key", remedy="start the console anew: it writes another")
    return key


def make_link(key: bytes, expire_ms: int) -> str:
    """A link's token, good until a moment of the wall clock."""
    body = secrets.token_bytes(_NONCE_BYTES) + expire_ms.to_bytes(_TIME_BYTES, "big")
    return base64.urlsafe_b64encode(body + _signature(key, body)).decode().rstrip("=")


def sign_in_url(address: str, directory: Path, path: str, now_ms: int) -> str:
    """A link to a page of a console whose key is in a directory: it signs its user in, once, within five minutes.

    Raises as `read_key` does.
    """
    token = make_link(read_key(directory), now_ms + int((LINK_SECONDS - 1.0) * 1_000))
    return f"{address}/sign-in/{token}" + (f"?{urlencode({'to': path})}" if path != "/" else "")


def read_link(key: bytes, token: str) -> Link | None:
    """The link of a token; None where the token is none of this key."""
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    if len(data) != _NONCE_BYTES + _TIME_BYTES + _SIGNATURE_BYTES:
        return None
    body, signature = data[:-_SIGNATURE_BYTES], data[-_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, body)):
        return None
    return Link(body[:_NONCE_BYTES], int.from_bytes(body[_NONCE_BYTES:], "big"))


def _signature(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, _SIGNED + body, hashlib.sha256).digest()
