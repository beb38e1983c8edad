"""Serves the page's built files. Every address that is none of them shows the page, which finds its way by itself."""

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

INDEX: Final = "index.html"
_HASHED: Final = "assets/"
_FOREVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
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
        hashed = path.startswith(_HASHED) and response.status_code < 400
        response.headers["cache-control"] = _FOREVER if hashed else _ASK_AGAIN
        return response
