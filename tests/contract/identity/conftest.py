"""The authenticators of tokens, the real one and its twin in memory, behind one fixture, on a clock that tests move."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from braid.host.system import system_host
from braid.kernel.ports import Authenticator, Shown
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.memory.tokens import MemoryTokens
from braid.runtime.tokens.authenticator import Tokens
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import TokenSettings
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer


class HandClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return int(self.seconds * 1000)

    def elapsed(self) -> float:
        """See `Clock.elapsed`."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Takes no time."""
        self.seconds += seconds


@dataclass
class Rig:
    """An authenticator, and an issuer whose tokens it takes."""

    clock: HandClock
    tokens: Authenticator
    issue: Callable[..., str]  # (name, seconds, audience=, begins_in=)

    def __post_init__(self) -> None:
        self.either = CertificateOrToken(self.tokens)

    async def principal(self, shown: Shown) -> str:
        """The principal that a caller is taken for; '' for nobody."""
        identity = await self.either.identify(shown)
        return "" if identity is None else identity.principal

    async def of(self, token: str) -> str:
        """The principal that a caller with a token is taken for."""
        return await self.principal(Shown(encrypted=True, bearer=token))


def signed(clock: HandClock, prefix: str = "") -> Rig:
    """The real one."""
    issuer, host = TokenIssuer(), system_host()
    settings = TokenSettings(ISSUER, AUDIENCE, "unused", prefix=prefix)

    async def read() -> bytes:
        return issuer.keys

    def issue(name: str, seconds: float, *, audience: str = AUDIENCE, begins_in: float = 0.0) -> str:
        return issuer.token(name, seconds=seconds, now=clock.seconds, aud=audience, nbf=clock.seconds + begins_in)

    keys = IssuerKeys(read, clock, host.tasks, lambda _: None)
    return Rig(clock, Tokens(settings, keys, clock), issue)


def remembered(clock: HandClock, prefix: str = "") -> Rig:
    """Its twin."""
    twin = MemoryTokens(clock, AUDIENCE, prefix)
    return Rig(clock, twin, twin.issue)


MAKERS = {"jwt": signed, "memory": remembered}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., Rig]:
    """Makes a rig."""
    maker: Callable[..., Rig] = MAKERS[request.param]
    return lambda **how: maker(HandClock(), **how)
