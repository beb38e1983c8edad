"""Asks a schema registry over HTTP: one address, which is a setting; no redirects; bounds of bytes and time."""

import base64
from pathlib import Path

import aiohttp

from braid.kernel.errors import NotFound, Unavailable
from console.server.limits import SCHEMA_BYTES_MAX, SCHEMA_SECONDS


class RegistryClient:
    """A client of one registry.

    Args:
        address: `https://host:port`, perhaps with a path.
        login: A file with `name:password`, read at each request, so that it may change; None to show nothing.
    """

    def __init__(self, address: str, login: Path | None = None) -> None:
        self._address = address.rstrip("/")
        self._login = login
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, path: str) -> bytes:
        """The body at a path.

        Raises:
            NotFound: the registry has no such schema.
            Unavailable: it does not answer, or not as a registry does.
        """
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=SCHEMA_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout)
        try:
            async with self._session.get(
                f"{self._address}{path}", headers=self._headers(), allow_redirects=False
            ) as answer:
                body = await answer.content.read(SCHEMA_BYTES_MAX + 1)
                while len(body) <= SCHEMA_BYTES_MAX and (more := await answer.content.read(SCHEMA_BYTES_MAX)):
                    body += more
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"the schema registry does not answer: {type(error).__name__}") from error
        if status == 404:
            raise NotFound("the schema registry does not know it")
        if status != 200:
            raise Unavailable(f"the schema registry answers {status}")
        if len(body) > SCHEMA_BYTES_MAX:
            raise Unavailable(f"the schema registry's answer has more than {SCHEMA_BYTES_MAX} bytes")
        return body

    async def close(self) -> None:
        """Ends its connections."""
        if self._session is not None:
            await self._session.close()

    def _headers(self) -> dict[str, str]:
        accept = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._login is None:
            return accept
        login = base64.b64encode(self._login.read_text(encoding="utf-8").strip().encode()).decode()
        return {**accept, "authorization": f"Basic {login}"}
