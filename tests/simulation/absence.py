"""All members of the group are gone for a while; meanwhile its progress may be reset, as only then is allowed."""

import random
from collections.abc import Callable
from typing import Final

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.errors import BraidError
from tests.simulation.applications import GROUP
from tests.simulation.world import MEMBERS, World

_ASK_SECONDS: Final = 0.15
_ASKED_MAX: Final = 10
_LOOK_SECONDS: Final = 0.002  # less than an answer of the store takes
_LOOKS_MAX: Final = 1_000


def kill_members(world: World) -> None:
    """Kills all members at once, as `kill -9` would."""
    for name in MEMBERS:
        world.kill(name)


def start_members(world: World) -> None:
    """Starts the next life of members that left or died."""
    for name in MEMBERS:
        member = world.running[name].member
        if member is not None and member.leaving:
            world.kill(name)
        world.start_process(name)


def members_leave(world: World) -> None:
    """Lets members finish the records they hold, commit them and leave."""
    for name in MEMBERS:
        running = world.running[name]
        if running.process.alive and running.member is not None and not running.member.leaving:
            running.process.tasks.spawn(running.member.leave(), "leave")


async def move_elsewhere(world: World, dice: random.Random, seconds: float) -> None:
    """The stream moves after a while, to a cluster that does not carry it."""
    await world.host.clock.sleep(seconds)
    carrying = {seen.topic.cluster for seen in world.histories.in_state("active") if seen.id.lane == "live"}
    if others := [each for each in world.plan.clusters if each not in carrying]:
        await world.move(dice.choice(others))


async def move_and_reset(world: World, dice: random.Random, leave: Callable[[], None]) -> None:
    """The stream moves; its group does what is left, leaves, and is reset to the beginning of the old channels.

    Args:
        leave: Ends all members for a while.
    """
    await move_elsewhere(world, dice, 0.0)
    await world.host.clock.sleep(dice.uniform(0.0, 1.2))
    leave()
    world.host.tasks.spawn(_cut_off_when_asked(world, dice), "assigner cut off")
    for _ in range(_ASKED_MAX):
        await world.host.clock.sleep(_ASK_SECONDS)
        request = api.ResetProgressRequest(group=GROUP, to=group_pb2.StartPosition(earliest=True), reason="simulated")
        try:
            await world.assigner.unary("ResetProgress", request, api.ResetProgressResponse)
        except BraidError as error:
            world.journal.say(f"OPERATOR is refused: {error}")
            continue
        return


async def _cut_off_when_asked(world: World, dice: random.Random) -> None:
    """Once the intent is recorded the assigner that leads reaches no cluster for a while: the reset stays pending."""
    before, looks = _resets(world), 0
    while _resets(world) == before and looks < _LOOKS_MAX:
        looks += 1
        await world.host.clock.sleep(_LOOK_SECONDS)
    if (leader := world.leader("assigner")) and _resets(world) > before:
        kafka = world.running[leader].kafka
        for cluster in world.plan.clusters:
            kafka.cut(cluster)
        world.journal.say(f"FAULT {leader} reaches no cluster while a reset is pending")
        await world.host.clock.sleep(dice.uniform(0.0, 6.0))
        for cluster in world.plan.clusters:
            kafka.mend(cluster)


def _resets(world: World) -> int:
    return world.journal.counts.get("ResetAsked", 0)
