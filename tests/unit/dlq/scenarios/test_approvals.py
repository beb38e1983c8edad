"""Destructive requests that wait for a second person, over a real registry, assigner and dlq: faults and repeats."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import pytest
from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.registry.v1 import approval_pb2 as api
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import (
    AccessDenied,
    ApprovalRequired,
    BraidError,
    DeadlineExceeded,
    NotFound,
    Refused,
    Unauthenticated,
    Unavailable,
)
from braid.rpc.directory import Directory
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.access.settings import AccessSettings
from tests.support.virtual_time import run_virtual
from tests.unit.dlq.mesh import SERVICES, Mesh

M = TypeVar("M", bound=Message)
ANN, BOB, EVE = (f"spiffe://braid.local/user/{name}" for name in ("ann", "bob", "eve"))
ALL: Final = (
    api.GUARDED_VERB_DELETE_STREAM,
    api.GUARDED_VERB_DELETE_GROUP,
    api.GUARDED_VERB_RESET_PROGRESS,
    api.GUARDED_VERB_REPLAY,
    api.GUARDED_VERB_DECOMMISSION_CLUSTER,
)
DELETE: Final = registry_api.DeleteStreamRequest(name="logs")


class People:
    """Callers with certificates, each in a process of its own."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._directories: dict[str, Directory] = {}

    async def call(
        self, who: str, service: str, method: str, request: Message, answer: type[M], request_id: str = ""
    ) -> M:
        """Sends a request in somebody's name; in nobody's where the name is empty."""
        host = self.mesh.host
        if who not in self._directories:
            transport = MemoryTransport(self.mesh.network, f"caller {who}", who)
            self._directories[who] = Directory(transport, host, [f"{each}:1" for each in SERVICES])
        client = ServiceClient(self._directories[who], service, host, principal=who)
        return await client.unary(method, request, answer, request_id=request_id)

    async def policy(self, *verbs: "api.GuardedVerb.ValueType", letters_over: int = 0) -> None:
        """Sets policy `careful` on the whole mesh, and waits until every service knows it."""
        spec = api.ApprovalPolicySpec(verbs=verbs or ALL, letters_over=letters_over)
        request = api.SetApprovalPolicyRequest(name="careful", spec=spec)
        await self.call(ANN, "registry", "SetApprovalPolicy", request, api.ApprovalPolicy)
        await self.mesh.host.clock.sleep(1.0)

    async def decide(self, who: str, id: str, refused: bool = False) -> api.Approval:
        """Approves or refuses."""
        request = api.DecideApprovalRequest(id=id, refused=refused)
        return await self.call(who, "registry", "DecideApproval", request, api.Approval)

    async def delete(self, who: str = ANN, request_id: str = "") -> None:
        """Deletes stream `logs`."""
        await self.call(who, "registry", "DeleteStream", DELETE, stream_pb2.Stream, request_id)

    async def decommission(self, discard: bool = False, cancelled: bool = False) -> None:
        """Begins to empty cluster `west`, or cancels that."""
        request = registry_api.DecommissionClusterRequest(name="west", discard_drained=discard, cancelled=cancelled)
        await self.call(ANN, "registry", "DecommissionCluster", request, registry_api.DecommissionClusterResponse)

    async def listed(self) -> list[api.Approval]:
        """All approvals."""
        request = api.ListApprovalsRequest()
        return list((await self.call(ANN, "registry", "ListApprovals", request, api.ListApprovalsResponse)).approvals)


async def waits(work: Awaitable[object]) -> str:
    """The id of the approval that a call waits for."""
    with pytest.raises(ApprovalRequired) as refused:
        await work
    assert f"braid approve {refused.value.metadata['approval']}" in refused.value.remedy
    return refused.value.metadata["approval"]


def play(directory: Path, scene: Callable[[People], Awaitable[None]]) -> None:
    """Plays a scene in a fresh mesh whose admin is Ann; a task that dies anywhere fails it."""

    async def whole() -> None:
        mesh = Mesh(directory)
        mesh.access = AccessSettings(admins=(ANN,))
        await mesh.start()
        await scene(People(mesh))
        assert not mesh.failures

    run_virtual(whole())


