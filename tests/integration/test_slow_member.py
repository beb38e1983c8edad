"""A member ten times slower than the others, on real processes: its leases leave, and return when it has recovered."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.kernel.limits.assigner.placement import LOAD_SETTLE_SECONDS
from devmesh.mesh import DevMesh
from testbed.members.slowed_group import EVEN, MEMBERS, SLOW, TARGET_SECONDS, SlowedGroup, slowed_group
from testbed.patience import Deadline, until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy
from tests.support.judging import judge

SHRINK_SECONDS: Final = 15.0
SHARE_MIN: Final = 0.9  # of the machine's time; below it, all members are slow
CAUGHT_UP_SECONDS: Final = 60.0  # for what had queued up meanwhile: a wait's end, and no figure
RECOVERED_SECONDS: Final = 240.0  # likewise, for 10 s of calm and some measuring; 100 on a machine that is full
POLICY: Final = "leave-slow-members automatic --cooldown 5s --undo-after 10s"

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and all services; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


@pytest.mark.extended
async def test_leases_leave_a_slow_member_and_return(
    local: DevMesh, tmp_path: Path, try_name: Callable[[str], str]
) -> None:
    name, endpoint = try_name("slowed"), local.ready.endpoint
    async with (
        braid.connect(endpoint) as mesh,
        slowed_group(mesh, tmp_path / name, endpoint, name) as group,
    ):
        await printed(local, f"set responses {name} {POLICY}")
        await asyncio.sleep(LOAD_SETTLE_SECONDS)
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        group.slow_down()
        await shrunk(group)
        took = await until_lag(group, TARGET_SECONDS)
        print(f"the group was within its target again {took:.1f} s later")
        await asyncio.sleep(SHRINK_SECONDS)
        lag = await group.lag()
        assert lag is not None and lag <= TARGET_SECONDS, "it stays there while the member is slow"
        group.recover()
        took = await until(lambda: group.held(SLOW) >= EVEN - 1, lambda: str(group), RECOVERED_SECONDS)
        print(f"{group} {took:.1f} s after it had recovered")
        print(await printed(local, f"events --for group/{name}"))
        assert await answers(local, name) == ["ResponseTaken", "ResponseUndone"]
        assert group.least(SLOW, began) >= 1, group.counts(SLOW)
        assert all(group.least(each, began) > EVEN / 2 for each in MEMBERS if each != SLOW), "no other was left"


async def shrunk(group: SlowedGroup) -> None:
    """The slow member holds one lease, soon enough."""
    given = Deadline(SHRINK_SECONDS)
    took = await until(
        lambda: group.held(SLOW) < EVEN / 2 or given.passed, lambda: str(group), 2 * SHRINK_SECONDS, poll=0.1
    )
    print(f"{group} {took:.1f} s after it had become slow, {given.share:.0%} given")
    judge(group.held(SLOW) < EVEN / 2, given.share, SHARE_MIN, f"{group} after {took:.1f} s")


async def until_lag(group: SlowedGroup, most: float) -> float:
    """Waits until the group's lag is no more; returns the seconds that it took."""
    found: list[float | None] = [None]

    async def look() -> bool:
        found[0] = await group.lag()
        return found[0] is not None and found[0] <= most

    return await until(look, lambda: f"it is {found[0]} s behind", CAUGHT_UP_SECONDS, poll=0.2)


async def answers(local: DevMesh, group: str) -> list[str]:
    """The responses in a group's history, in order."""
    told = await printed(local, f"events --for group/{group}")
    return [word for line in told.splitlines() for word in line.split() if word in ("ResponseTaken", "ResponseUndone")]
