"""Cookies: the one of a session, which no other site's page sends, and the one of a sign-in at a provider."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from braid.kernel.ports import Clock
from console.server.limits import LOGIN_SECONDS
from console.server.signing.sessions import Session


class Cookies:
    """Sets and removes cookies of one console.

    Consoles on other ports of a host have others. Over TLS their names begin so that neither a neighbouring host nor
    a page in plain text can set them (`__Host-`).

    Args:
        port: Of the console.
        secure: Whether browsers reach it by TLS.
    """

    def __init__(self, port: int, secure: bool) -> None:
        self._secure = secure
        self.session: Final = f"braid_session_{port}"
        self._login: Final = f"{'__Host-' if secure else ''}braid_login_{port}"

    def give_session(self, response: Response, session: Session, clock: Clock) -> None:
        """Signs the browser in."""
        seconds = max(0, (session.expire_ms - clock.now_ms()) // 1_000)
        response.set_cookie(
            self.session, session.id, max_age=seconds, secure=self._secure, httponly=True, samesite="strict"
        )

    def take_session(self, response: Response) -> None:
        """Signs the browser out."""
        response.delete_cookie(self.session, httponly=True, samesite="strict", secure=self._secure)

    def login(self, request: Request) -> str:
        """The id of the browser's record of sign-ins; empty where it has none."""
        return request.cookies.get(self._login, "")

    def give_login(self, response: Response, id: str) -> None:
        """Binds sign-ins to the browser. The provider's redirection back must bring the cookie, so it is lax."""
        response.set_cookie(
            self._login, id, max_age=int(LOGIN_SECONDS), secure=self._secure, httponly=True, samesite="lax"
        )

    def take_login(self, response: Response) -> None:
        """Removes that cookie: the sign-in is over."""
        response.delete_cookie(self._login, httponly=True, samesite="lax", secure=self._secure)
