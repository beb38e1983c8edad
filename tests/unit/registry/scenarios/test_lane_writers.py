"""A producer that writes to some lanes only dies: which losses have an end that somebody knows, and which have none."""

from collections.abc import Sequence

from braid.api.registry.v1.stream_pb2 import FAILOVER_MODE_AUTOMATIC
from braid.kernel.offset_ranges import OPEN
from tests.unit.registry.mesh import Mesh, open_producer
from tests.unit.registry.scenarios.returning_without import CHANNEL, filled, is_lost, leave, named, play

LETTERS, LETTERS_TOPIC = "logs/dlq/1", "braid.logs.dlq.1"


async def member_dies(mesh: Mesh, lanes: Sequence[str]) -> None:
    """A producer of dead letters stops with its member; its cluster dies and comes back empty."""
    producer = await filled(mesh, FAILOVER_MODE_AUTOMATIC)
    await mesh.append("east", LETTERS_TOPIC, 0, 3)
    dying = await open_producer(mesh, "letters", lanes=lanes)
    await mesh.until(lambda: bool(dying.routes), 2, "no route")
    east = mesh.kafka.named("east")
    east.kill()
    await leave(mesh, producer)
    await mesh.until_channel(CHANNEL, lambda channel: bool(channel.acknowledged), 60)
    east.empty(replaced=False)
    east.start()
    await mesh.until_channel(CHANNEL, is_lost, 60)
    await mesh.until_channel(LETTERS, is_lost, 60)


def test_a_dead_member_leaves_the_ends_of_other_lanes_known() -> None:
    async def scene(mesh: Mesh) -> None:
        await member_dies(mesh, ["dlq"])
        assert named((await mesh.channel(CHANNEL)).lost) == [(0, 0, 9)]

    play(scene)


def test_a_dead_producer_of_all_lanes_leaves_them_open() -> None:
    """The control; and what members of older releases still bring about."""

    async def scene(mesh: Mesh) -> None:
        await member_dies(mesh, [])
        assert {(first, last) for _, first, last in named((await mesh.channel(CHANNEL)).lost)} == {(0, OPEN)}

    play(scene)


def test_limit_a_dead_member_leaves_its_dlq_lane_s_end_open() -> None:
    """Nobody else knows how many dead letters it had acknowledged: the loss has no end, rather than a wrong one."""

    async def scene(mesh: Mesh) -> None:
        await member_dies(mesh, ["dlq"])
        assert named((await mesh.channel(LETTERS)).lost) == [(0, 0, OPEN)]

    play(scene)
