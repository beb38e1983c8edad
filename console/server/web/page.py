"""Serves the page's built files. Every address that is none of them shows the page, which finds its way by itself.

Files are sent compressed to browsers that accept it: over a slow connection, size decides when the page is there.
Answers about the mesh are not. They may hold secrets beside text of other people, and the compressed size would reveal
them (the BREACH attack).
"""

import asyncio
import gzip
from functools import lru_cache
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

INDEX: Final = "index.html"
_HASHED: Final = "assets/"
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_COMPRESSED: Final = frozenset({".html", ".js", ".css", ".svg", ".txt"})
_FILES_KEPT: Final = 64  # compressed, in memory; a page has a dozen
_GONE: Final = "There is no such file; reload the page.\n"
_NOT_BUILT: Final = "The console's page is not built here; its interface is at /api/.\n"


class Page(StaticFiles):
    """The built files below a directory. Those with a hash in their name are kept by browsers for ever."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, check_dir=False)
        self._built = (directory / INDEX).is_file()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; where nothing is built, it says so."""
        if self._built:
            await super().__call__(scope, receive, send)
        else:
            await PlainTextResponse(_NOT_BUILT)(scope, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at a path, or the page."""
        path = path.replace("\\", "/")
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code != 404:
                raise
            if path.startswith(_HASHED):
                return PlainTextResponse(_GONE, 404)
            response = await super().get_response(INDEX, scope)
        if isinstance(response, FileResponse):
            response = await _compressed(response, Headers(scope=scope))
        hashed = path.startswith(_HASHED) and response.status_code < 400
        response.headers["cache-control"] = _FOREVER if hashed else _ASK_AGAIN
        return response


def compressed(file: Path) -> bytes:
    """A file's content by gzip. It is kept in memory, and made again when the file has changed."""
    found = file.stat()
    return _gzip(file, found.st_mtime_ns, found.st_size)


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header names gzip, and does not refuse it by `q=0`."""
    for each in header.split(","):
        name, _, quality = each.replace(" ", "").lower().partition(";q=")
        if name in ("gzip", "*"):
            return quality.strip("0.") != "" or not quality
    return False


@lru_cache(maxsize=_FILES_KEPT)
def _gzip(file: Path, mtime_ns: int, size: int) -> bytes:
    return gzip.compress(file.read_bytes(), mtime=0)


async def _compressed(response: FileResponse, request: Headers) -> Response:
    """The same answer with a compressed body, where the file's kind and the browser allow it."""
    file = Path(response.path)
    if file.suffix not in _COMPRESSED:
        return response
    response.headers["vary"] = "accept-encoding"
    if "range" in request or not accepts_gzip(request.get("accept-encoding", "")):
        return response
    headers = {name: response.headers[name] for name in ("last-modified", "vary")}
    headers |= {"content-encoding": "gzip", "etag": f"W/{response.headers['etag']}"}  # of another representation
    body = await asyncio.to_thread(compressed, file)
    return Response(body, response.status_code, headers, response.media_type)
