"""Tokens of etcd's users: asked for once, again when refused, and a wrong password in no storm."""

import asyncio
from pathlib import Path

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from braid.kernel.errors import StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_PASSWORD_PAUSE_SECONDS
from braid.stores.etcd.users import EtcdUser
from braid.testing.clock import ManualClock
from tests.integration.etcd.secured import password_file
from tests.support.planted import credential


class Etcd:
    """Gives tokens for one planted password, and lists by their names what it is asked with."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.asked = list[str]()
        self.failure: Exception | None = None

    async def authenticate(self, name: str, password: str) -> str:
        """Answers as etcd does what `EtcdUser` asks."""
        self.asked.append(password.removeprefix(credential("")))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if password != credential(self.password):
            raise refused("etcdserver: authentication failed, invalid user ID or password")
        return f"token {len(self.asked)} of {name}"


def refused(details: str) -> AioRpcError:
    """Returns the error that grpc raises for etcd's answer."""
    return AioRpcError(grpc.StatusCode.INVALID_ARGUMENT, Metadata(), Metadata(), details=details)


@pytest.fixture
def clock() -> ManualClock:
    """Moved by the test."""
    return ManualClock()


def user(tmp_path: Path, clock: ManualClock, etcd: Etcd, *passwords: str) -> EtcdUser:
    """A user whose file holds these passwords."""
    return EtcdUser("braid", password_file(tmp_path / "password", *passwords), clock, etcd.authenticate)


async def test_a_token_is_asked_for_once_however_many_need_it(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    who = user(tmp_path, clock, etcd, "secret")
    assert set(await asyncio.gather(*(who.token() for _ in range(20)))) == {"token 1 of braid"}
    assert etcd.asked == ["secret"]


async def test_a_refused_token_is_replaced_once(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    who = user(tmp_path, clock, etcd, "secret")
    first = await who.token()
    who.forget(first)
    second = await who.token()
    who.forget(first)  # of a call that was slower
    assert await who.token() == second != first


async def test_each_password_of_the_file_is_tried(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("new")
    assert await user(tmp_path, clock, etcd, "old", "new").token() == "token 2 of braid"
    assert etcd.asked == ["old", "new"]


async def test_a_wrong_password_is_sent_in_no_storm(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    who = user(tmp_path, clock, etcd, "wrong")
    for _ in range(100):
        with pytest.raises(StoreAccessDenied, match="does not accept the password of user braid"):
            await who.token()
    assert etcd.asked == ["wrong"]
    await clock.advance(ETCD_PASSWORD_PAUSE_SECONDS)
    with pytest.raises(StoreAccessDenied):
        await who.token()
    assert etcd.asked == ["wrong", "wrong"]


async def test_a_changed_password_is_sent_at_once(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    who = user(tmp_path, clock, etcd, "wrong")
    with pytest.raises(StoreAccessDenied):
        await who.token()
    password_file(tmp_path / "password", "secret")
    assert await who.token() == "token 2 of braid"


async def test_no_token_is_needed_before_users_are_switched_on(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    etcd.failure = refused("etcdserver: authentication is not enabled")
    who = user(tmp_path, clock, etcd, "secret")
    assert await who.token() == ""
    etcd.failure = None
    who.forget("")  # etcd refuses calls without a token now
    assert await who.token() == "token 2 of braid"


async def test_an_etcd_that_does_not_answer_is_no_wrong_password(tmp_path: Path, clock: ManualClock) -> None:
    etcd = Etcd("secret")
    etcd.failure = StoreUnavailable("no answer")
    who = user(tmp_path, clock, etcd, "secret")
    with pytest.raises(StoreUnavailable, match="no answer"):
        await who.token()
    etcd.failure = None
    assert await who.token() == "token 2 of braid"


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o644, "secret\n", "is open to other users"),
        (0o600, "", "holds 0 lines"),
        (0o600, "a\nb\nc\n", "holds 3 lines"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(
    mode: int, text: str, said: str, tmp_path: Path, clock: ManualClock
) -> None:
    etcd = Etcd("secret")
    who = user(tmp_path, clock, etcd, "secret")
    (tmp_path / "password").write_text(text)
    (tmp_path / "password").chmod(mode)
    with pytest.raises(StoreAccessDenied, match=said) as raised:
        await who.token()
    assert raised.value.problem == "password"
    assert "secret" not in str(raised.value)
    assert etcd.asked == []
