"""Lag is answered and the answer undone in a real mesh: Kafka, services and members, read by the `braid` command."""

import time
from collections.abc import Callable
from typing import Final

import pytest

from devmesh.mesh import DevMesh
from testbed.members.answering_group import FLOOD, TARGET_SECONDS, AnsweringGroups, answering_groups
from testbed.patience import until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy

WITHIN_SECONDS: Final = 60.0  # for lag that comes back within 15: a wait's end, and no figure
UNDONE_SECONDS: Final = 150.0  # likewise, for what takes 30
POLICY: Final = "shift-shares automatic --cooldown 5s --undo-after 10s"

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and all services; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


async def test_a_flood_is_answered_and_undone(local: DevMesh, try_name: Callable[[str], str]) -> None:
    stream, group, plain = (try_name(name) for name in ("tides", "tides-answering", "tides-plain"))
    async with answering_groups(local.ready.endpoint, stream, (group, plain)) as groups:
        await groups.until_lag(group, lambda seconds: seconds < TARGET_SECONDS, WITHIN_SECONDS)
        await printed(local, f"set responses {group} {POLICY}")
        await flooded(groups, group, plain)
        took = await until(lambda: undone(local, group), "nothing was undone", UNDONE_SECONDS, poll=1.0)
        print(f"undone {took:.1f} s after the flood")
        assert await answers(local, group) == ["ResponseTaken", "ResponseUndone"]
        assert not await answers(local, plain)


async def flooded(groups: AnsweringGroups, group: str, plain: str) -> None:
    """Floods lane bulk until lane live of the group that answers is back within its target."""
    groups.rates["bulk"] *= FLOOD
    began = time.monotonic()
    for each in (group, plain):
        await groups.until_lag(each, lambda seconds: seconds > TARGET_SECONDS, WITHIN_SECONDS)
    breach = time.monotonic()
    await groups.until_lag(group, lambda seconds: seconds <= TARGET_SECONDS, WITHIN_SECONDS)
    back = time.monotonic()
    left = await groups.lag(plain)
    print(f"beyond its target after {breach - began:.1f} s, back {back - breach:.1f} s later, beside {left} s of lag")
    groups.rates["bulk"] /= FLOOD
    assert left is not None and left > TARGET_SECONDS, "the same flood, left alone"


async def answers(local: DevMesh, group: str) -> list[str]:
    """The responses in a group's history, in order."""
    told = await printed(local, f"events --for group/{group}")
    return [word for line in told.splitlines() for word in line.split() if word in ("ResponseTaken", "ResponseUndone")]


async def undone(local: DevMesh, group: str) -> bool:
    """Whether a response was undone."""
    return "ResponseUndone" in await answers(local, group)
