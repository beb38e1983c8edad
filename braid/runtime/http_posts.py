"""Posts over HTTP to servers that an operator's settings name: webhooks and Alertmanagers.

Each post has a connection of its own and a bounded time, and nothing of an answer is read but its status and headers,
which are bounded by the library. Redirections are not followed, and no proxy is taken from the environment: what is
posted goes to where the settings say. Errors never hold a URL or a secret.
"""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from braid.host.secret_files import read_bytes
from braid.kernel.errors import Unavailable
from braid.kernel.limits.lagmon.alert_outlets import OUTLET_SECRET_BYTES_MAX, OUTLET_SECRETS_MAX
from braid.kernel.ports import Post, PostAnswer, Tasks

if TYPE_CHECKING:
    import aiohttp


class HttpPosts:
    """The `kernel.ports.Posts` of a real process."""

    def __init__(self, tasks: Tasks) -> None:
        """Opens nothing yet; files are read beside the loop by `tasks`."""
        self._tasks = tasks

    async def post(self, post: Post, seconds: float) -> PostAnswer:
        """Sends a post and returns the answer. Raises `Unavailable`, without the URL, if none comes within the time."""
        import aiohttp  # only a lag monitor with outlets pays for it

        headers = dict(post.headers)
        if post.token_file:
            tokens = await self.secrets(post.token_file)
            headers["Authorization"] = f"Bearer {tokens[0]}"
        context = await self._context(post) if post.url.startswith("https:") else None
        try:
            async with asyncio.timeout(seconds):
                return await _send(post, headers, context)
        except TimeoutError:
            raise Unavailable(f"it did not answer within {seconds:g} s") from None
        except aiohttp.ClientError as error:
            raise Unavailable(_reason(error)) from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"it cannot be reached: {type(error).__name__}") from None

    async def secrets(self, path: str) -> Sequence[str]:
        """Reads the lines of a file with secrets, which may change. Raises `Unavailable`, without its content."""
        try:
            content, exposure = await self._tasks.run_blocking(lambda: read_bytes(Path(path).expanduser()))
        except (OSError, RuntimeError, ValueError) as error:  # a home that nobody has, or a name that no file can have
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unavailable(f"{path!r} cannot be read: {reason}") from None
        if exposure:
            raise Unavailable(f"{path} {exposure}", remedy=f"chmod 600 {path}")
        lines = [line.strip() for line in content[:OUTLET_SECRET_BYTES_MAX].decode("ascii", "replace").splitlines()]
        found = [line for line in lines if line]
        if not 1 <= len(found) <= OUTLET_SECRETS_MAX or len(content) > OUTLET_SECRET_BYTES_MAX:
            raise Unavailable(
                f"{path} does not hold 1 to {OUTLET_SECRETS_MAX} lines of {OUTLET_SECRET_BYTES_MAX} bytes"
            )
        if not all(line.isascii() and line.isprintable() for line in found):
            raise Unavailable(f"{path} has characters that no token or key has")
        return found

    async def _context(self, post: Post) -> ssl.SSLContext:
        def load() -> ssl.SSLContext:
            return ssl.create_default_context(cafile=str(Path(post.ca_file).expanduser()) if post.ca_file else None)

        try:
            return await self._tasks.run_blocking(load)
        except (OSError, RuntimeError, ValueError) as error:
            raise Unavailable(f"{post.ca_file!r} holds no certificates: {type(error).__name__}") from None


async def _send(post: Post, headers: dict[str, str], context: ssl.SSLContext | None) -> PostAnswer:
    import aiohttp

    connector = aiohttp.TCPConnector(ssl=context or True, force_close=True)
    session = aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
    )
    async with (
        session,
        session.post(post.url, data=post.body, headers=headers, allow_redirects=False) as answer,
    ):
        return PostAnswer(answer.status, answer.headers.get("Retry-After", ""))


def _reason(error: "aiohttp.ClientError") -> str:
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is refused: {error.certificate_error.__class__.__name__}"
        case aiohttp.ClientConnectorError():
            return f"it cannot be reached: {error.os_error.strerror or type(error.os_error).__name__}"
        case _:
            return f"it does not speak HTTP: {type(error).__name__}"
