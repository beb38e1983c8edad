"""When a session counts as lost, on virtual time."""

import asyncio

import pytest

from braid.kernel.errors import Fenced, StoreUnavailable
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.stores.session import KeptSession
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

TTL_SECONDS = 8.0  # one keep-alive a second


class FakeKeepAlive:
    """A store that answers as told."""

    def __init__(self) -> None:
        self.reachable = True
        self.known = True
        self.delay_seconds = 0.0
        self.ended: list[str] = []

    async def renew(self, session: str) -> bool:
        await asyncio.sleep(self.delay_seconds)
        if not self.reachable:
            raise StoreUnavailable("cut off")
        return self.known

    async def end(self, session: str) -> None:
        if not self.reachable:
            raise StoreUnavailable("cut off")
        self.ended.append(session)


class DeadlineFromReply(KeptSession):
    """The mutant: counts from when the answer came."""

    def _deadline_after(self, sent: float) -> float:
        return super()._deadline_after(self._clock.elapsed())


def _session(store: FakeKeepAlive, kind: type[KeptSession] = KeptSession) -> KeptSession:
    host = virtual_host(running_loop(), 1)
    return kind(host, "s", TTL_SECONDS, host.clock.elapsed(), store)


async def check_deadline_counts_from_sending(kind: type[KeptSession]) -> None:
    """Raises `AssertionError` when an owner could outlive its session in a store that counts from the request."""
    store = FakeKeepAlive()
    session = _session(store, kind)
    store.delay_seconds = 0.5
    for sent in (1.0, 2.0, 3.0):
        await asyncio.sleep(sent + 0.75 - running_loop().time())
        assert session.deadline() == pytest.approx(sent + 0.99 * TTL_SECONDS)


def test_the_deadline_counts_from_sending() -> None:
    run_virtual(check_deadline_counts_from_sending(KeptSession))


def test_the_check_of_deadlines_can_fail() -> None:
    with pytest.raises(AssertionError):
        run_virtual(check_deadline_counts_from_sending(DeadlineFromReply))


def test_it_lives_on_while_answers_come() -> None:
    async def main() -> bool:
        session = _session(FakeKeepAlive())
        await asyncio.sleep(3600.0)
        return session.live()

    assert run_virtual(main())


def test_without_answers_it_is_lost_exactly_at_its_deadline() -> None:
    async def main() -> tuple[float, bool]:
        store = FakeKeepAlive()
        session = _session(store)
        await asyncio.sleep(2.5)
        store.reachable = False
        await session.lost()
        store.reachable = True
        lost_at = running_loop().time()
        await asyncio.sleep(60.0)
        return lost_at, session.live()

    lost_at, live = run_virtual(main())
    assert lost_at == pytest.approx(2.0 + 0.99 * TTL_SECONDS)
    assert not live


def test_after_a_late_answer_the_next_keep_alive_goes_at_once() -> None:
    """The answered request was sent long ago, so it bought little time: a whole interval later there may be none
    left."""

    async def main() -> float:
        store = FakeKeepAlive()
        session = _session(store)
        await asyncio.sleep(1.5)
        store.delay_seconds = 6.5  # sent at 2 s
        await asyncio.sleep(6.0)
        store.delay_seconds = 0.0
        await asyncio.sleep(1.25)
        return session.deadline()

    assert run_virtual(main()) == pytest.approx(8.6 + 0.99 * TTL_SECONDS)


@pytest.mark.parametrize(("seconds", "lives"), [(1.5, True), (2.0, False)])
def test_the_default_session_just_outlives_an_election_of_etcd(seconds: float, lives: bool) -> None:
    """etcd is without a leader for about 1.5 s: three halves of its election time, which is its least session, too."""

    async def main() -> bool:
        store, host = FakeKeepAlive(), virtual_host(running_loop(), 1)
        session = KeptSession(host, "s", SESSION_TTL_SECONDS, host.clock.elapsed(), store)
        await asyncio.sleep(60.0)
        store.reachable = False  # just before a keep-alive is due
        await asyncio.sleep(seconds)
        store.reachable = True
        await asyncio.sleep(60.0)
        return session.live()

    assert run_virtual(main()) is lives


def test_an_answer_after_the_deadline_revives_nothing() -> None:
    async def main() -> tuple[float, float]:
        store = FakeKeepAlive()
        session = _session(store)
        await asyncio.sleep(1.5)
        store.delay_seconds = 8.0
        await asyncio.sleep(20.0)
        assert not session.live()
        return session.deadline(), running_loop().time()

    deadline, _ = run_virtual(main())
    assert deadline == pytest.approx(1.0 + 0.99 * TTL_SECONDS)


def test_it_is_lost_at_once_when_the_store_knows_it_no_more() -> None:
    async def main() -> float:
        store = FakeKeepAlive()
        session = _session(store)
        await asyncio.sleep(1.5)
        store.known = False
        await session.lost()
        return running_loop().time()

    assert run_virtual(main()) == 2.0


def test_closing_ends_it_here_and_in_the_store() -> None:
    async def main() -> tuple[list[str], bool]:
        store = FakeKeepAlive()
        session = _session(store)
        await session.close()
        await session.lost()
        return store.ended, session.live()

    assert run_virtual(main()) == (["s"], False)


def test_closing_needs_no_store() -> None:
    async def main() -> bool:
        store = FakeKeepAlive()
        session = _session(store)
        store.reachable = False
        await session.close()
        return session.live()

    assert not run_virtual(main())


def test_work_is_bounded_by_the_session() -> None:
    async def work(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    async def main() -> None:
        store = FakeKeepAlive()
        session = _session(store)
        assert await session.while_live(work(100.0)) == "done"
        store.reachable = False
        with pytest.raises(Fenced, match="session s has ended"):
            await session.while_live(work(100.0))
        assert running_loop().time() < 110.0

    run_virtual(main())


def test_cancelling_the_waiter_cancels_the_work() -> None:
    async def main() -> bool:
        session = _session(FakeKeepAlive())
        begun = asyncio.Event()
        ended: list[bool] = []

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        waiting = asyncio.ensure_future(session.while_live(work()))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled() and ended == [True]

    assert run_virtual(main())
