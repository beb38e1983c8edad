"""Requests about sessions: signing in by link or token, the present session, and signing out."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.ports import Host
from braid.rpc.documents import Document, Value
from console.server.json_text import json_bytes
from console.server.signing.identities import Identities
from console.server.signing.links import Links, LinkVerdict
from console.server.signing.sessions import Session, Sessions
from console.server.web.requests import Doorkeeper, check_own_page, read_body

LINK: Final = "link"
TOKEN: Final = "token"
_SIGN_IN: Final = "run `braid open`, and open the link that it prints"


class SigningIn:
    """How people sign in, and out.

    Args:
        host: Of this process.
        doorkeeper: Finds sessions.
        sessions: All of them.
        identities: Whose rights sessions have.
        links: One-time links.
        ways: `link`, `token` or both.
        secure: Whether browsers reach the console by TLS alone.
        facts: What else the page is told: the mesh's endpoint, and the release.
    """

    def __init__(
        self,
        host: Host,
        doorkeeper: Doorkeeper,
        sessions: Sessions,
        identities: Identities,
        links: Links,
        ways: Sequence[str],
        secure: bool,
        facts: Document,
    ) -> None:
        self._host = host
        self._doorkeeper = doorkeeper
        self._sessions = sessions
        self._identities = identities
        self._links = links
        self._ways = ways
        self._secure = secure
        self._facts = facts

    def routes(self) -> Sequence[BaseRoute]:
        """The addresses."""
        return (
            Route("/sign-in/{token}", self._by_link, methods=["GET"]),
            Route("/api/session", self._show, methods=["GET"]),
            Route("/api/session", self._by_token, methods=["POST"]),
            Route("/api/session", self._sign_out, methods=["DELETE"]),
        )

    async def _by_link(self, request: Request) -> Response:
        verdict = LinkVerdict.UNKNOWN
        if LINK in self._ways:
            verdict = self._links.use(request.path_params["token"], self._host.clock.now_ms())
        if verdict is not LinkVerdict.GOOD:
            return RedirectResponse(f"/?sign_in={verdict}", 303)
        session = self._sessions.open(await self._identities.own())
        response = RedirectResponse(_own_path(request.query_params.get("to", "/")), 303)
        self._give(response, session)
        return response

    async def _by_token(self, request: Request) -> Response:
        check_own_page(request)
        if TOKEN not in self._ways:
            raise Unsupported("this console takes no tokens", remedy=_SIGN_IN)
        token = (await read_body(request)).get("token")
        if not isinstance(token, str):
            raise Invalid("is missing", field="token", remedy="send a signed token (JWT)")
        async with self._identities.of_token(token) as identity:
            session = self._sessions.open(identity)
        response = self._told(session)
        self._give(response, session)
        return response

    async def _show(self, request: Request) -> Response:
        session = self._doorkeeper.session_if_any(request)
        if session is not None and not session.identity.principal:
            await self._identities.own()  # the mesh may know by now who that is
        return self._told(session)

    async def _sign_out(self, request: Request) -> Response:
        self._sessions.close(self._doorkeeper.changing(request))
        response = Response(status_code=204)
        response.delete_cookie(self._doorkeeper.cookie, httponly=True, samesite="strict", secure=self._secure)
        return response

    def _told(self, session: Session | None) -> Response:
        ways: list[Value] = [*self._ways]
        if session is None:
            return _json({"signed_in": False, "sign_in": ways, "remedy": _SIGN_IN, "version": self._facts["version"]})
        identity = session.identity
        return _json(
            {
                "signed_in": True,
                "how": identity.how,
                "principal": identity.principal,
                "csrf": session.csrf,
                "expires_ms": session.expire_ms,
                "sign_in": ways,
                **self._facts,
            }
        )

    def _give(self, response: Response, session: Session) -> None:
        seconds = max(0, (session.expire_ms - self._host.clock.now_ms()) // 1_000)
        response.set_cookie(
            self._doorkeeper.cookie,
            session.id,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )


def _own_path(text: str) -> str:
    """Returns a path of this console; `/` for a path that would lead to another site."""
    plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"


def _json(document: Document) -> Response:
    return Response(json_bytes(document), media_type="application/json")
