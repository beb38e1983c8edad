"""Renews the tokens of people who signed in with a provider, before they end, while somebody uses them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from braid.kernel.errors import BraidError, Refused, Unauthenticated
from braid.kernel.ports import Host
from console.server.limits import RENEW_AGAIN_SECONDS, RENEW_BEFORE_SECONDS, RENEW_BEFORE_SHARE
from console.server.oidc.provider import Provider
from console.server.oidc.tokens import Grant
from console.server.problems import Problem, problem_of
from console.server.signing.sessions import Identity

_NOT_RENEWED: Final = Problem(
    401,
    "UNAUTHENTICATED",
    "your sign-in is over: its token ended, and the provider gave none to renew it with",
    "",
    "sign in again; with offline_access in BRAID_CONSOLE_OIDC_SCOPES, most providers let sessions last longer",
)

_log: Final = logging.getLogger("braid.console.oidc")


@dataclass(eq=False)
class _Login:
    identity: Identity
    grant: Grant
    again_at: float = float("-inf")  # not before (`Clock.elapsed`)
    renewing: bool = False


class Renewals:
    """The grants of everybody who is signed in with a provider; each belongs to one identity.

    Args:
        host: Of this process.
        provider: Renews them.
        end: Ends the sessions of an identity that is not renewed any more, and keeps why.
    """

    def __init__(self, host: Host, provider: Provider, end: Callable[[Identity, Problem], None]) -> None:
        self._host = host
        self._provider = provider
        self._end = end
        self._logins: dict[str, _Login] = {}  # by the identity's key

    def keep(self, identity: Identity, grant: Grant) -> None:
        """Takes over a grant; its identity can be renewed if the provider gave a refresh token."""
        identity.renewable = bool(grant.refresh_token)
        identity.problem = None if identity.renewable else _NOT_RENEWED
        self._logins[identity.key] = _Login(identity, grant)

    def forget(self, key: str) -> None:
        """Drops the grant of an identity that nobody uses."""
        self._logins.pop(key, None)

    def grant(self, identity: Identity) -> Grant | None:
        """The last grant of an identity; None for one that is no provider's."""
        login = self._logins.get(identity.key)
        return login.grant if login is not None else None

    def begin_due(self) -> None:
        """Begins to renew what ends soon. A renewal takes no longer than one question to the provider."""
        now, now_ms = self._host.clock.elapsed(), self._host.clock.now_ms()
        for login in list(self._logins.values()):
            due = login.grant.refresh_token and now_ms >= due_ms(login.grant)
            if due and not login.renewing and now >= login.again_at:
                login.renewing = True
                self._host.tasks.spawn(self._renew(login), "renew a token")

    async def _renew(self, login: _Login) -> None:
        try:
            grant = await self._provider.renew(login.grant)
        except BraidError as error:
            login.again_at = self._host.clock.elapsed() + RENEW_AGAIN_SECONDS
            login.identity.problem = problem_of(error)
            _log.warning("a person's token is not renewed: %s", error)
            if isinstance(error, Refused):  # it gives what services cannot use: the present token lasts to its end
                login.grant = replace(login.grant, refresh_token="")
            elif _is_final(error):
                self._end(login.identity, login.identity.problem)
        else:
            login.grant, login.identity.problem = grant, None
            login.identity.expire_ms = grant.expire_ms
            login.identity.reader.show(grant.bearer)
        finally:
            login.renewing = False


def due_ms(grant: Grant) -> int:
    """When a token is to be renewed: a minute before its end, a short-lived one when two thirds are over."""
    early = min(RENEW_BEFORE_SECONDS * 1_000, grant.lifetime_ms * RENEW_BEFORE_SHARE)
    return grant.expire_ms - int(early)


def _is_final(error: BraidError) -> bool:
    """Whether the provider ended the grant itself, or answers for somebody else; other trouble may pass."""
    return isinstance(error, Unauthenticated) and error.metadata.get("error", "invalid_grant") == "invalid_grant"
