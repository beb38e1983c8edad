"""Placement by load on real processes: steady load moves nothing, a hog on a core does, a leader change does not.

How fast handlers are is the machine's affair, and moves by load follow from it. So what is judged of a figure is judged
on a machine that gave its time and was not full; always judged is that nothing moves for any other reason. Ten minutes
of it plays `python -m bench.steady`.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
import pytest

import braid
from braid.kernel.limits.assigner.placement import LOAD_SETTLE_SECONDS
from devmesh.mesh import DevMesh
from testbed.members.loaded_group import HOG_PART_MIN, MEMBERS, Hog, LoadedGroup, loaded_group, reasons
from testbed.patience import Deadline
from tests.support.grounds import wait_healthy
from tests.support.judging import judge
from tests.support.leading import leader

STEADY_SECONDS: Final = 10.0
SHIFT_SECONDS: Final = 15.0
AFTER_SECONDS: Final = 8.0  # with a leader; it measures for longer before it moves what need not move
SHARE_MIN: Final = 0.9  # of the machine's time; below it, handlers take longer for somebody else's work
IDLE_MIN: Final = 0.1  # of the machine; below it, others compute beside the members

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture
def local(one_cluster: DevMesh) -> DevMesh:
    """One cluster, one registry, two assigners; all healthy."""
    wait_healthy(one_cluster)
    return one_cluster


async def test_load_decides_and_a_new_leader_moves_nothing(
    local: DevMesh, tmp_path: Path, try_name: Callable[[str], str]
) -> None:
    async with (
        braid.connect(local.ready.endpoint) as mesh,
        loaded_group(mesh, tmp_path / try_name("run"), local.ready.endpoint, try_name("loaded")) as group,
    ):
        await asyncio.sleep(LOAD_SETTLE_SECONDS)
        await left_alone(group, mesh)
        async with group.hogged("web-0") as hog:
            await shifted(group, mesh, hog)
            await another_leads(group, mesh, local)


async def left_alone(group: LoadedGroup, mesh: braid.Mesh) -> None:
    """Steady load moves nothing."""
    before, given = holdings(group), Deadline(STEADY_SECONDS)
    idle, began = psutil.cpu_times().idle, time.monotonic()
    await asyncio.sleep(STEADY_SECONDS)
    free = (psutil.cpu_times().idle - idle) / (time.monotonic() - began) / (psutil.cpu_count() or 1)
    print(f"steady load moved {moved(group, before)}, {given.share:.0%} given, {free:.0%} idle")
    share = given.share if free >= IDLE_MIN else 0.0
    judge(not moved(group, before), share, SHARE_MIN, f"steady load moved {moved(group, before)}")
    await only_by_load(group, mesh, before)


async def shifted(group: LoadedGroup, mesh: braid.Mesh, hog: Hog) -> None:
    """Half of the first member's core is gone: some of what it holds goes to the other, and the history says why."""
    before, given = holdings(group), Deadline(SHIFT_SECONDS)
    took = await group.until(lambda: group.holds_less("web-0", before["web-0"]) or given.passed, 2 * SHIFT_SECONDS)
    print(f"a hog moved {moved(group, before)} after {took:.1f} s, {given.share:.0%} given, {hog.part:.0%} its")
    share = given.share if hog.part >= HOG_PART_MIN else 0.0
    judge(group.holds_less("web-0", before["web-0"]), share, SHARE_MIN, f"a hog moved nothing in {took:.1f} s")
    await only_by_load(group, mesh, before)


async def another_leads(group: LoadedGroup, mesh: braid.Mesh, local: DevMesh) -> None:
    """The leader is killed; the next one, which has not measured yet, leaves all where it is."""
    killed, before = await leader(mesh), holdings(group)
    await local.kill(killed)
    try:
        await leader(mesh, other_than=killed)
        await asyncio.sleep(AFTER_SECONDS)
        print(f"a leader change moved {moved(group, before)}")
        await only_by_load(group, mesh, before)
    finally:
        await local.start(killed)


def holdings(group: LoadedGroup) -> dict[str, set[str]]:
    """The leases of each member."""
    return {name: group.held(name) for name in MEMBERS}


def moved(group: LoadedGroup, before: dict[str, set[str]]) -> list[str]:
    """Leases that members held before and no longer hold."""
    return sorted(lease for name in MEMBERS for lease in before[name] - group.held(name))


async def only_by_load(group: LoadedGroup, mesh: braid.Mesh, before: dict[str, set[str]]) -> None:
    """Checks in the history that every later move was made because of measured load."""
    for lease in moved(group, before):
        told = await reasons(mesh, lease)
        assert "balanced by load" in [text for text in told if text.startswith("Revoked from")][-1], told
