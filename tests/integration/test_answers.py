"""Lag is answered and the answer undone in a real mesh: Kafka, services and members, read by the `braid` command."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from demo.traffic.flooded_stream import TARGET_SECONDS, FloodedStream, flooded_stream
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy

WITHIN_SECONDS: Final = 60.0  # for lag that comes back within 15: a wait's end, and no figure
UNDONE_SECONDS: Final = 240.0  # likewise, for what takes 25, and 90 on a machine with a dozen processes for each core
POLICY: Final = "shift-shares automatic --cooldown 5s --undo-after 10s"

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and all services; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


@pytest.mark.extended
async def test_a_flood_is_answered_and_undone(local: DevMesh, try_name: Callable[[str], str]) -> None:
    stream, group, plain = (try_name(name) for name in ("tides", "tides-answering", "tides-plain"))
    async with flooded_stream(local.ready.endpoint, stream, (group, plain)) as flooded:
        await until_lag(flooded, group, lambda seconds: seconds < TARGET_SECONDS)
        flooded.flood()
        breaches = [until_lag(flooded, each, lambda seconds: seconds > TARGET_SECONDS) for each in (group, plain)]
        policy = printed(local, f"set responses {group} {POLICY}")  # not before, or a slow start is answered
        await asyncio.gather(policy, *breaches)
        took = await until_lag(flooded, group, lambda seconds: seconds <= TARGET_SECONDS)
        print(f"lane live was back within its target {took:.1f} s after both had left it")
        await until_lag(flooded, plain, lambda seconds: seconds > TARGET_SECONDS)  # the same flood, left alone
        flooded.ebb()
        took = await until(lambda: undone(local, group), "nothing was undone", UNDONE_SECONDS, poll=1.0)
        print(f"undone {took:.1f} s after the flood")
        assert await answers(local, group) == ["ResponseTaken", "ResponseUndone"]
        assert not await answers(local, plain)


async def until_lag(flooded: FloodedStream, group: str, holds: Callable[[float], bool]) -> float:
    """Waits until a group's lag in lane live is as wanted; returns the seconds that it took."""
    found: list[float | None] = [None]

    async def look() -> bool:
        found[:] = [await flooded.lag(group)]
        return found[0] is not None and holds(found[0])

    return await until(look, lambda: f"lane live of {group} is {found[0]} s behind", WITHIN_SECONDS, poll=0.2)


async def answers(local: DevMesh, group: str) -> list[str]:
    """The responses in a group's history, in order."""
    told = await printed(local, f"events --for group/{group}")
    return [word for line in told.splitlines() for word in line.split() if word in ("ResponseTaken", "ResponseUndone")]


async def undone(local: DevMesh, group: str) -> bool:
    """Whether a response was undone."""
    return "ResponseUndone" in await answers(local, group)
