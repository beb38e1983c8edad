"""Answers about a lease's past after snapshots removed the oldest events: the truth, or that it is not kept."""

from collections.abc import Coroutine
from typing import Any

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.mesh.v1.archive_pb2 import (
    ArchiveStatus,
    GetArchiveRequest,
    ListArchiveRequest,
    ListArchiveResponse,
    ReadArchiveRequest,
    ReadArchiveResponse,
)
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.archive.memory import MemoryArchive
from braid.kernel.errors import ArchiveDamaged, HistoryHole, Invalid, NotFound
from braid.runtime.histories.kinds import Asked
from services.assigner.model.commands import Command
from services.assigner.model.rules import FreezeGroup
from services.assigner.reconciler.group_loop import GROUPS
from testbed.checkers.past import PastAnswers
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire

LEASE = "logs/live/1/0"
MANY = 600  # pairs of events; a snapshot is saved at 1,024 events, of the state at the 512th


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def explained(mesh: Mesh, at_ms: int = 0) -> api.ExplainLeaseResponse:
    """Why the lease is where it was then."""
    request = api.ExplainLeaseRequest(lease=LEASE, group="indexer", at_ms=at_ms)
    return await mesh.client("cli").unary("ExplainLease", request, api.ExplainLeaseResponse, timeout_seconds=8)


async def freeze_and_unfreeze(mesh: Mesh, times: int) -> None:
    """Makes two events each time, none of which concerns who holds what: all in one append, as a busy leader would."""
    asked: list[Asked[Command]] = [Asked(FreezeGroup(frozen), "cli") for frozen in (True, False)]
    await (await mesh.leader()).aggregates.execute_together(GROUPS, "indexer", times * asked)


