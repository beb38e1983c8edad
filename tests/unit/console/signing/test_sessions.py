"""Sessions: they end in time, are bounded in number, and never outlive the token behind them."""

from typing import cast

from console.server.limits import SESSION_SECONDS, SESSIONS_MAX
from console.server.reads.reader import Reader
from console.server.signing.sessions import Identity, Sessions
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.cli.mesh import virtual


def identity(expire_ms: int = 0) -> Identity:
    """Somebody."""
    return Identity("one", "token", cast("Reader", None), expire_ms=expire_ms)


@virtual
async def test_a_session_ends_after_a_day_of_work() -> None:
    host = VirtualProcess(running_loop(), "console", 1).host
    sessions, somebody = Sessions(host), identity()
    session = sessions.open(somebody)
    await host.clock.sleep(SESSION_SECONDS - 1.0)
    assert sessions.find(session.id) is session
    await host.clock.sleep(1.0)
    assert sessions.find(session.id) is None
    assert (session.closed, somebody.sessions) == (True, 0)


@virtual
async def test_a_session_ends_with_the_token_behind_it() -> None:
    host = VirtualProcess(running_loop(), "console", 1).host
    sessions = Sessions(host)
    session = sessions.open(identity(host.clock.now_ms() + 60_000))
    await host.clock.sleep(60.0)
    assert sessions.find(session.id) is None


@virtual
async def test_sessions_are_bounded_and_the_oldest_ends() -> None:
    sessions, somebody = Sessions(VirtualProcess(running_loop(), "console", 1).host), identity()
    opened = [sessions.open(somebody) for _ in range(SESSIONS_MAX + 1)]
    assert sessions.find(opened[0].id) is None
    assert sessions.find(opened[1].id) is opened[1]
    assert somebody.sessions == SESSIONS_MAX
    assert len({each.id for each in opened} | {each.csrf for each in opened}) == 2 * len(opened)
