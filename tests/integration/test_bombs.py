"""Real bombs in real topics: what a broker takes, and what reading it costs."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

import pytest

from braid.kernel.limits.kafka import INFLATED_RECORD_BYTES_MAX
from braid.kernel.ports import DamagedBatch
from devmesh.processes.brokers import KafkaBroker
from testbed.batches import NAMES, bomb, packed, raw_batch, record_bytes, write_raw
from testbed.members import bomb_reader
from testbed.members.bomb_reader import Cost, read_with_a_fetcher
from tests.support import unbounded_reader

ROOT: Final = Path(__file__).parents[2]
LARGEST: Final = (2 << 30) - 200  # inflated: the size of a record is a number of 31 bits
SNAPPY: Final = 160 << 20  # three bytes stand for 64 at most: 2 GiB would lie in 100 MiB; brokers take 1 MiB unasked
SLACK_BYTES: Final = 10 << 20  # twice what `bench.bombs` aims at
STALL_SECONDS: Final = 0.04  # so, too
HONEST_BYTES: Final = 20 << 20
HANGS_SECONDS: Final = 300.0  # by the wall

T = TypeVar("T")

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def honest(codec: int = 0) -> bytes:
    """One small record."""
    return raw_batch(0, 1, packed(codec, record_bytes(0, b"honest")), codec, time_ms=now_ms())


def now_ms() -> int:
    """Brokers refuse records of long ago or of the future."""
    return time.time_ns() // 1_000_000


async def planted(bootstrap: str, topic: str, codec: int, size: int) -> bytes:
    """Writes three honest batches around two bombs, and a topic of honest ones beside it; returns the bomb's batch."""
    large = raw_batch(0, 1, packed(codec, record_bytes(0, bytes(3 << 20))), codec, time_ms=now_ms())
    assert await write_raw(bootstrap, f"warm.{topic}", [honest(codec), large]) == [0, 0]
    fuse = raw_batch(0, 1, bomb(codec, size), codec, time_ms=now_ms())
    assert await write_raw(bootstrap, topic, [honest(), fuse, honest(codec), fuse, honest()]) == [0] * 5
    return fuse


def bound_of(fuse: bytes) -> int:
    """Bytes of memory that reading a bomb may take: the largest record, and beside it what is fetched.

    That is held twice while an answer is taken apart; what is small is not counted.
    """
    fetched = 0 if len(fuse) < 1 << 20 else 4 * len(fuse)
    return INFLATED_RECORD_BYTES_MAX + SLACK_BYTES + fetched


def cost_of(bootstrap: str, topic: str, end: int, reader: ModuleType = bomb_reader) -> Cost:
    """Reads a topic in a process of its own."""
    command = [sys.executable, "-m", reader.__name__, bootstrap, f"warm.{topic}", topic, str(end)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    offsets, damaged, grown, stall = json.loads(done.stdout)
    return Cost(offsets, [DamagedBatch(*each) for each in damaged], grown, stall)


def costs_of(bootstrap: str, topic: str, end: int) -> list[Cost]:
    """Reads until nothing stalls, three times at most: what stalls by itself does so every time."""
    costs = [cost_of(bootstrap, topic, end)]
    while costs[-1].stall_seconds > STALL_SECONDS and len(costs) < 3:
        costs.append(cost_of(bootstrap, topic, end))
    return costs


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        pytest.param(4, LARGEST, id="zstd"),
        *(pytest.param(codec, LARGEST, id=NAMES[codec], marks=pytest.mark.extended) for codec in (1, 3)),
        pytest.param(2, SNAPPY, id="snappy", marks=pytest.mark.extended),
    ],
)
async def test_a_bomb_costs_no_more_than_its_bound(broker: KafkaBroker, codec: int, size: int) -> None:
    topic = f"bomb.{NAMES[codec]}"
    fuse = await planted(broker.bootstrap, topic, codec, size)
    costs = await asyncio.to_thread(costs_of, broker.bootstrap, topic, 5)
    cost = costs[-1]
    sys.stdout.write(
        f"\n{NAMES[codec]}: {len(fuse):,} bytes of {size:,}: memory +{cost.grown_bytes / 2**20:.1f} MiB, "
        f"longest stalls {[round(each.stall_seconds * 1_000, 1) for each in costs]} ms\n"
    )
    assert cost.offsets == [0, 2, 4]
    assert [(each.first_offset, each.last_offset, each.attributes) for each in cost.damaged] == [
        (1, 1, codec),
        (3, 3, codec),
    ]
    assert all(each.why.startswith("bomb:") for each in cost.damaged)
    assert max(each.grown_bytes for each in costs) <= bound_of(fuse)
    assert cost.stall_seconds <= STALL_SECONDS


