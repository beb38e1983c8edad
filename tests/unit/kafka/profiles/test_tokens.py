"""Tokens: kept until they are old, fetched once for all who ask, and their failures told."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from braid.kafka.errors import access_error
from braid.kafka.profiles.token_endpoint import Token, TokenError
from braid.kafka.profiles.tokens import FetchedTokens, FileTokens, TokenWithheld
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS, TOKEN_REFRESH_SHARE
from testbed.patience import until


class Source:
    """Gives tokens `t1`, `t2`, …, each good for a hundred seconds; time stands unless a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.fetched = 0
        self.failure = ""
        self.open = threading.Event()
        self.open.set()
        self.provider = FetchedTokens("prod", self.fetch, lambda: self.now)

    def fetch(self) -> Token:
        """Blocks while the source is not open."""
        self.open.wait(30)
        self.fetched += 1
        if self.failure:
            raise TokenError(self.failure)
        return Token(f"t{self.fetched}", 100.0)

    async def token_is(self, text: str) -> bool:
        """Whether this is the token that a connection would get."""
        return await self.provider.token() == text


async def test_one_token_serves_all_until_it_is_old() -> None:
    source = Source()
    assert await asyncio.gather(*(source.provider.token() for _ in range(20))) == ["t1"] * 20
    source.now += 100.0 * TOKEN_REFRESH_SHARE - 1.0
    assert await source.provider.token() == "t1" and source.fetched == 1


async def test_the_next_token_is_fetched_while_the_old_one_serves() -> None:
    source = Source()
    await source.provider.token()
    source.open.clear()
    source.now += 100.0 * TOKEN_REFRESH_SHARE
    assert [await source.provider.token() for _ in range(3)] == ["t1"] * 3
    source.open.set()
    await until(lambda: source.token_is("t2"), "the next token serves")
    assert source.fetched == 2


async def test_an_expired_token_is_not_given_out() -> None:
    source = Source()
    await source.provider.token()
    source.now += 100.0
    assert await source.provider.token() == "t2"


async def test_a_source_fails_and_is_left_alone_for_a_while() -> None:
    source = Source()
    source.failure = "token endpoint answers 401: invalid_client"
    for _ in range(5):
        error = await withheld(source.provider.token)
        assert "401: invalid_client" in error
    assert source.fetched == 1
    source.failure = ""
    source.now += KAFKA_DENIED_SECONDS
    assert await source.provider.token() == "t2"


async def test_a_refresh_fails_and_the_token_serves_until_it_expires() -> None:
    source = Source()
    await source.provider.token()
    source.failure = "no route"
    source.now += 100.0 * TOKEN_REFRESH_SHARE
    assert await source.provider.token() == "t1"
    await until(lambda: source.fetched == 2, "the refresh failed")
    assert await source.provider.token() == "t1"
    source.now += 100.0
    assert "no route" in await withheld(source.provider.token)


async def test_a_slow_source_is_waited_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.kafka.profiles.tokens.KAFKA_TOKEN_WAIT_SECONDS", 0.05)
    source = Source()
    source.open.clear()
    assert "no token came within" in await withheld(source.provider.token)
    source.open.set()
    await until(lambda: source.fetched == 1, "it is fetched all the same")
    assert await source.provider.token() == "t1"


async def test_whoever_waits_is_cancelled_and_others_get_the_token() -> None:
    source = Source()
    source.open.clear()
    first, second = (asyncio.ensure_future(source.provider.token()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    source.open.set()
    assert await second == "t1" and source.fetched == 1


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [("", 0o600, "not one of RFC 6750"), ("a b", 0o600, "not one of RFC 6750"), ("abc", 0o644, "chmod 600")],
)
async def test_a_file_without_a_good_token_is_named(tmp_path: Path, content: str, mode: int, said: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    error = await withheld(FileTokens("prod", path).token)
    assert said in error and str(path) in error


async def test_a_file_is_read_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    provider = FileTokens("prod", path)
    assert "FileNotFoundError" in await withheld(provider.token)
    for text in ("one", "two"):
        path.write_text(text + "\n")
        path.chmod(0o600)
        assert await provider.token() == text


async def withheld(token: Callable[[], object]) -> str:
    """The reason why there is no token, as a connecting client gets it."""
    with pytest.raises(TokenWithheld) as raised:
        await token()  # type: ignore[misc]
    denied = access_error(raised.value, "broker east:9093")
    assert denied is not None and denied.problem == "token" and denied.remedy
    assert "'prod' has no token" in denied.message
    return denied.message
