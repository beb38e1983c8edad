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
from console.server.web.cookies import Cookies
from console.server.web.provider_signing_in import ProviderSigningIn
from console.server.web.requests import Doorkeeper, check_own_page, own_path, read_body

LINK: Final = "link"
TOKEN: Final = "token"
OIDC: Final = "oidc"
_SIGN_IN: Final = "run `braid open`, and open the link that it prints"


class SigningIn:
    """How people sign in, and out.

    Args:
        host: Of this process.
        doorkeeper: Finds sessions.
        sessions: All of them.
        identities: Whose rights sessions have.
        links: One-time links.
        ways: `link`, `token`, `oidc`, or some of them.
        cookies: Of this console.
        facts: What else the page is told: the mesh's endpoint, and the release.
        provider: Signs people in where `oidc` is a way.
    """

    def __init__(
        self,
        host: Host,
        doorkeeper: Doorkeeper,
        sessions: Sessions,
        identities: Identities,
        links: Links,
        ways: Sequence[str],
        cookies: Cookies,
        facts: Document,
        provider: ProviderSigningIn | None = None,
    ) -> None:
        self._host = host
        self._doorkeeper = doorkeeper
        self._sessions = sessions
        self._identities = identities
        self._links = links
        self._ways = ways
        self._cookies = cookies
        self._facts = facts
        self._provider = provider

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
        response = RedirectResponse(own_path(request.query_params.get("to", "/")), 303)
        self._cookies.give_session(response, session, self._host.clock)
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
        response = _json(self._signed_in(session))
        self._cookies.give_session(response, session, self._host.clock)
        return response

    async def _show(self, request: Request) -> Response:
        session = self._doorkeeper.session_if_any(request)
        if session is not None and not session.identity.principal:
            await self._identities.own()  # the mesh may know by now who that is
        return _json(self._signed_out(request) if session is None else self._signed_in(session))

    async def _sign_out(self, request: Request) -> Response:
        session = self._doorkeeper.changing(request)
        url = self._provider.sign_out_url(session) if self._provider is not None else ""
        self._sessions.close(session)
        response = _json({"sign_out": url}) if url else Response(status_code=204)
        self._cookies.take_session(response)
        return response

    def _signed_out(self, request: Request) -> Document:
        ways: list[Value] = [*self._ways]
        found: Document = {"signed_in": False, "sign_in": ways, "version": self._facts["version"]}
        if LINK in self._ways:
            found = {**found, "remedy": _SIGN_IN}
        problem = self._sessions.why_ended(request.cookies.get(self._doorkeeper.cookie, ""))
        if self._provider is not None:
            found = {**found, "provider": self._provider.name}
            problem = self._provider.problem(request) or problem
        return found if problem is None else {**found, "problem": problem.document()}

    def _signed_in(self, session: Session) -> Document:
        ways: list[Value] = [*self._ways]
        return {
            "signed_in": True,
            "how": session.identity.how,
            "principal": session.identity.principal,
            "csrf": session.csrf,
            "expires_ms": session.expire_ms,
            "sign_in": ways,
            **self._facts,
        }


def _json(document: Document) -> Response:
    return Response(json_bytes(document), media_type="application/json")
