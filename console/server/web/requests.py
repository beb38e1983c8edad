"""Reads requests: whose session, which body, and whether it comes from our own page."""

import asyncio
import hmac
import json
from typing import Final, cast

from starlette.requests import Request

from braid.kernel.errors import AccessDenied, DeadlineExceeded, Exhausted, Invalid, Unauthenticated
from braid.rpc.documents import Document
from console.server.limits import BODY_BYTES_MAX
from console.server.signing.sessions import Session, Sessions

CSRF_HEADER: Final = "x-braid-csrf"
_BODY_SECONDS: Final = 10.0  # for a body of some kilobytes
_SIGN_IN: Final = "sign in: reload the page, or run `braid open` and open the link that it prints"


class Doorkeeper:
    """Finds and checks the sessions of requests.

    Args:
        sessions: All that there are.
        cookie: The name of the cookie that holds a session's id: consoles on other ports of a host have others.
    """

    def __init__(self, sessions: Sessions, cookie: str) -> None:
        self._sessions = sessions
        self.cookie = cookie

    def session_if_any(self, request: Request) -> Session | None:
        """The session of a request; None where there is none."""
        return self._sessions.find(request.cookies.get(self.cookie, ""))

    def session(self, request: Request) -> Session:
        """The session of a request that reads. Raises `Unauthenticated`."""
        session = self.session_if_any(request)
        if session is None:
            raise Unauthenticated("nobody is signed in, or no longer", remedy=_SIGN_IN)
        return session

    def changing(self, request: Request) -> Session:
        """The session of a request that changes something. Our own page proves itself by a header.

        Raises:
            Unauthenticated: there is none.
            AccessDenied: it comes from elsewhere.
        """
        session = self.session(request)
        check_own_page(request)
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), session.csrf.encode()):
            raise AccessDenied(
                f"the header {CSRF_HEADER} is missing or wrong", field=CSRF_HEADER, remedy="reload the page"
            )
        return session


def check_own_page(request: Request) -> None:
    """Raises `AccessDenied` where a browser says that another site's page sends a request."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
    if foreign or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise AccessDenied("the request comes from a page of another site", field="origin")


def own_path(text: str) -> str:
    """Returns a path of this console; `/` for a path that would lead to another site."""
    plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"


async def read_body(request: Request) -> Document:
    """The JSON object that a request carries.

    Raises:
        Invalid: it is none.
        Exhausted: it is too large.
        DeadlineExceeded: it does not end.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Invalid("is not application/json", field="content-type")
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > BODY_BYTES_MAX:
                    raise Exhausted(f"the body has more than {BODY_BYTES_MAX} bytes", field="body")
    except TimeoutError:
        raise DeadlineExceeded("the body did not come to its end", field="body") from None
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise Invalid("is no JSON", field="body") from None
    if not isinstance(found, dict):
        raise Invalid("is no JSON object", field="body")
    return cast("Document", found)
