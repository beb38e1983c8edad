"""Real assigner and member processes over one SQLite file: leaders and members killed with -9, takeovers measured."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from tests.support.assigner_machine import Machine

pytestmark = pytest.mark.untimed

TAKEOVERS = 8


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A registry, two assigners, and a group whose one channel appeared later, so that no Kafka is needed."""
    made = Machine(tmp_path)
    try:
        made.tell(("logs/live/1", 12, "STANDBY"))
        await made.service("registry-0", "testbed.members.told_registry")
        await made.service("assigner-0", "services.assigner")
        await made.service("assigner-1", "services.assigner")
        spec = group_pb2.GroupSpec(streams=["logs"], lease_ms=1_000, fencing=group_pb2.FENCING_NONE)
        request = api.CreateGroupRequest(name="indexer", spec=spec)
        await made.client().unary("CreateGroup", request, group_pb2.Group, timeout_seconds=20)
        made.tell(("logs/live/1", 12, "ACTIVE"))
        yield made
    finally:
        await made.close()


@pytest.mark.timeout(600)
async def test_killed_members_are_replaced_at_once(machine: Machine) -> None:
    members = ["web-0", "web-1", "web-2"]
    for name in members:
        await machine.member(name)
    await machine.until(lambda: machine.balanced(members, 12))
    took: list[float] = []
    for number in range(3, 3 + TAKEOVERS):
        victim, *members = members
        lost = machine.held(victim)
        killed = await machine.kill(victim)
        await machine.until(lambda survivors=tuple(members): machine.balanced(survivors, 12))  # type: ignore[misc]
        lines = [line for name in members for line in machine.log(name)]
        regained = [line for line in lines if line["what"] == "granted" and float(str(line["at"])) > killed]
        assert {str(line["lease"]) for line in regained} >= set(lost)
        assert all(int(str(line["epoch"])) > lost.get(str(line["lease"]), 0) for line in regained)
        took.append(max(float(str(line["at"])) for line in regained) - killed)
        members.append(f"web-{number}")
        await machine.member(members[-1])
        await machine.until(lambda all_of=tuple(members): machine.balanced(all_of, 12))  # type: ignore[misc]
    figures = sorted(round(seconds * 1000) for seconds in took)
    print(f"kill -9 of a member to its last lease granted elsewhere: {figures} ms")


@pytest.mark.timeout(600)
async def test_a_killed_leader_moves_nothing(machine: Machine) -> None:
    members = ["web-0", "web-1", "web-2"]
    for name in members:
        await machine.member(name)
    await machine.until(lambda: machine.balanced(members, 12))
    before = {name: machine.held(name) for name in members}
    await machine.client().unary("ListGroups", api.ListGroupsRequest(stream="logs"), api.ListGroupsResponse)
    killed = await machine.kill(machine.leader())
    request = api.ListGroupsRequest(stream="logs", lane="live")
    await machine.client().unary("ListGroups", request, api.ListGroupsResponse, timeout_seconds=30)
    print(f"first answer of the new leader after {time.clock_gettime(time.CLOCK_BOOTTIME) - killed:.2f} s")
    await asyncio.sleep(4.5)  # beyond the new leader's grace, in which it expires nobody
    assert {name: machine.held(name) for name in members} == before
    leases = await machine.client().unary("ListLeases", api.ListLeasesRequest(), api.ListLeasesResponse)
    assert {lease.name: lease.epoch for lease in leases.leases} == {n: e for h in before.values() for n, e in h.items()}
    lost = machine.held("web-0")
    killed = await machine.kill("web-0")
    await machine.until(lambda: machine.balanced(members[1:], 12))
    lines = [line for name in members[1:] for line in machine.log(name) if str(line["lease"]) in lost]
    took = max(float(str(line["at"])) for line in lines if line["what"] == "granted") - killed
    print(f"kill -9 of a member under the new leader to its last lease granted elsewhere: {took * 1000:.0f} ms")
