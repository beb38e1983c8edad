"""Lists of all groups at a moment: as they were answered then, whatever befell their histories since."""

from typing import Final
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.archive.memory import MemoryArchive
from braid.kernel.errors import Invalid
from braid.runtime.histories import fold
from testbed.checkers.past import PastAnswers
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire
from tests.unit.assigner.servicer.calls import spec

INTERVAL_EVENTS: Final = 16  # after so many events a snapshot is due; 512 in real life


async def listed(mesh: Mesh, at_ms: int, size: int = 0) -> list[bytes]:
    """Every group as it was then, page by page."""
    request, found = api.ListPastGroupsRequest(at_ms=at_ms, page_size=size), []
    client = mesh.client("cli")
    while True:
        page = await client.unary("ListPastGroups", request, api.ListPastGroupsResponse, timeout_seconds=8)
        assert not page.gaps
        found += [each.SerializeToString(deterministic=True) for each in page.groups]
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


async def listed_now(mesh: Mesh) -> list[bytes]:
    """Every group as the present list has it."""
    page = await mesh.client("cli").unary(
        "ListGroups", api.ListGroupsRequest(), api.ListGroupsResponse, timeout_seconds=8
    )
    for group in page.groups:
        group.status.ClearField("idle_left_ms")  # measured, not recorded
        group.status.ClearField("idle_held")
    return [each.SerializeToString(deterministic=True) for each in page.groups]


async def change(mesh: Mesh, method: str, request: object) -> None:
    """Asks for a change of a group."""
    await mesh.client("cli").unary(method, request, group_pb2.Group, timeout_seconds=8)


def test_lists_are_as_answered_after_compaction_and_deletion() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.archives = {f"assigner-{number}": MemoryArchive() for number in range(2)}
        await mesh.start(2)
        answers = PastAnswers()

        async def remember() -> None:
            await mesh.host.clock.sleep(0.01)
            answers.record(mesh.host.clock.now_ms(), await listed_now(mesh))
            await mesh.host.clock.sleep(0.01)

        before = mesh.host.clock.now_ms() - 1
        for name in ("a", "b", "c"):
            await change(
                mesh, "CreateGroup", api.CreateGroupRequest(name=name, spec=spec(fencing=group_pb2.FENCING_NONE))
            )
            await remember()
        wire = Wire(mesh)
        await wire.hello(group="b", client_id="web")
        await wire.next("delta")
        await remember()
        for number in range(41):  # more than two intervals: the first is archived, and compacted
            await change(mesh, "FreezeGroup", api.FreezeGroupRequest(group="a", frozen=number % 2 == 0))
            if number % 10 == 0:
                await wire.beat()
        await remember()
        await change(mesh, "DeleteGroup", api.DeleteGroupRequest(name="c"))
        await remember()
        assert len({str(answer) for _, answer in answers.given}) == len(answers.given), "each is another one"
        for size in (0, 1):
            assert await answers.violations(lambda at_ms: listed(mesh, at_ms, size)) == []  # noqa: B023
        leader = (await mesh.leader()).instance
        mesh.processes[leader].kill()
        await mesh.host.clock.sleep(31)
        assert await answers.violations(lambda at_ms: listed(mesh, at_ms)) == []
        assert answers.refused == []
        assert await listed(mesh, before) == [], "nothing was there yet"

    with patch.object(fold, "SNAPSHOT_EVERY_EVENTS", INTERVAL_EVENTS):
        run_virtual(scenario())


def test_a_group_that_is_not_kept_is_named_and_hides_no_other() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        for name in ("a", "b"):
            await change(
                mesh, "CreateGroup", api.CreateGroupRequest(name=name, spec=spec(fencing=group_pb2.FENCING_NONE))
            )
        await mesh.host.clock.sleep(0.1)
        at_ms = mesh.host.clock.now_ms()
        await mesh.host.clock.sleep(0.1)
        for number in range(40):  # there is no archive: what is compacted is gone
            await change(mesh, "FreezeGroup", api.FreezeGroupRequest(group="a", frozen=number % 2 == 0))
        await mesh.host.clock.sleep(1.0)
        request = api.ListPastGroupsRequest(at_ms=at_ms)
        page = await mesh.client("cli").unary("ListPastGroups", request, api.ListPastGroupsResponse, timeout_seconds=8)
        assert [each.name for each in page.groups] == ["b"]
        assert [each.history for each in page.gaps] == ["assigner/group/a"]
        assert "not kept" in page.gaps[0].reason

    with patch.object(fold, "SNAPSHOT_EVERY_EVENTS", INTERVAL_EVENTS):
        run_virtual(scenario())


def test_a_moment_that_has_not_been_is_refused() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        now_ms = mesh.host.clock.now_ms()
        assert await listed(mesh, now_ms + 5_000) == [], "clocks differ by seconds"
        for at_ms in (0, -1, now_ms + 60_000):
            with pytest.raises(Invalid) as told:
                await listed(mesh, at_ms)
            assert told.value.field == "at_ms"
        with pytest.raises(Invalid):
            await listed(mesh, now_ms, -1)

    run_virtual(scenario())
