"""Identities of tokens: their connections are open while anybody signs in or reads with them, and end after that."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from braid.api.registry.v1 import grant_pb2
from braid.kernel.errors import Exhausted, Unauthenticated
from console.server.limits import IDENTITIES_MAX
from console.server.reads.reader import Reader
from console.server.signing.identities import Identities
from console.server.signing.sessions import Session, Sessions
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.cli.mesh import virtual


class Connections:
    """Stands for one identity's clients; what it is asked waits until the test lets it through."""

    def __init__(self, gate: asyncio.Event, closing: asyncio.Event) -> None:
        self.asked = 0
        self.closed = False
        self.refusal: Unauthenticated | None = None
        self._gate = gate
        self._closing = closing

    async def one(self, *_: object) -> grant_pb2.CheckAccessResponse:
        """The mesh's word on who calls."""
        self.asked += 1
        await self._gate.wait()
        assert not self.closed, "it is asked over closed connections"
        if self.refusal is not None:
            raise self.refusal
        return grant_pb2.CheckAccessResponse(principal="jwt:ada")

    async def close(self) -> None:
        """Ends them, which takes as long as the test wants."""
        self.closed = True
        await self._closing.wait()


class Console:
    """Identities and sessions, over connections that a test holds up."""

    def __init__(self) -> None:
        self.host = VirtualProcess(running_loop(), "console", 1).host
        self.gate, self.closing = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.closing.set()
        self.opened: list[Connections] = []
        self.ended: list[str] = []
        self.identities = Identities(self.host, self._open, self.ended.append)
        self.sessions = Sessions(self.host)

    def _open(self, token: str) -> Reader:
        self.opened.append(Connections(self.gate, self.closing))
        return cast("Reader", self.opened[-1])

    async def sign_in(self, token: str = "t") -> Session:
        """Signs in by a token, like a request that shows one."""
        async with self.identities.of_token(token) as identity:
            return self.sessions.open(identity)

    async def begun(self, count: int, token: Callable[[int], str] = lambda _: "t") -> list[asyncio.Task[Session]]:
        """Sign-ins that wait for the mesh."""
        self.gate.clear()
        tasks = [asyncio.ensure_future(self.sign_in(token(each))) for each in range(count)]
        await self.host.clock.sleep(0.01)
        return tasks


def is_open(session: Session) -> bool:
    """Whether what a session reads with still works."""
    return not cast("Connections", session.identity.reader).closed


@virtual
async def test_a_known_identity_stays_open_while_it_is_verified_again() -> None:
    console = Console()
    session = await console.sign_in()
    [again] = await console.begun(1)
    console.sessions.close(session)
    await console.identities.close_unused()
    console.gate.set()
    assert is_open(await again)


@virtual
async def test_one_token_twice_at_once_is_one_identity() -> None:
    console = Console()
    first, second = await console.begun(2)
    console.gate.set()
    sessions = [await first, await second]
    assert sessions[0].identity is sessions[1].identity
    assert len(console.opened) == 1
    assert all(map(is_open, sessions))


@virtual
async def test_the_later_of_two_outlives_the_session_of_the_earlier() -> None:
    console = Console()
    first, second = await console.begun(2)
    console.closing.clear()
    console.gate.set()
    console.sessions.close(await first)
    sweep = asyncio.ensure_future(console.identities.close_unused())
    await console.host.clock.sleep(0.01)
    console.closing.set()
    await sweep
    later = await second
    assert is_open(later)
    await console.identities.close_unused()
    assert is_open(later)


@virtual
async def test_a_sweep_spares_who_signed_in_while_it_waited() -> None:
    console = Console()
    sessions = [await console.sign_in("a"), await console.sign_in("b")]
    for each in sessions:
        console.sessions.close(each)
    console.closing.clear()
    sweep = asyncio.ensure_future(console.identities.close_unused())
    await console.host.clock.sleep(0.01)
    back = await console.sign_in("b")
    console.closing.set()
    await sweep
    assert [each.closed for each in console.opened] == [True, False]
    assert is_open(back)


@virtual
async def test_two_sweeps_and_the_end_close_each_identity_once() -> None:
    console = Console()
    for each in [await console.sign_in("a"), await console.sign_in("b")]:
        console.sessions.close(each)
    console.closing.clear()
    sweeps = [asyncio.ensure_future(console.identities.close_unused()) for _ in range(2)]
    await console.host.clock.sleep(0.01)
    ending = asyncio.ensure_future(console.identities.close())
    await console.host.clock.sleep(0.01)
    console.closing.set()
    await asyncio.gather(*sweeps, ending)
    assert len(console.ended) == len(set(console.ended)) <= 2
    assert all(each.closed for each in console.opened)


@virtual
async def test_a_refused_token_leaves_nothing_open() -> None:
    console = Console()
    [task] = await console.begun(1)
    console.opened[0].refusal = Unauthenticated("the token has expired")
    console.gate.set()
    with pytest.raises(Unauthenticated):
        await task
    assert console.opened[0].closed


@virtual
async def test_a_sign_in_that_is_given_up_leaves_nothing_open() -> None:
    console = Console()
    [task] = await console.begun(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert console.opened[0].closed


@virtual
async def test_tokens_that_come_at_once_are_bounded() -> None:
    console = Console()
    tasks = await console.begun(IDENTITIES_MAX + 5, token=str)
    console.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(console.opened) == IDENTITIES_MAX
    assert sum(isinstance(each, Exhausted) for each in results) == 5
