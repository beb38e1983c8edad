"""Approvals at replicas that enforce rights: approvals of those who have lost theirs count for nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest, DeleteStreamRequest
from braid.kernel.access.approvals import ApprovalPolicy, GuardedRequest, GuardedVerb
from braid.kernel.access.requests import Need
from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind, Role
from braid.kernel.errors import ApprovalRequired, CorruptHistory, NotLeader, Unauthenticated, Unavailable
from braid.kernel.ports import Caller
from braid.runtime.access.approval_history import Claim, Decide, SetPolicy
from braid.runtime.access.approvals import Approvals, Destruction, approvals_of, request_digest
from braid.runtime.access.revocation_history import LiftRevocation, RevokeIdentity
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.access.mesh import ANN, ENFORCED, Mesh

LOGS = Resource(ResourceKind.STREAM, "logs")
ALICE, BOB = (f"spiffe://braid.local/user/{name}" for name in ("alice", "bob"))
BY_ALICE, BY_BOB = (Caller(each, "default", "", "", authenticated=True) for each in (ALICE, BOB))
POLICY = ApprovalPolicy("careful", (GuardedVerb.DELETE_STREAM,), LOGS)
DESTRUCTION = Destruction((GuardedVerb.DELETE_STREAM,), (LOGS,), "1")
DELETE = DeleteStreamRequest(name="logs")
GUARDED = GuardedRequest((GuardedVerb.DELETE_STREAM,), (LOGS,), "1", "ab", ALICE, needs=(Need(Action.CHANGE, LOGS),))


def play(scene: Callable[[Mesh], Awaitable[None]]) -> None:
    """Plays a scene in a mesh of a registry and a dlq."""

    async def whole() -> None:
        await scene(await Mesh("dlq").start())

    run_virtual(whole())


async def policy(mesh: Mesh) -> Approvals:
    """The registry's approvals, with a policy that every replica knows."""
    approvals = mesh.replicas["registry"].approvals
    await approvals.execute(SetPolicy(POLICY), ANN)
    await asyncio.sleep(1.0)
    return approvals


async def asked(approvals: Approvals, caller: Caller = BY_ALICE) -> str:
    """The id of the approval that a deletion waits for."""
    with pytest.raises(ApprovalRequired) as refused:
        await approvals.require("DeleteStream", DELETE, DESTRUCTION, caller)
    return refused.value.metadata["approval"]


async def approve(approvals: Approvals, id: str) -> None:
    """Approves in the name of Bob."""
    await approvals.execute(Decide(id, False, "", approvals.led_ms), BY_BOB)


def test_who_lost_the_right_has_approved_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        id = await asked(approvals)
        await mesh.grant(BOB, Role.STREAM_OWNER, LOGS)
        await approve(approvals, id)
        await mesh.revoke(BOB, Role.STREAM_OWNER, LOGS)
        assert await asked(approvals) == id
        await mesh.grant(BOB, Role.STREAM_OWNER, LOGS)
        await approvals.require("DeleteStream", DELETE, DESTRUCTION, BY_ALICE)

    play(scene)


def test_who_was_revoked_has_approved_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        id = await asked(approvals)
        await mesh.grant(BOB, Role.ADMIN, MESH)
        await approve(approvals, id)
        await mesh.replicas["registry"].identities.execute(RevokeIdentity(BOB), ANN)
        assert await asked(approvals) == id
        await mesh.replicas["registry"].identities.execute(LiftRevocation(BOB), ANN)
        await approvals.require("DeleteStream", DELETE, DESTRUCTION, BY_ALICE)

    play(scene)


def test_who_may_approve_has_every_right_that_the_request_takes() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        await mesh.grant(BOB, Role.OPERATOR, LOGS)
        assert not approvals.may_approve(BOB, GUARDED)
        await mesh.grant(BOB, Role.STREAM_OWNER, LOGS)
        assert approvals.may_approve(BOB, GUARDED)
        more = replace(GUARDED, needs=(*GUARDED.needs, Need(Action.PRODUCE, Resource(ResourceKind.STREAM, "other"))))
        assert not approvals.may_approve(BOB, more)
        assert not approvals.may_approve(BOB, replace(GUARDED, asked_by=BOB))

    play(scene)