def test_a_stream_is_deleted_when_another_approved(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        await people.policy()
        id = await waits(people.delete())
        assert await waits(people.delete()) == id
        with pytest.raises(AccessDenied, match="cannot approve it"):
            await people.decide(ANN, id)
        with pytest.raises(Unauthenticated):
            await people.decide("", id)
        with pytest.raises(Unauthenticated, match="needs a second person's approval"):
            await people.delete("")
        assert (await people.decide(BOB, id)).state == api.APPROVAL_STATE_APPROVED
        assert await waits(people.delete(EVE)) != id, "it is not hers"
        await people.delete()
        (used, other) = await people.listed()
        assert (used.state, used.decided_by) == (api.APPROVAL_STATE_USED, BOB)
        assert other.request.command == "braid delete stream logs"

    play(tmp_path, scene)


def test_a_policy_that_guards_policies_is_not_taken_away_alone(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        both = (api.GUARDED_VERB_DELETE_STREAM, api.GUARDED_VERB_CHANGE_POLICY)
        await people.policy(*both)
        id = await waits(people.policy(api.GUARDED_VERB_DELETE_STREAM))
        gone = api.DeleteApprovalPolicyRequest(name="careful")
        assert await waits(people.call(ANN, "registry", "DeleteApprovalPolicy", gone, api.ApprovalPolicy)) != id
        with pytest.raises(AccessDenied):
            await people.decide(ANN, id)
        await people.decide(BOB, id)
        await people.policy(api.GUARDED_VERB_DELETE_STREAM)
        await people.call(ANN, "registry", "DeleteApprovalPolicy", gone, api.ApprovalPolicy)
        await people.delete()

    play(tmp_path, scene)


def test_a_stream_made_again_needs_an_approval_of_its_own(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        await people.policy(api.GUARDED_VERB_DELETE_STREAM)
        first = await waits(people.delete())
        await people.decide(BOB, first)
        await people.decide(EVE, await waits(people.delete(BOB)))
        await people.delete(BOB)
        await people.mesh.create("logs")
        assert await waits(people.delete()) != first

    play(tmp_path, scene)


def test_a_repeat_goes_on_after_the_leader_was_killed(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        await people.policy()
        await people.decide(BOB, await waits(people.delete()))
        mesh = people.mesh
        approvals = mesh.replicas["registry-0"].approvals
        killed: list[str] = []

        def kill(change: object) -> None:
            if not killed and any(each.used for each in approvals.state.approvals.values()):
                killed.append("registry-0")
                mesh.kill("registry-0")

        approvals.histories.subscribe(kill)
        with pytest.raises(BraidError):
            await people.delete(request_id="the-call")
        assert killed
        await mesh.run_service("registry-0")
        await mesh.until(lambda: leads(mesh, "registry-0"))
        states = [each.state for each in await people.listed()]
        assert states == [api.APPROVAL_STATE_USED]
        assert mesh.replicas["registry-0"].approvals.state.approvals
        another = await waits(people.delete(request_id="another-call"))
        await people.delete(request_id="the-call")
        with pytest.raises(NotFound):
            await people.delete(request_id="the-call")
        assert another not in {each.id for each in await people.listed() if each.decided_by}

    play(tmp_path, scene)


async def leads(mesh: Mesh, name: str) -> bool:
    """Whether a replica leads."""
    return mesh.replicas[name].leading()


def test_services_beside_the_registry_ask_it_and_fail_closed(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        mesh = people.mesh
        spec = group_pb2.GroupSpec(streams=["logs"])
        made = assigner_api.CreateGroupRequest(name="indexer", spec=spec)
        await people.call(ANN, "assigner", "CreateGroup", made, group_pb2.Group)
        delete = assigner_api.DeleteGroupRequest(name="indexer")

        async def deleted() -> None:
            await people.call(ANN, "assigner", "DeleteGroup", delete, group_pb2.Group)

        await people.policy()
        id = await waits(deleted())
        await people.decide(BOB, id)
        mesh.kill("registry-0")
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await deleted()
        await mesh.run_service("registry-0")
        await mesh.until(lambda: leads(mesh, "registry-0"))
        await deleted()
        assert [each.state for each in await people.listed()] == [api.APPROVAL_STATE_USED]

    play(tmp_path, scene)


def test_without_a_policy_nobody_asks_the_registry(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        spec = group_pb2.GroupSpec(streams=["logs"])
        made = assigner_api.CreateGroupRequest(name="indexer", spec=spec)
        await people.call(ANN, "assigner", "CreateGroup", made, group_pb2.Group)
        people.mesh.kill("registry-0")
        request = assigner_api.DeleteGroupRequest(name="indexer")
        await people.call(ANN, "assigner", "DeleteGroup", request, group_pb2.Group)

    play(tmp_path, scene)


def test_progress_is_reset_when_another_approved(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        spec = group_pb2.GroupSpec(streams=["logs"])
        made = assigner_api.CreateGroupRequest(name="indexer", spec=spec)
        await people.call(ANN, "assigner", "CreateGroup", made, group_pb2.Group)
        await people.policy()
        request = assigner_api.ResetProgressRequest(group="indexer")
        request.to.earliest = True
        answer = assigner_api.ResetProgressResponse

        async def reset(dry_run: bool = False) -> None:
            request.dry_run = dry_run
            await people.call(ANN, "assigner", "ResetProgress", request, answer)

        await reset(dry_run=True)
        id = await waits(reset())
        request.reason = "another body"
        assert await waits(reset()) != id
        request.ClearField("reason")
        await people.decide(BOB, id)
        await reset()

    play(tmp_path, scene)


def test_a_replay_of_many_letters_waits_and_one_of_few_does_not(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        mesh = people.mesh
        await mesh.park(5)
        await mesh.indexed(5)
        await people.policy(letters_over=3)

        async def replay(filter: str = "") -> None:
            request = dlq_api.CreateReplayRequest(spec=ReplaySpec(stream="logs", filter=filter))
            await people.call(ANN, "dlq", "CreateReplay", request, dlq_api.CreateReplayResponse)

        await replay("id=none")
        id = await waits(replay())
        (asked,) = await people.listed()
        assert asked.request.letters == 5
        await people.decide(BOB, id)
        await replay()
        assert await waits(replay()) != id

    play(tmp_path, scene)


def test_a_cluster_is_decommissioned_when_another_approved(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        await people.policy(api.GUARDED_VERB_DECOMMISSION_CLUSTER)
        id = await waits(people.decommission())
        await people.decide(BOB, id)
        assert await waits(people.decommission(discard=True)) != id
        await people.decommission()
        await people.decommission()  # nothing is left to do, so nothing is asked
        await people.decommission(cancelled=True)

    play(tmp_path, scene)


def test_a_policy_on_discards_lets_a_decommission_pass(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        await people.policy(api.GUARDED_VERB_DISCARD_DRAINED)
        id = await waits(people.decommission(discard=True))
        await people.decommission()
        assert await waits(people.decommission(discard=True)) == id
        await people.decide(BOB, id)
        await people.decommission(discard=True)

    play(tmp_path, scene)


def test_a_channel_and_its_loss_are_closed_by_two(tmp_path: Path) -> None:
    async def scene(people: People) -> None:
        mesh = people.mesh
        await people.policy(api.GUARDED_VERB_CLOSE_CHANNEL)
        mesh.kafka.named("east").kill()
        request = registry_api.CloseChannelRequest(channel="logs/live/1")

        async def close(dry_run: bool = False) -> registry_api.CloseChannelResponse:
            request.dry_run = dry_run
            return await people.call(ANN, "registry", "CloseChannel", request, registry_api.CloseChannelResponse)

        async def drains() -> bool:
            try:
                request.accept_loss.extend((await close(dry_run=True)).given_up)
            except Refused:
                return False
            return True

        await mesh.until(drains)
        id = await waits(close())
        assert not (await close(dry_run=True)).channel.closed
        with pytest.raises(AccessDenied):
            await people.decide(ANN, id)
        await people.decide(BOB, id)
        assert (await close()).channel.closed
        (used,) = await people.listed()
        assert (used.state, used.decided_by) == (api.APPROVAL_STATE_USED, BOB)

    play(tmp_path, scene)
