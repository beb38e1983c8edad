"""Verification of signed tokens: what is refused and how it is told, keys that rotate, and reads of them in bounds."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Unauthenticated, Unavailable
from braid.kernel.limits.access import tokens as limits
from braid.kernel.ports import Shown
from braid.runtime.tokens.authenticator import Tokens
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import TokenSettings
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer


@dataclass
class HandClock:
    """Stands until it is moved."""

    seconds: float = field(default_factory=lambda: float(int(time.time())))

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return int(self.seconds * 1000)

    def elapsed(self) -> float:
        """See `Clock.elapsed`."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Takes no time."""
        self.seconds += seconds


class Rig:
    """Tokens of one issuer, whose keys are read as a test says."""

    def __init__(self, **settings: object) -> None:
        self.issuer = TokenIssuer()
        self.clock = HandClock()
        self.away = ""
        self.troubles: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        host = system_host()
        self.keys = IssuerKeys(self._read, self.clock, host.tasks, self.troubles.append)
        made = replace(TokenSettings(ISSUER, AUDIENCE, "unused"), **settings)  # type: ignore[arg-type]
        self.tokens = Tokens(made, self.keys, self.clock)

    async def _read(self) -> bytes:
        await self.gate.wait()
        if self.away:
            raise Unavailable(self.away)
        return self.issuer.keys

    async def of(self, token: str) -> str:
        """The principal that a token names."""
        identity = await self.tokens.identify(Shown(encrypted=True, bearer=token))
        assert identity is not None
        return identity.principal

    async def refused(self, token: str) -> str:
        """Why a token is refused."""
        with pytest.raises(Unauthenticated) as raised:
            await self.of(token)
        assert token not in str(raised.value)
        return raised.value.metadata["problem"]


def encoded(part: object) -> str:
    """A part of a JWT."""
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(issuer: TokenIssuer, algorithm: str) -> str:
    """A token without a signature that says so."""
    _, payload, _ = issuer.token().split(".")
    return f"{encoded({'alg': algorithm, 'kid': issuer.key_id})}.{payload}."


def with_the_public_key_as_secret(issuer: TokenIssuer) -> str:
    """The old trick: HS256 with the key that everybody may read."""
    _, payload, _ = issuer.token().split(".")
    signed = f"{encoded({'alg': 'HS256', 'kid': issuer.key_id})}.{payload}"
    return f"{signed}.{encoded(hmac.digest(issuer.keys, signed.encode(), hashlib.sha256))}"


def changed(issuer: TokenIssuer) -> str:
    """Another name under the same signature."""
    header, _, signature = issuer.token("alice").split(".")
    return f"{header}.{issuer.token('mallory').split('.')[1]}.{signature}"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda issuer: unsigned(issuer, "none"), "algorithm"),
        (lambda issuer: unsigned(issuer, "NONE"), "algorithm"),
        (lambda issuer: unsigned(issuer, "ES256"), "signature"),
        (with_the_public_key_as_secret, "algorithm"),
        (changed, "signature"),
        (lambda issuer: issuer.token(iss="https://other.test"), "issuer"),
        (lambda issuer: issuer.token(iss=ISSUER + "/"), "issuer"),
        (lambda issuer: issuer.token(iss=None), "issuer"),
        (lambda issuer: issuer.token(iss=[ISSUER]), "issuer"),
        (lambda issuer: issuer.token(aud="other"), "audience"),
        (lambda issuer: issuer.token(aud=None), "audience"),
        (lambda issuer: issuer.token(aud={AUDIENCE: 1}), "audience"),
        (lambda issuer: issuer.token(exp=None), "malformed"),
        (lambda issuer: issuer.token(exp="4102444800"), "malformed"),
        (lambda issuer: issuer.token(exp=float("inf")), "malformed"),
        (lambda issuer: issuer.token(nbf="soon"), "malformed"),
        (lambda issuer: issuer.token(seconds=-31), "expired"),
        (lambda issuer: issuer.token(name=None), "name"),
        (lambda issuer: issuer.token(name=["alice"]), "name"),
        (lambda issuer: issuer.token(headers={"kid": "other"}), "unknown_key"),
        (lambda issuer: f"{encoded({'alg': 'ES256', 'kid': 1})}.{issuer.token().partition('.')[2]}", "malformed"),
        (lambda issuer: issuer.token(note="x" * limits.TOKEN_BYTES_MAX), "malformed"),
        (lambda issuer: "x" * (1 << 20), "malformed"),
        (lambda issuer: encoded(b"[" * 4_000) + ".e30.", "malformed"),
    ],
)
async def test_a_token_that_proves_nothing_is_refused(make: Callable[[TokenIssuer], str], problem: str) -> None:
    rig = Rig()
    assert await rig.refused(make(rig.issuer)) == f"token_{problem}"