def test_a_holder_is_known_though_snapshots_removed_its_event() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        wire = Wire(mesh)
        await wire.hello(client_id="web-1")
        await wire.next("delta")
        await mesh.host.clock.sleep(1)
        early = mesh.host.clock.now_ms()
        assert (await explained(mesh, early)).lease.member_client_id == "web-1"
        for _ in range(MANY // 100):
            await freeze_and_unfreeze(mesh, 100)
            await wire.beat()
        await mesh.host.clock.sleep(1)
        live = await explained(mesh)
        now = await explained(mesh, mesh.host.clock.now_ms())
        assert live.lease.member_client_id == "web-1"
        assert now.lease.member_client_id == "web-1", "folded from an empty state"
        assert now.lease.epoch == live.lease.epoch
        assert [each.text for each in now.reasons] == [each.text for each in live.reasons]
        assert now.kept_from_sequence == live.kept_from_sequence > 512
        with pytest.raises(HistoryHole) as told:
            await explained(mesh, early)
        assert told.value.metadata["history"] == "assigner/group/indexer"
        assert told.value.metadata["first"] == "1"
        assert int(told.value.metadata["last"]) == now.kept_from_sequence - 1

    run(scenario())


async def grown(assigners: int) -> tuple[Mesh, PastAnswers]:
    """A mesh whose group has a long history, most of it archived, and what was answered meanwhile."""
    mesh = Mesh()
    mesh.archives = {f"assigner-{number}": MemoryArchive() for number in range(assigners)}
    await mesh.start(assigners)
    answers = PastAnswers()
    for number in range(3):
        wire = Wire(mesh, f"member-{number}")
        await wire.hello(client_id=f"web-{number}")
        await wire.next("delta")
        for _ in range(3):
            await freeze_and_unfreeze(mesh, 100)
            answers.record(mesh.host.clock.now_ms(), (await explained(mesh)).lease.SerializeToString())
            await mesh.host.clock.sleep(0.01)
            await wire.beat()
        assert wire.call is not None
        await wire.call.close()
        await mesh.until(lambda: not mesh.state().members)
    await mesh.host.clock.sleep(1)
    return mesh, answers


def test_every_answer_stays_the_same_from_any_replica() -> None:
    async def scenario() -> None:
        mesh, answers = await grown(2)
        ask = mesh.client("cli")

        async def again(at_ms: int) -> bytes:
            request = api.ExplainLeaseRequest(lease=LEASE, group="indexer", at_ms=at_ms)
            answer = await ask.unary("ExplainLease", request, api.ExplainLeaseResponse, timeout_seconds=8)
            return answer.lease.SerializeToString()

        assert await answers.violations(again) == []
        assert answers.refused == []
        assert len({answer for _, answer in answers.given}) > 1, "it moved meanwhile"
        leader = (await mesh.leader()).instance
        mesh.archives[leader].objects.clear()  # its disk is lost: the other replica has it all
        mesh.processes[leader].kill()
        await mesh.replica(leader)
        await mesh.host.clock.sleep(31)
        assert await answers.violations(again) == []
        assert answers.refused == []

    run(scenario())


async def described(mesh: Mesh, at_ms: int) -> object:
    """The group as it was then: its members and leases, in pages of two."""
    client, leases, request = mesh.client("cli"), [], api.DescribePastRequest(group="indexer", at_ms=at_ms, page_size=2)
    members: list[tuple[str, int]] = []
    while True:
        page = await client.unary("DescribePast", request, api.DescribePastResponse, timeout_seconds=8)
        members += [(each.client_id, each.leases) for each in page.members]
        leases += [each.SerializeToString() for each in page.leases]
        request.page_token = page.next_page_token
        if not request.page_token:
            return members, leases


async def living(mesh: Mesh) -> object:
    """The same of the present, as it is answered without any history."""
    client = mesh.client("cli")
    wanted = api.ListLeasesRequest(group="indexer", page_size=1_000)
    leases = await client.unary("ListLeases", wanted, api.ListLeasesResponse, timeout_seconds=8)
    members = await client.unary(
        "ListMembers", api.ListMembersRequest(group="indexer"), api.ListMembersResponse, timeout_seconds=8
    )
    return (
        [(each.client_id, each.leases) for each in members.members],
        [each.SerializeToString() for each in leases.leases],
    )


def test_a_described_group_is_the_same_or_refused_at_a_gap() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.archives = {"assigner-0": MemoryArchive()}
        await mesh.start(1)
        answers = PastAnswers()
        for number in range(2):
            wire = Wire(mesh, f"member-{number}")
            await wire.hello(client_id=f"web-{number}")
            await wire.next("delta")
            for _ in range(4):
                await freeze_and_unfreeze(mesh, 100)
                answers.record(mesh.host.clock.now_ms(), await living(mesh))
                await mesh.host.clock.sleep(0.01)
                await wire.beat()
            assert wire.call is not None
            await wire.call.close()
            await mesh.until(lambda: not mesh.state().members)
        await mesh.host.clock.sleep(1)
        assert await answers.violations(lambda at_ms: described(mesh, at_ms)) == []
        assert answers.refused == []
        assert len({str(answer) for _, answer in answers.given}) > 1, "it changed meanwhile"
        objects = mesh.archives["assigner-0"].objects
        first = min(name for name in objects if name.startswith("assigner/group/") and name.endswith(".seg"))
        for name in [name for name in objects if name.startswith("assigner/group/") and name.endswith(".base")]:
            del objects[name]
        byte = bytearray(objects[first])
        byte[len(byte) // 2] ^= 1
        objects[first] = bytes(byte)
        leader = await mesh.leader()
        mesh.processes[leader.instance].kill()
        await mesh.replica(leader.instance)  # nothing of it is kept open
        await mesh.host.clock.sleep(31)
        early, late = answers.given[0][0], answers.given[-1][0]
        with pytest.raises(ArchiveDamaged) as told:
            await described(mesh, early)
        assert told.value.metadata["history"] == "assigner/group/indexer"
        assert 1 <= int(told.value.metadata["first"]) <= int(told.value.metadata["last"]) <= 512
        assert await described(mesh, late) == answers.given[-1][1], "the store alone has it"
        with pytest.raises(NotFound):
            await described(mesh, 1)

    run(scenario())


def test_what_is_described_is_one_thing_at_one_moment() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await Wire(mesh).hello(client_id="web-1")
        client = mesh.client("cli")
        for wrong in (
            api.DescribePastRequest(group="indexer"),
            api.DescribePastRequest(at_ms=5),
            api.DescribePastRequest(group="indexer", stream="logs", at_ms=5),
        ):
            with pytest.raises(Invalid):
                await client.unary("DescribePast", wrong, api.DescribePastResponse, timeout_seconds=8)
        of_stream = api.DescribePastRequest(stream="logs", at_ms=mesh.host.clock.now_ms())
        told = await client.unary("DescribePast", of_stream, api.DescribePastResponse, timeout_seconds=8)
        assert [each.name for each in told.groups] == ["indexer"]

    run(scenario())


def test_events_are_listed_in_pages_whether_archived_or_not() -> None:
    async def scenario() -> None:
        mesh, _ = await grown(1)
        found: list[int] = []
        request = ListEventsRequest(history="group/indexer", page_size=700)
        client = mesh.client("cli")
        while True:
            page = await client.unary("ListEvents", request, ListEventsResponse, timeout_seconds=8)
            assert not page.gaps
            found += [each.sequence for each in page.events]
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        assert found == list(range(1, len(found) + 1))
        assert len(found) > 1_800

    run(scenario())


def test_an_archive_reports_its_state_and_gives_only_its_objects() -> None:
    async def scenario() -> None:
        mesh, _ = await grown(1)
        client = mesh.client("cli")
        status = await client.unary("GetArchive", GetArchiveRequest(), ArchiveStatus, timeout_seconds=8)
        assert (status.location, status.shared, status.failing_reason) == ("memory", False, "")
        assert status.size_bytes > 10_000
        assert status.retention_days == 90
        listed = await client.unary(
            "ListArchive", ListArchiveRequest(history="assigner/group/indexer"), ListArchiveResponse, timeout_seconds=8
        )
        name = listed.names[0]
        read = await client.unary("ReadArchive", ReadArchiveRequest(name=name), ReadArchiveResponse, timeout_seconds=8)
        assert read.data == mesh.archives["assigner-0"].objects[name]
        for bad in ("registry/stream/logs", "assigner", "assigner//x", ""):
            with pytest.raises(Invalid):
                await client.unary("ListArchive", ListArchiveRequest(history=bad), ListArchiveResponse)
        for bad in ("../secret", name.replace("assigner", "registry"), f"./{name}", ""):
            with pytest.raises(Invalid):
                await client.unary("ReadArchive", ReadArchiveRequest(name=bad), ReadArchiveResponse)
        with pytest.raises(NotFound):
            gone = name.replace("_i1", "_i9")
            await client.unary("ReadArchive", ReadArchiveRequest(name=gone), ReadArchiveResponse)

    run(scenario())


def test_an_archives_failure_and_recovery_are_both_events() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        mesh.archives = {"assigner-0": MemoryArchive()}
        await mesh.start(1)
        mesh.archives["assigner-0"].full = True
        wire = Wire(mesh)
        await wire.hello(client_id="web-1")
        await wire.next("delta")
        for full in (True, False):
            mesh.archives["assigner-0"].full = full
            for _ in range(6):
                await freeze_and_unfreeze(mesh, 50)
                await mesh.host.clock.sleep(0.01)
                await wire.beat()
        client = mesh.client("cli")
        request = ListEventsRequest(history="archive")
        found = (await client.unary("ListEvents", request, ListEventsResponse, timeout_seconds=8)).events
        assert [each.type for each in found] == ["ArchivingFailed", "ArchivingResumed"]
        assert {each.history for each in found} == {"archive/assigner/log"}
        assert all(each.metadata.actor == "assigner-0" and each.metadata.time_ms for each in found)
        request = ListEventsRequest(latest=1)
        page = await client.unary("ListEvents", request, ListEventsResponse, timeout_seconds=8)
        assert [each.type for each in page.events][-1] == "ArchivingResumed"

    run(scenario())