@pytest.mark.untimed  # of memory alone
async def test_without_a_bound_it_would_cost_what_it_inflates_to(broker: KafkaBroker) -> None:
    """The control for what the test before says of memory."""
    fuse = await planted(broker.bootstrap, "unbound", 2, SNAPPY)
    cost = await asyncio.to_thread(cost_of, broker.bootstrap, "unbound", 5, unbounded_reader)
    assert cost.offsets == [0, 1, 2, 3, 4]
    assert cost.grown_bytes > bound_of(fuse)


async def test_a_slow_honest_batch_is_inflated_beside_the_loop(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the control: the same on the loop."""
    value = random.Random(7).randbytes(HONEST_BYTES // 2).hex().encode()
    large = raw_batch(0, 1, packed(1, record_bytes(0, value)), 1, time_ms=now_ms())
    assert await write_raw(broker.bootstrap, "honest", [honest(), large, honest()]) == [0] * 3

    async def stall() -> float:
        cost = await read_with_a_fetcher(broker.bootstrap, "honest", 3)
        assert (cost.offsets, cost.damaged) == ([0, 1, 2], [])
        return cost.stall_seconds

    beside = [await stall() for _ in range(3)]
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    on_the_loop = [await stall() for _ in range(3)]
    sys.stdout.write(f"\nlongest stalls {min(beside):.4f} s, on the loop {min(on_the_loop):.4f} s\n")
    assert min(beside) <= STALL_SECONDS < min(on_the_loop), (beside, on_the_loop)


async def at_once(function: Callable[[], T]) -> T:
    """In place of `asyncio.to_thread`."""
    return function()


@pytest.mark.untimed
async def test_what_else_a_broker_takes_is_told_and_passed(broker: KafkaBroker) -> None:
    """A broker looks into batches and refuses most nonsense; this it stores."""
    flood = record_bytes(0, bytes(1 << 20), [(b"", b"")] * 400_000)
    batches = {
        "out of order": raw_batch(0, 2, record_bytes(1, b"v") + record_bytes(0, b"v"), time_ms=now_ms()),
        "headers that are no text": raw_batch(0, 1, record_bytes(0, b"v", [(b"\xff\xfe", b"")]), time_ms=now_ms()),
        "a flood of headers": raw_batch(0, 1, packed(4, flood), 4, time_ms=now_ms()),
        "bytes behind the frame": raw_batch(0, 1, packed(3, record_bytes(0, b"v")) + b"xx", 3, time_ms=now_ms()),
    }
    assert await write_raw(broker.bootstrap, "warm.odd", [honest(), honest()]) == [0, 0]
    mixed = [each for odd in batches.values() for each in (odd, honest())]
    assert await write_raw(broker.bootstrap, "odd", mixed) == [0] * len(mixed)
    cost = await asyncio.to_thread(cost_of, broker.bootstrap, "odd", 9)
    assert cost.offsets == [2, 4, 6, 8]
    assert [(each.first_offset, each.last_offset) for each in cost.damaged] == [(0, 1), (3, 3), (5, 5), (7, 7)]


@pytest.mark.untimed
@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("garbage in zstd", raw_batch(0, 1, b"garbage", 4, time_ms=1)),
        ("more records than there are", raw_batch(0, 1_000, record_bytes(0, b"v"), time_ms=1)),
        ("a wrong checksum", raw_batch(0, 1, record_bytes(0, b"v"), time_ms=1)[:-1] + b"\x01"),
        ("codec 5", raw_batch(0, 1, record_bytes(0, b"v"), 5, time_ms=1)),
    ],
)
async def test_what_a_broker_refuses_by_itself(broker: KafkaBroker, what: str, data: bytes) -> None:
    topic = f"refused.{what.replace(' ', '-')}"
    assert await write_raw(broker.bootstrap, topic, [data]) != [0]
