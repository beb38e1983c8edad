"""The port to a provider over real HTTP, by aiohttp: bounded in time, bytes and requests at once."""

import asyncio
import ssl
from pathlib import Path

import aiohttp

from braid.kernel.errors import Unavailable
from braid.kernel.ports import Tasks
from console.server.limits import PROVIDER_ANSWER_BYTES_MAX, PROVIDER_CALLS_MAX, PROVIDER_SECONDS
from console.server.oidc.http import HttpAnswer, HttpRequest

_CHUNK = 64 << 10


class AiohttpClient:
    """Asks a provider over HTTP. Each request has a connection of its own; there are few.

    No redirection is followed and no proxy is taken from the environment: secrets go to whom the settings name.
    """

    def __init__(self, tasks: Tasks, ca: Path | None, seconds: float = PROVIDER_SECONDS) -> None:
        """Opens nothing yet.

        Args:
            tasks: Read files beside the loop.
            ca: May sign the provider's certificate; None for those whom the system trusts.
            seconds: For one question, waiting for its turn included.
        """
        self._tasks = tasks
        self._ca = ca
        self._seconds = seconds
        self._room = asyncio.Semaphore(PROVIDER_CALLS_MAX)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """See `Http.send`."""
        try:
            async with asyncio.timeout(self._seconds), self._room:
                context = await self._tasks.run_blocking(lambda: ssl.create_default_context(cafile=self._ca))
                return await _sent(request, context)
        except TimeoutError:
            raise _away(f"it did not answer within {self._seconds:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            remedy = "name its authority with BRAID_CONSOLE_OIDC_CA"
            raise _away(f"its certificate is refused: {error.certificate_error}", remedy) from None
        except aiohttp.ClientConnectorError as error:
            reason = error.os_error.strerror or type(error.os_error).__name__
            raise _away(f"it cannot be reached: {reason}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _away(f"it does not answer as HTTP does: {type(error).__name__}") from None


async def _sent(request: HttpRequest, context: ssl.SSLContext) -> HttpAnswer:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
    )
    authorization = aiohttp.encode_basic_auth(*request.basic) if request.basic else None
    headers = {"Authorization": authorization} if authorization else {}
    asking = (
        session.get(request.url, headers=headers, allow_redirects=False)
        if request.form is None
        else session.post(request.url, data=dict(request.form), headers=headers, allow_redirects=False)
    )
    async with session, asking as answer:
        body = bytearray()
        async for chunk in answer.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > PROVIDER_ANSWER_BYTES_MAX:
                raise _away(f"its answer has more than {PROVIDER_ANSWER_BYTES_MAX} bytes")
        return HttpAnswer(answer.status, bytes(body))


def _away(why: str, remedy: str = "") -> Unavailable:
    return Unavailable(f"the sign-in provider: {why}", remedy=remedy or "try again in a while")
