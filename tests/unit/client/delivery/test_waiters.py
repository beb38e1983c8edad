"""A new record wakes the right waiter, and no waiter's turn is lost."""

import asyncio

from braid.client.delivery.waiters import Waiters
from tests.support.scripted_control import virtual


class Room:
    """Tasks that wait, by name, and who of them was woken."""

    def __init__(self) -> None:
        self.waiters = Waiters()
        self.woken: list[str] = []
        self.passed_on = 0

    async def enter(self, name: str, lane: str = "") -> "asyncio.Task[None]":
        """One more waits."""

        async def wait() -> None:
            await self.waiters.wait(lane, self.pass_on)
            self.woken.append(name)

        task = asyncio.get_running_loop().create_task(wait())
        await asyncio.sleep(0)
        return task

    def pass_on(self) -> None:
        """Somebody was woken in vain."""
        self.passed_on += 1
        self.waiters.wake()


@virtual
async def test_a_record_wakes_first_who_takes_no_other_lane() -> None:
    room = Room()
    for name, lane in (("any", ""), ("bulk", "bulk"), ("live", "live")):
        await room.enter(name, lane)
    room.waiters.wake("live")
    await asyncio.sleep(0)
    assert room.woken == ["live"]
    room.waiters.wake("live")
    await asyncio.sleep(0)
    assert room.woken == ["live", "any"]
    room.waiters.wake("live")
    await asyncio.sleep(0)
    assert room.woken == ["live", "any"], "a handler of another lane sleeps on"
    room.waiters.wake_all()
    await asyncio.sleep(0)
    assert room.woken == ["live", "any", "bulk"]


@virtual
async def test_several_records_wake_as_many_and_no_more() -> None:
    room = Room()
    await room.enter("first")
    await room.enter("second")
    await room.enter("third")
    await room.enter("live", "live")
    room.waiters.wake("live", 3)
    await asyncio.sleep(0)
    assert sorted(room.woken) == ["first", "live", "second"]
    assert room.waiters.of_any_lane
    room.waiters.wake("live", 3)
    await asyncio.sleep(0)
    assert room.woken[-1] == "third"
    assert not room.waiters.of_any_lane


@virtual
async def test_who_is_cancelled_while_waiting_is_not_woken() -> None:
    room = Room()
    gone, _ = await room.enter("gone"), await room.enter("there")
    gone.cancel()
    await asyncio.sleep(0)
    room.waiters.wake()
    await asyncio.sleep(0)
    assert (room.woken, room.passed_on, room.waiters.of_any_lane) == (["there"], 0, False)


@virtual
async def test_who_is_cancelled_once_woken_passes_its_turn_on() -> None:
    room = Room()
    woken, _ = await room.enter("woken"), await room.enter("there")
    room.waiters.wake()
    woken.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (room.woken, room.passed_on) == (["there"], 1)
