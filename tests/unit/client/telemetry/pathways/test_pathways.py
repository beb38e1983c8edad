"""The SDK follows records over streams: headers carry a pathway on, latencies are true, and each record counts once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from braid.client.producing.outbox import record_bytes
from braid.client.records.batch import Batch
from braid.client.records.outgoing import Outgoing
from braid.client.records.record import Record, Row
from braid.client.telemetry.pathways.consuming import ReceivedPathways
from braid.client.telemetry.pathways.producing import SentPathways
from braid.client.telemetry.pathways.recorder import Measured, Place, Recorder
from braid.kernel.ids import LeaseId
from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_ADDED_BYTES_MAX,
    PATHWAY_HEADER_BYTES_MAX,
    PATHWAY_SENT_PER_S,
    PATHWAY_WAITING_MAX,
)
from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.pathways.header import PATHWAY_HEADER, Context, decode_context, encode_context
from braid.kernel.record_columns import columns_of
from braid.testing import MemoryMesh
from braid.testing.clock import manual_host

SERVICE = "shop"
ORDERS = point_hash(SERVICE, Edge("orders"), 0)
CHECKOUT = point_hash(SERVICE, Edge("orders", "checkout"), ORDERS)


class FollowedMesh(MemoryMesh):
    """A mesh in memory that follows pathways, as one process."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder(SERVICE)
        self.follow(yes=True)
        for stream in ("orders", "payments"):
            self.create_stream(stream)

    def follow(self, *, yes: bool) -> None:
        """Whether producers and consumers that are opened from now on follow pathways."""
        self._recorder = self.recorder if yes else None

    def pathways(self, stream: str) -> list[Context | None]:
        """The pathway of each record of a stream; None without one."""
        headers = [dict(record.headers).get(PATHWAY_HEADER) for record in self.records(stream)]
        return [None if each is None else decode_context(each, self.clock.now_ms()) for each in headers]


@pytest.fixture
def mesh() -> FollowedMesh:
    """The mesh of a test."""
    return FollowedMesh()


def by_edge(measured: Mapping[Place, Measured]) -> dict[Edge, list[tuple[int, list[float], list[float]]]]:
    """By edge: parents with the medians of full and edge latency."""
    found: dict[Edge, list[tuple[int, list[float], list[float]]]] = {}
    for (edge, parent), (full, own) in measured.items():
        found.setdefault(edge, []).append((parent, full.quantiles(0.5), own.quantiles(0.5)))
    return found


async def run_until(
    mesh: FollowedMesh, handler: Callable[[Record], Awaitable[None]], enough: Callable[[], bool]
) -> None:
    """Runs a handler of group `checkout` until something is true."""
    async with mesh.consumer(["orders"], group="checkout") as consumer:
        running = asyncio.create_task(consumer.run(handler))
        for _ in range(100):
            await mesh.advance(0.05)
            if enough():
                break
    await running


