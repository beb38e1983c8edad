"""Requests of a sign-in at a provider: the way there, and the way back."""

import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from braid.kernel.errors import AccessDenied, BraidError, Unauthenticated
from braid.kernel.ports import Host
from console.server.limits import LOGIN_PARAMETER_CHARS_MAX, LOGIN_PATH_CHARS_MAX
from console.server.oidc.pending import Pending, PendingLogins
from console.server.oidc.provider import Provider
from console.server.oidc.renewals import Renewals
from console.server.oidc.settings import CALLBACK_PATH
from console.server.oidc.tokens import BEGIN_AGAIN, refusal
from console.server.problems import Problem, problem_of
from console.server.signing.identities import Identities
from console.server.signing.sessions import Session, Sessions
from console.server.web.cookies import Cookies
from console.server.web.requests import own_path

START_PATH: Final = "/oidc/start"
_UNKNOWN: Final = "/?sign_in=unknown_login"  # the page has the words: an answer that nobody began brings none
_MOVED: Final = "moved"

_log: Final = logging.getLogger("braid.console.oidc")


class ProviderSigningIn:
    """How people sign in with a provider.

    Args:
        host: Of this process.
        provider: Where they sign in.
        identities: Whose rights sessions have.
        sessions: All of them.
        renewals: Renew what sign-ins gave.
        cookies: Of this console.
    """

    def __init__(
        self,
        host: Host,
        provider: Provider,
        identities: Identities,
        sessions: Sessions,
        renewals: Renewals,
        cookies: Cookies,
    ) -> None:
        self._host = host
        self._provider = provider
        self._identities = identities
        self._sessions = sessions
        self._renewals = renewals
        self._cookies = cookies
        self._logins = PendingLogins(host.randomness.entropy)
        self._home = provider.settings.redirect_uri.removesuffix(CALLBACK_PATH)

    @property
    def name(self) -> str:
        """The name of the provider on the page."""
        return self._provider.settings.shown_name

    def routes(self) -> Sequence[BaseRoute]:
        """The addresses."""
        return (
            Route(START_PATH, self._start, methods=["GET"]),
            Route(CALLBACK_PATH, self._come_back, methods=["GET"]),
        )

    def problem(self, request: Request) -> Problem | None:
        """Why this browser's last sign-in failed; None where it did not."""
        return self._logins.problem(self._cookies.login(request), self._host.clock.now_ms())

    def sign_out_url(self, session: Session) -> str:
        """Where a browser goes to sign out at the provider, too; empty where that is not possible."""
        grant = self._renewals.grant(session.identity)
        return self._provider.sign_out_url(grant, f"{self._home}/") if grant is not None else ""

    def close_ended(self) -> None:
        """Forgets sign-ins that were never finished."""
        self._logins.close_ended(self._host.clock.now_ms())

    async def _start(self, request: Request) -> Response:
        _check_navigation(request)
        to = _way_back(request.query_params.get("to", "/"))
        elsewhere = request.headers.get("host", "").lower() != urlsplit(self._home).netloc.lower()
        if elsewhere and _MOVED not in request.query_params:
            # The provider sends browsers back to one host, so the cookie must be that host's.
            return RedirectResponse(f"{self._home}{START_PATH}?{_MOVED}=1&to={quote(to, safe='')}", 303)
        id, pending = self._logins.begin(self._cookies.login(request), to, self._host.clock.now_ms())
        try:
            response: Response = RedirectResponse(await self._provider.sign_in_url(pending), 303)
        except BraidError as error:
            response = self._failed(id, pending, error)
        self._cookies.give_login(response, id)
        return response

    async def _come_back(self, request: Request) -> Response:
        id, query = self._cookies.login(request), request.query_params
        if any(len(each) > LOGIN_PARAMETER_CHARS_MAX for each in query.values()):
            return RedirectResponse(_UNKNOWN, 303)
        pending = self._logins.take(id, query.get("state", ""), self._host.clock.now_ms())
        if pending is None:
            return RedirectResponse(_UNKNOWN, 303)
        try:
            await self._provider.check_named(query.get("iss", ""))
            if "error" in query or not query.get("code"):
                raise refusal(query.get("error"), query.get("error_description"))
            session = await self._sign_in(query["code"], pending)
        except BraidError as error:
            return self._failed(id, pending, error)
        response = RedirectResponse(pending.to, 303)
        if self._logins.finish(id):
            self._cookies.take_login(response)
        self._cookies.give_session(response, session, self._host.clock)
        return response

    async def _sign_in(self, code: str, pending: Pending) -> Session:
        grant = await self._provider.redeem(code, pending)
        try:
            async with self._identities.of_login(grant.bearer, grant.expire_ms) as identity:
                self._renewals.keep(identity, grant)
                return self._sessions.open(identity)
        except Unauthenticated as error:
            remedy = error.remedy or "check what services take: BRAID_TOKEN_ISSUER and BRAID_TOKEN_AUDIENCE"
            message = f"the mesh does not take the provider's token: {error.message}"
            raise Unauthenticated(message, remedy=remedy, metadata=error.metadata) from None

    def _failed(self, id: str, pending: Pending, error: BraidError) -> Response:
        _log.warning("a sign-in failed: %s", error)
        problem = problem_of(error)
        self._logins.fail(id, problem._replace(remedy=problem.remedy or BEGIN_AGAIN))
        return RedirectResponse(pending.to, 303)


def _check_navigation(request: Request) -> None:
    """Raises `AccessDenied` for a request that a page sends unseen: images and frames of other sites begin nothing."""
    mode = request.headers.get("sec-fetch-mode", "navigate")
    dest = request.headers.get("sec-fetch-dest", "document")
    if mode != "navigate" or dest != "document":
        raise AccessDenied("only a browser's own window signs in with a provider", field="sec-fetch-mode")


def _way_back(text: str) -> str:
    path = own_path(text)
    signs_in = path.startswith(("/oidc", "/sign-in", "/api"))  # it would lead in a circle
    return "/" if signs_in or len(path) > LOGIN_PATH_CHARS_MAX else path
