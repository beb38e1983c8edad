"""The synchronous facade over a mesh in memory: threads in front, one event loop behind."""

import asyncio
import threading
import time

import pytest

import braid
import braid.sync
from braid.testing import MemoryMesh


def memory() -> MemoryMesh:
    """A mesh with one stream."""
    made = MemoryMesh()
    made.create_stream("logs", {"live": 2})
    return made


def test_send_and_consume_by_hand() -> None:
    with braid.sync.Mesh(memory) as mesh, mesh.producer("logs") as producer:
        receipt = producer.send(b"0", key=b"k")
        assert receipt.cluster == "east"
        producer.send_many(braid.Outgoing(b"%d" % n) for n in range(1, 100))
        producer.flush()
        with mesh.consumer(["logs"], group="g") as consumer:
            values = set()
            for record in consumer:
                values.add(record.value)
                record.ack()
                if len(values) == 100:
                    break
            consumer.commit()
            assert sum(lease.base for lease in consumer.leases()) == 100
            assert set(consumer.lag().values()) == {0.0}
        with mesh.consumer(["logs"], group="g") as consumer:
            assert consumer.take(0.1) is None


def test_run_calls_ordinary_functions_in_threads_until_closed() -> None:
    seen: list[bytes | None] = []
    threads: set[str] = set()

    def handle(record: braid.sync.Record) -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.001)
        if record.value == b"7":
            record.reject("seven")
        seen.append(record.value)

    with braid.sync.Mesh(memory) as mesh, mesh.producer("logs") as producer:
        with mesh.consumer(["logs"], group="g", concurrency=4) as consumer:
            running = threading.Thread(target=consumer.run, args=(handle,))
            running.start()
            producer.send_many(braid.Outgoing(b"%d" % n) for n in range(50))
            deadline = time.monotonic() + 60
            while len(seen) < 50 and time.monotonic() < deadline:
                time.sleep(0.005)
        running.join(10)
        assert not running.is_alive()
    assert len(seen) == 50
    assert all(name.startswith("braid-handler") for name in threads)


def test_a_record_the_handler_settled_is_not_acknowledged_again() -> None:
    seen: list[bytes | None] = []

    def handle(record: braid.sync.Record) -> None:
        seen.append(record.value)
        if record.value == b"not now":
            record.retry(after_seconds=60.0)

    with braid.sync.Mesh(memory) as mesh, mesh.producer("logs") as producer:
        with mesh.consumer(["logs"], group="g", concurrency=1) as consumer:
            running = threading.Thread(target=consumer.run, args=(handle,))
            running.start()
            for value in (b"not now", b"beside it"):
                producer.send(value, key=b"k")
            deadline = time.monotonic() + 60
            while len(seen) < 2 and time.monotonic() < deadline:  # one slot: the first has returned by then
                time.sleep(0.005)
            assert seen == [b"not now", b"beside it"]
            assert sum(each.parked for each in consumer.explain()) == 1
            assert sum(lease.base for lease in consumer.leases()) == 0
        running.join(10)


def test_batches_are_handled_in_threads_and_settled_there() -> None:
    seen: list[int] = []
    left: list[bytes | None] = []

    def handle(batch: braid.Batch) -> None:
        values = batch.records["value"].to_pylist()
        if len(values) == 1:
            seen.append(int(values[0]))
            return
        with pytest.raises(braid.Invalid, match="mask"):
            batch.ack([True])
        batch.ack([int(value) % 2 == 0 for value in values])
        seen.extend(int(value) for value in values if int(value) % 2 == 0)
        first, *rest = batch.unsettled()
        left.append(first.value)
        first.reject("the first odd one")
        for record in rest:
            record.retry()

    with braid.sync.Mesh(memory) as mesh, mesh.producer("logs") as producer:
        producer.send_many(braid.Outgoing(b"%d" % n, key=b"k") for n in range(50))
        with mesh.consumer(["logs"], group="g", concurrency=2) as consumer:
            running = threading.Thread(target=consumer.run_batches, args=(handle,))
            running.start()
            deadline = time.monotonic() + 60
            while (len(seen) < 25 or not left) and time.monotonic() < deadline:
                time.sleep(0.005)
            assert set(range(0, 50, 2)) <= set(seen)
            assert left == [b"1"]
        running.join(10)
        assert not running.is_alive()


def test_a_time_out_reaches_a_thread_through_its_record() -> None:
    """The clock of the mesh is moved by hand; the thread is real."""
    mesh = memory()
    stuck, left = threading.Event(), threading.Event()
    attempts: list[int] = []

    def handle(record: braid.Record) -> None:
        attempts.append(record.attempt)
        if len(attempts) == 1:
            stuck.set()
            while not record.settled:
                time.sleep(0.001)
            left.set()

    async def scenario() -> None:
        retry = braid.Retry(backoff_seconds=(1.0, 1.0))
        async with (
            mesh.producer("logs") as producer,
            mesh.consumer(["logs"], group="g", retry=retry, handler_timeout_seconds=5.0, concurrency=2) as consumer,
        ):
            running = asyncio.ensure_future(consumer.run(handle))
            await producer.send(b"x")
            async with asyncio.timeout(60):
                while sum(lease.base for lease in consumer.leases()) < 1 or not left.is_set():
                    await mesh.advance(1.0)
                    await asyncio.sleep(0.001)
        await running

    asyncio.run(scenario())
    assert attempts == [1, 2]


def test_errors_arrive_where_the_call_was_made() -> None:
    with braid.sync.Mesh(memory) as mesh:
        with pytest.raises(braid.NotFound, match="'other'"), mesh.producer("other"):
            pass
        with pytest.raises(braid.Invalid, match="streams"), mesh.consumer("logs", group="g"):
            pass
    with pytest.raises(braid.Invalid, match="host:port"), braid.sync.connect("nonsense"):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "braid"]


def test_what_is_left_on_the_loop_is_cancelled_before_it_ends() -> None:
    ended: list[str] = []

    async def hang_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("hung up")

    kept: list[asyncio.Task[None]] = []
    thread = braid.sync.LoopThread()
    thread.tell(lambda: kept.append(asyncio.ensure_future(hang_up())))
    thread.stop()
    assert ended == ["hung up"]