async def test_a_handler_carries_the_pathway_on(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders, mesh.producer("payments") as payments:
        await orders.send(b"one")
        await mesh.advance(3.0)

        async def handle(record: Record) -> None:
            await mesh.clock.sleep(0.2)
            await payments.send(b"paid")

        await run_until(mesh, handle, lambda: bool(mesh.records("payments")))
    (first,), (second,) = mesh.pathways("orders"), mesh.pathways("payments")
    assert first is not None and second is not None
    assert first.hash == ORDERS
    assert second.hash == point_hash(SERVICE, Edge("payments"), CHECKOUT)
    assert second.began_ms == first.began_ms
    found = by_edge(mesh.recorder.take())
    assert found[Edge("orders")] == [(0, [0.0], [0.0])]
    ((parent, full, edge),) = found[Edge("orders", "checkout")]
    assert parent == ORDERS and full == edge and 2_970 <= edge[0] <= 3_130
    ((parent, full, edge),) = found[Edge("payments")]
    assert parent == CHECKOUT and 198 <= edge[0] <= 260 and 3_160 <= full[0] <= 3_400


async def test_time_in_the_queue_is_in_the_latency(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders:
        await orders.send_many([Outgoing(b"%d" % n) for n in range(4)])
        handled: list[bytes | None] = []

        async def handle(record: Record) -> None:
            await mesh.clock.sleep(1.0)
            handled.append(record.value)

        async with mesh.consumer(["orders"], group="checkout", concurrency=1) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await mesh.advance(4.5)
        await running
    measured = mesh.recorder.take()[Place(Edge("orders", "checkout"), ORDERS)]
    low, high = measured.edge.quantiles(0.0, 1.0)
    assert handled == [b"0", b"1", b"2", b"3"]
    assert low < 100 and 2_970 <= high <= 3_130, (low, high)


async def test_every_record_counts_though_few_are_measured(mesh: FollowedMesh) -> None:
    count = 3_000
    async with mesh.producer("orders") as orders:
        await orders.send_many([Outgoing(b"%d" % n) for n in range(count)])
        seen: list[int] = []
        async with mesh.consumer(["orders"], group="checkout") as consumer:
            async for record in consumer:
                record.ack()
                seen.append(record.offset)
                if len(seen) == count:
                    break
    assert seen == sorted(seen)
    stamped = [each for each in mesh.pathways("orders") if each is not None]
    assert len(stamped) <= 12 * PATHWAY_SENT_PER_S
    measured = mesh.recorder.take()
    for place in (Place(Edge("orders"), 0), Place(Edge("orders", "checkout"), ORDERS)):
        assert 0.6 * count < measured[place].edge.count < 1.6 * count


async def test_batches_measure_each_sampled_record_once(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders, mesh.producer("payments") as payments:
        await orders.send_many([Outgoing(b"%d" % n) for n in range(8)])
        sizes: list[int] = []

        async def handle(batch: Batch) -> None:
            sizes.append(len(batch))
            await payments.send_many([Outgoing(b"") for _ in range(2 * len(batch))])

        async with mesh.consumer(["orders"], group="checkout") as consumer:
            running = asyncio.create_task(consumer.run_batches(handle))
            await mesh.advance(1.0)
        await running
    measured = mesh.recorder.take()
    assert sum(sizes) == 8 and len(sizes) < 5, "batches are not cut"
    assert measured[Place(Edge("orders", "checkout"), ORDERS)].edge.count == 8
    assert measured[Place(Edge("payments"), CHECKOUT)].edge.count == 8
    assert sum(each is not None for each in mesh.pathways("payments")) == 8


async def test_an_unsampled_record_begins_no_pathway(mesh: FollowedMesh) -> None:
    mesh.follow(yes=False)
    async with mesh.producer("orders") as orders:
        await orders.send(b"without")
    mesh.follow(yes=True)
    async with mesh.producer("payments") as payments:

        async def handle(record: Record) -> None:
            await payments.send(b"paid")

        await run_until(mesh, handle, lambda: bool(mesh.records("payments")))
    assert mesh.pathways("payments") == [None]
    assert not mesh.recorder.take()


async def test_work_outside_run_continues_within_processing(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders, mesh.producer("payments") as payments:
        await orders.send(b"one")
        async with mesh.consumer(["orders"], group="checkout") as consumer:
            record = await consumer.take(5.0)
            assert record is not None
            with consumer.processing(record):
                await payments.send(b"paid")
            await payments.send(b"of its own")
            record.ack()
    hashes = [each.hash for each in mesh.pathways("payments") if each is not None]
    assert hashes == [point_hash(SERVICE, Edge("payments"), CHECKOUT), point_hash(SERVICE, Edge("payments"), 0)]


async def test_a_forwarded_header_is_replaced(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders, mesh.producer("payments") as payments:
        await orders.send(b"one")

        async def handle(record: Record) -> None:
            await payments.send(record.value, headers={PATHWAY_HEADER: record.headers[PATHWAY_HEADER]})

        await run_until(mesh, handle, lambda: bool(mesh.records("payments")))
    (record,) = mesh.records("payments")
    assert [name for name, _ in record.headers].count(PATHWAY_HEADER) == 1
    (context,) = mesh.pathways("payments")
    assert context is not None and context.hash == point_hash(SERVICE, Edge("payments"), CHECKOUT)


@pytest.mark.parametrize(
    "header",
    [b"", b"?", b"AAAA", b"A" * PATHWAY_HEADER_BYTES_MAX, b"x" * 100_000, encode_context(Context(7, 1, 1 << 50))[:-5]],
)
async def test_garbage_is_counted_and_its_record_handled(mesh: FollowedMesh, header: bytes) -> None:
    mesh.follow(yes=False)
    async with mesh.producer("orders") as orders:
        await orders.send(b"one", headers={PATHWAY_HEADER: header})
    mesh.follow(yes=True)
    seen: list[bytes | None] = []

    async def handle(record: Record) -> None:
        seen.append(record.value)

    await run_until(mesh, handle, lambda: bool(seen))
    assert seen == [b"one"]
    assert not mesh.recorder.take()
    assert mesh.recorder.counts.garbage == (1 if header else 0), "an empty header says nothing"


async def test_a_retried_record_counts_once(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders:
        await orders.send(b"one")
        seen: list[int] = []

        async def handle(record: Record) -> None:
            seen.append(record.attempt)
            if len(seen) < 3:
                record.retry()

        await run_until(mesh, handle, lambda: len(seen) == 3)
    assert mesh.recorder.take()[Place(Edge("orders", "checkout"), ORDERS)].edge.count == 1


async def test_ordered_records_are_measured_at_their_turn(mesh: FollowedMesh) -> None:
    async with mesh.producer("orders") as orders:
        await orders.send_many([Outgoing(b"%d" % n, b"key") for n in range(4)])

        async def handle(record: Record) -> None:
            await mesh.clock.sleep(1.0)

        async with mesh.consumer(["orders"], group="checkout", ordering="key") as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await mesh.advance(4.5)
        await running
    measured = mesh.recorder.take()[Place(Edge("orders", "checkout"), ORDERS)]
    assert measured.edge.count == 4
    assert 2_970 <= measured.edge.quantiles(1.0)[0] <= 3_130


def test_no_record_grows_beyond_its_bound() -> None:
    recorder = Recorder(SERVICE)
    sent = SentPathways(recorder, "orders", "producer")
    headers: list[tuple[str, bytes]] = []
    assert not sent.stamp(headers, 1, 1_790_000_000_000, PATHWAY_ADDED_BYTES_MAX - 1)
    assert (headers, recorder.counts.left_out) == ([], 1)
    assert sent.stamp(headers, 2, 1_790_000_000_000, PATHWAY_ADDED_BYTES_MAX)
    assert record_bytes(None, None, headers) <= PATHWAY_ADDED_BYTES_MAX


async def test_waiting_pathways_are_bounded_and_counted(mesh: FollowedMesh) -> None:
    received = ReceivedPathways(mesh.recorder, manual_host(mesh.clock, "one")[0], "checkout")
    names = received.asked(())
    make = received.of_lease(LeaseId.parse("orders/live/1/0"))
    assert make is not None
    cursor, header = make(), encode_context(Context(7, mesh.clock.now_ms(), mesh.clock.now_ms()))
    for offset in range(2 * PATHWAY_WAITING_MAX):
        await mesh.advance(0.05)
        row = Row(offset, 0, 0, None, b"", ((PATHWAY_HEADER, header),), 0, 0)
        cursor.fetched(columns_of([row], names))
    assert list(cursor.waiting) == list(range(PATHWAY_WAITING_MAX))
    assert mesh.recorder.counts.left_out == PATHWAY_WAITING_MAX


def test_dead_letters_have_no_pathway(mesh: FollowedMesh) -> None:
    received = ReceivedPathways(mesh.recorder, manual_host(mesh.clock, "one")[0], "checkout")
    assert received.of_lease(LeaseId.parse("orders/dlq/1/0")) is None