async def test_names_come_from_the_claim_that_the_settings_name() -> None:
    rig = Rig(claim="email", prefix="corp/")
    assert await rig.of(rig.issuer.token(email="alice@corp.example")) == "jwt:corp/alice@corp.example"
    assert await rig.refused(rig.issuer.token()) == "token_name"


async def test_an_audience_may_be_one_of_several() -> None:
    rig = Rig()
    assert await rig.of(rig.issuer.token(aud=["other", AUDIENCE])) == "jwt:alice"


async def test_only_algorithms_of_the_settings_count() -> None:
    rig = Rig(algorithms=("RS256",))
    assert await rig.refused(rig.issuer.token()) == "token_algorithm"
    rig.issuer.rotate("rsa", algorithm="RS256")
    assert await rig.of(rig.issuer.token()) == "jwt:alice"


async def test_a_key_of_another_kind_checks_no_signature() -> None:
    rig = Rig()
    rig.issuer.rotate("rsa", algorithm="RS256")
    assert await rig.refused(rig.issuer.token(headers={"kid": "one"})) == "token_unknown_key"


async def test_keys_rotate_while_tokens_are_used() -> None:
    rig = Rig()
    first = rig.issuer.token()
    assert await rig.of(first) == "jwt:alice"
    for number in range(100):
        rig.issuer.rotate(f"key-{number}")
        if number:
            rig.issuer.withdraw(f"key-{number - 1}")
        rig.clock.seconds += limits.TOKEN_KEYS_PAUSE_SECONDS
        tokens = [rig.issuer.token(f"user-{each}", now=rig.clock.seconds) for each in range(5)]
        assert await asyncio.gather(*map(rig.of, tokens)) == [f"jwt:user-{each}" for each in range(5)]
    assert rig.keys.reads == 101


async def test_a_withdrawn_keys_tokens_fail_once_the_set_is_read_again() -> None:
    rig = Rig()
    token = rig.issuer.token(seconds=10_000)
    assert await rig.of(token) == "jwt:alice"
    rig.issuer.rotate("two")
    rig.issuer.withdraw("one")
    rig.clock.seconds += limits.TOKEN_KEYS_SECONDS
    assert await rig.of(token) == "jwt:alice"  # while the set is read beside the calls
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rig.clock.seconds += 1
    with pytest.raises(Unavailable):  # perhaps another read brings the key
        await rig.of(token)
    rig.clock.seconds += limits.TOKEN_KEYS_PAUSE_SECONDS
    assert await rig.refused(token) == "token_unknown_key"


async def test_ten_thousand_unknown_keys_cause_one_read_in_a_while() -> None:
    rig = Rig()
    assert await rig.of(rig.issuer.token()) == "jwt:alice"
    _, payload, signature = rig.issuer.token().split(".")
    strange = [f"{encoded({'alg': 'ES256', 'kid': f'k{each}'})}.{payload}.{signature}" for each in range(10_000)]
    rig.clock.seconds += limits.TOKEN_KEYS_PAUSE_SECONDS
    rig.gate.clear()
    calls = [asyncio.ensure_future(rig.of(each)) for each in strange]
    await asyncio.sleep(0)
    rig.gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in answers} == {Unauthenticated}
    assert rig.keys.reads == 2
    rig.clock.seconds += 1
    for each in strange[:100]:
        with pytest.raises(Unavailable):
            await rig.of(each)
    assert rig.keys.reads == 2
    assert await rig.of(rig.issuer.token("bob")) == "jwt:bob"


async def test_the_last_good_keys_stay_a_day_while_none_can_be_read() -> None:
    rig = Rig()
    rig.away = "the keys at https://id.test/keys cannot be read: refused"
    with pytest.raises(Unavailable, match="cannot be read: refused"):
        await rig.of(rig.issuer.token())
    rig.away = ""
    rig.clock.seconds += limits.TOKEN_KEYS_PAUSE_SECONDS
    long = rig.issuer.token(seconds=1_000_000)
    assert await rig.of(long) == "jwt:alice"
    rig.away = "away"
    rig.clock.seconds += limits.TOKEN_KEYS_KEPT_SECONDS - 1
    assert await rig.of(long) == "jwt:alice"
    rig.clock.seconds += 1
    with pytest.raises(Unavailable, match="away"):
        await rig.of(long)
    assert "away" in rig.troubles


async def test_a_read_that_never_ends_keeps_no_call_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.runtime.tokens.keys.TOKEN_KEYS_READ_SECONDS", 0.05)
    rig = Rig()
    rig.gate.clear()
    with pytest.raises(Unavailable, match="did not come within"):
        await rig.of(rig.issuer.token())


async def test_remembered_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.runtime.tokens.authenticator.TOKENS_REMEMBERED_MAX", 3)
    rig = Rig()
    for each in range(10):
        await rig.of(rig.issuer.token(f"user-{each}"))
    assert len(rig.tokens._verified) == 3