def test_nobody_known_asks_for_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        for caller in (Caller(ALICE, "default", "", ""), Caller("", "default", "", "", authenticated=True)):
            with pytest.raises(Unauthenticated, match="needs a second person's approval"):
                await approvals.require("DeleteStream", DELETE, DESTRUCTION, caller)
        assert not approvals_of(approvals.state)

    play(scene)


def test_a_call_without_a_request_id_uses_an_approval_once() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        await mesh.grant(BOB, Role.ADMIN, MESH)
        id = await asked(approvals)
        await approve(approvals, id)
        await approvals.require("DeleteStream", DELETE, DESTRUCTION, BY_ALICE)
        assert await asked(approvals) != id

    play(scene)


def test_two_calls_at_once_use_one_approval_once() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        await mesh.grant(BOB, Role.ADMIN, MESH)
        await approve(approvals, await asked(approvals))
        calls = [
            approvals.require("DeleteStream", DELETE, DESTRUCTION, replace(BY_ALICE, request_id=f"r-{number}"))
            for number in range(5)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in results].count(ApprovalRequired) == 4

    play(scene)


def test_only_the_leader_answers_claims() -> None:
    async def scene(mesh: Mesh) -> None:
        await policy(mesh)
        registry = mesh.replicas["registry"]
        registry.step_down("a test")
        with pytest.raises(NotLeader):
            await registry.approvals.claim(GUARDED, "r-1")

    play(scene)


def test_nothing_is_destroyed_before_the_policies_were_read() -> None:
    async def scene(mesh: Mesh) -> None:
        late = mesh.begin("lagmon", ENFORCED)
        with pytest.raises(Unavailable, match="has not read yet"):
            await late.approvals.require("CreateReplay", DELETE, DESTRUCTION, BY_ALICE)

    play(scene)


def test_nothing_is_destroyed_where_the_policies_cannot_be_read() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        history = approvals.histories.histories()[0]
        leader = mesh.replicas["registry"].require_leader().leader
        await mesh.stores["registry"].append(history, [b"\xff"], 1, leader.fence)
        await asyncio.sleep(1.0)
        with pytest.raises(CorruptHistory):
            await mesh.replicas["dlq"].approvals.require("CreateReplay", DELETE, DESTRUCTION, BY_ALICE)

    play(scene)


def test_a_request_has_one_digest_whatever_its_etag() -> None:
    digest = request_digest("registry", "DeleteStream", DELETE)
    assert digest == request_digest("registry", "DeleteStream", DeleteStreamRequest(name="logs", etag="7"))
    assert digest != request_digest("registry", "DeleteStream", DeleteStreamRequest(name="other"))
    assert digest != request_digest("registry", "DeleteCluster", DELETE)
    assert digest != request_digest("registry", "CreateStream", CreateStreamRequest(name="logs"))


def test_a_leader_does_not_begin_before_the_last_event() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        ahead = approvals.led_ms + POLICY.expire_ms
        await approvals.execute(Claim(GUARDED, "r-1", "ahead", ahead), BY_ALICE)
        assert approvals.led_ms >= ahead, "a count that was lost with a leader lengthens no approval by all of it"

    play(scene)


def test_led_time_counts_the_expiry_of_claims() -> None:
    async def scene(mesh: Mesh) -> None:
        approvals = await policy(mesh)
        await mesh.grant(BOB, Role.ADMIN, MESH)
        old = Claim(GUARDED, "r-1", "old", approvals.led_ms - POLICY.expire_ms)
        await approvals.execute(old, BY_ALICE)
        claimed = await approvals.claim(GUARDED, "r-2")
        assert not claimed.allowed and claimed.approval.id != "old"

    play(scene)
