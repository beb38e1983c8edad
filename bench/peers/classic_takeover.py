"""A member of a classic Kafka group is killed: how long until the other one has a record of its partitions."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Final

from devmesh.processes.guard import spawn_guarded
from testbed.feeding import fed
from testbed.ground.field import StuckError, now_ms
from testbed.ground.fleet import ROOT

PARTITIONS: Final = 4
SEND_SECONDS: Final = 0.02
WAIT_SECONDS: Final = 60.0


async def taken_over(bootstrap: str, name: str, directory: Path) -> float:
    """Milliseconds from the kill to the survivor's first record, in a group and a topic of that name."""
    async with fed(bootstrap, name, PARTITIONS, SEND_SECONDS):
        return await _kill_one(bootstrap, name, directory)


async def _kill_one(bootstrap: str, name: str, directory: Path) -> float:
    outputs = [directory / f"{name}.{number}" for number in range(2)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    members = [
        spawn_guarded(
            [sys.executable, "-m", "bench.peers.classic_member", bootstrap, name, name, str(output)],
            directory / f"{name}.out",
            environment,
        )
        for output in outputs
    ]
    try:
        worked = await _shared(outputs)
        at = now_ms()
        members[0].kill()
        return await _first(outputs[1], worked, at) - at
    finally:
        for member in members:
            member.kill()
            member.wait()


async def _shared(outputs: list[Path]) -> set[int]:
    """Waits until both members work on partitions of their own just now; returns the first one's."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        mine, other = ({partition for partition, ms in _lines(each) if ms > now_ms() - 400} for each in outputs)
        if mine and other and not mine & other and len(mine | other) == PARTITIONS:
            return mine
    raise StuckError("the classic group never shared its partitions")


async def _first(output: Path, partitions: set[int], since_ms: int) -> int:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = [ms for partition, ms in _lines(output) if partition in partitions and ms >= since_ms]
        if found:
            return min(found)
        await asyncio.sleep(0.02)
    raise StuckError("the classic group never went on")


def _lines(output: Path) -> list[tuple[int, int]]:
    if not output.exists():
        return []
    whole = output.read_text().rpartition("\n")[0]
    return [(int(partition), int(ms)) for partition, ms in (line.split() for line in whole.splitlines())]
