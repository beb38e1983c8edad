"""Groups that decide for a common cause: a few at a time, each once, and none of them keeps the others."""

import asyncio
from collections.abc import Sequence
from typing import Final, cast

from braid.host.system import SystemTasks
from braid.kernel.limits.assigner.leases import GROUPS_AT_ONCE
from services.assigner.reconciler.group_loop import GroupKeeper
from services.assigner.reconciler.group_queue import GroupQueue

NAMES: Final = [f"g{number:03d}" for number in range(5 * GROUPS_AT_ONCE)]


class Keeper:
    """Stands in for a group's loop: notes what woke it, and ends its attempt when the test says so."""

    def __init__(self) -> None:
        self.attempt = asyncio.Event()
        self.causes: list[tuple[str, str]] = []

    def poke(self, cause: str, trace: str = "") -> None:
        self.causes.append((cause, trace))

    def end(self) -> None:
        ended, self.attempt = self.attempt, asyncio.Event()
        ended.set()


class Groups:
    """A queue over stand-ins, and which of them were woken."""

    def __init__(self) -> None:
        self.keepers: dict[str, Keeper] = {}
        self.queue = GroupQueue(SystemTasks(None), self._keeper)

    def _keeper(self, name: str) -> GroupKeeper:
        return cast("GroupKeeper", self.keepers.setdefault(name, Keeper()))

    @property
    def woken(self) -> Sequence[str]:
        """In order."""
        return list(self.keepers)


async def passed() -> None:
    """Lets tasks go on until they wait again."""
    for _ in range(GROUPS_AT_ONCE + 5):
        await asyncio.sleep(0)


def test_a_few_decide_at_once_and_the_next_ones_after_them() -> None:
    async def scenario() -> None:
        groups = Groups()
        groups.queue.add(NAMES, "a new term", "trace")
        await passed()
        assert groups.woken == NAMES[:GROUPS_AT_ONCE]
        for name in NAMES[1:GROUPS_AT_ONCE]:
            groups.keepers[name].end()
        await passed()
        assert len(groups.woken) == GROUPS_AT_ONCE, "one of them still decides"
        groups.keepers[NAMES[0]].end()
        await passed()
        assert groups.woken == NAMES[: 2 * GROUPS_AT_ONCE]
        assert {each for keeper in groups.keepers.values() for each in keeper.causes} == {("a new term", "trace")}

    asyncio.run(scenario())


def test_every_group_decides_once_however_often_it_is_named() -> None:
    async def scenario() -> None:
        groups = Groups()
        groups.queue.add(NAMES, "a new term")
        groups.queue.add(NAMES[10:20], "a channel")
        await ended(groups)
        assert groups.woken == NAMES
        assert all(len(keeper.causes) == 1 for keeper in groups.keepers.values())
        assert groups.keepers[NAMES[10]].causes == [("a channel", "")]
        groups.queue.add(NAMES[:1], "later")
        await ended(groups)
        assert groups.keepers[NAMES[0]].causes == [("a new term", ""), ("later", "")]

    asyncio.run(scenario())


async def ended(groups: Groups) -> None:
    """Ends attempts until nothing is woken any more."""
    before = -1
    while before != (before := sum(len(each.causes) for each in groups.keepers.values())) or not before:
        await passed()
        for keeper in groups.keepers.values():
            keeper.end()
        await passed()


def test_no_group_is_woken_after_the_term() -> None:
    async def scenario() -> None:
        groups = Groups()
        groups.queue.add(NAMES, "a new term")
        await passed()
        groups.queue.stop()
        for keeper in groups.keepers.values():
            keeper.end()
        await passed()
        assert groups.woken == NAMES[:GROUPS_AT_ONCE]

    asyncio.run(scenario())
