"""One partition of eight has no leader, and a producer holds little: what its application notices, on virtual time."""

import asyncio

from braid.api.registry.v1 import cluster_pb2
from braid.client.mesh import Mesh as Application
from braid.client.records.outgoing import Receipt
from braid.kernel.limits.registry.health import (
    CHANNEL_GONE_AFTER_SECONDS,
    PARTITION_GONE_AFTER_SECONDS,
    TOPICS_LOOK_SECONDS,
)
from braid.rpc.memory.transport import MemoryTransport
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.registry.mesh import Mesh

PARTITIONS = 8
HELD = b"x" * 200
BUFFER_BYTES = 4_000  # a dozen of them


async def a_mesh(**health: float) -> Mesh:
    """Two clusters of so many brokers that one of them leads one partition; the stream is on east.

    What the one host that writes there says of the cluster does not count: it would soon complain of all of it.
    """
    mesh = Mesh()
    declared = cluster_pb2.HealthThresholds(sole_witness_seconds=600.0, **health)
    await mesh.start_registry("registry-0")
    await mesh.start_assigner()
    await mesh.create_cluster("east", brokers=PARTITIONS, health=declared)
    await mesh.create_cluster("west", brokers=PARTITIONS)
    stream = await mesh.create_stream(lanes=PARTITIONS, clusters=["east", "west"], replication_factor=1)
    assert mesh.active(stream) == ["east"]
    return mesh


def application(mesh: Mesh) -> Application:
    """An application's process."""
    process = VirtualProcess(running_loop(), "web", 1)
    [replica] = [each for name, each in mesh.replicas.items() if name.startswith("registry")]
    transport = MemoryTransport(mesh.network, "web")
    return Application(process.host, mesh.kafka.process(), transport, [replica.address], "web", "")


async def loaded(mesh: Mesh, seconds: float) -> tuple[list[Receipt], float, int]:
    """Sends a keyed record each 50 ms for so long, while one partition has no leader; three seconds are before that.

    Returns the receipts, the longest time without one, and how many records were refused.
    """
    loop, receipts, longest, refused = asyncio.get_running_loop(), list[Receipt](), 0.0, 0
    async with application(mesh) as web, web.producer("logs", max_buffer_bytes=BUFFER_BYTES) as producer:
        begun = last = loop.time()
        sends: set[asyncio.Task[Receipt]] = set()
        stopped = False
        while loop.time() < begun + seconds:
            if not stopped and loop.time() > begun + 3:
                mesh.kafka.named("east").stop_broker(PARTITIONS)
                stopped = True
            sends.add(asyncio.ensure_future(producer.send(HELD, key=b"%f" % loop.time())))
            await asyncio.sleep(0.05)
            done = {each for each in sends if each.done()}
            sends -= done
            if done:
                longest, last = max(longest, loop.time() - last), loop.time()
            refused += sum(each.exception() is not None for each in done)
            receipts += [each.result() for each in done if each.exception() is None]
        longest = max(longest, loop.time() - last)
        mesh.kafka.named("east").start_broker(PARTITIONS)
        receipts += await asyncio.gather(*sends)
    return receipts, longest, refused


def test_a_leaderless_partition_delays_keys_only_until_it_moves() -> None:
    async def scene() -> None:
        mesh = await a_mesh()
        receipts, longest, refused = await loaded(mesh, 40.0)
        assert refused == 0 and receipts[-1].cluster == "west"
        assert mesh.active(await mesh.stream(), "dlq") == ["east"]  # of which nothing is gone
        assert CHANNEL_GONE_AFTER_SECONDS < longest < PARTITION_GONE_AFTER_SECONDS + 2 * TOPICS_LOOK_SECONDS

    run_virtual(scene())


def test_it_would_hold_them_up_for_as_long_as_it_lasts() -> None:
    """The reason for the rule: without it, and without a way out, every key waits for the one partition."""

    async def scene() -> None:
        receipts, longest, refused = await loaded(await a_mesh(partition_gone_after_seconds=600.0), 40.0)
        assert longest > 30 and refused == 0 and {each.cluster for each in receipts} == {"east"}

    run_virtual(scene())


def test_a_cluster_may_declare_how_long_a_partition_may_be_gone() -> None:
    async def scene() -> None:
        receipts, longest, _ = await loaded(await a_mesh(partition_gone_after_seconds=4.0), 20.0)
        assert receipts[-1].cluster == "west" and longest < 4 + 2 * TOPICS_LOOK_SECONDS

    run_virtual(scene())
