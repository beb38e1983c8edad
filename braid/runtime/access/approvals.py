"""Approvals at a replica: it follows the policies, and stops destructive requests that lack a second person's approval.

The registry's leader keeps the approvals and uses them up, in one history: of two calls that want the same approval one
gets it. Other services follow the policies, and ask the registry only about requests that a policy guards. So with the
registry away nothing else is stopped. Before its first read of the policies a replica carries out nothing destructive.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.message import Message

from braid.api.registry.v1 import approval_pb2 as api
from braid.kernel.access.approvals import Approval, GuardedRequest, GuardedVerb
from braid.kernel.access.requests import needs_of
from braid.kernel.access.roles import Resource
from braid.kernel.access.table import row_of
from braid.kernel.audit.commands import command_of
from braid.kernel.errors import ApprovalRequired, DeadlineExceeded, Unauthenticated, Unavailable, Unsupported
from braid.kernel.limits.access.rights import APPROVAL_CLAIM_SECONDS
from braid.kernel.ports import Caller
from braid.runtime.access.approval_codec import APPROVALS, approval_message, request_message
from braid.runtime.access.approval_history import HISTORIES, HISTORY, ApprovalsState, Claim, Command
from braid.runtime.access.side_history import SideHistory
from braid.runtime.histories.aggregates import Aggregates

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

_OWNER: Final = "registry"
_ETAG: Final = "etag"  # it changes with the thing, and says nothing of what is done to it


class Destruction(NamedTuple):
    """The part of a destructive request that its message does not tell.

    Attributes:
        verbs: What it does.
        resources: What it is about; the first is what it destroys.
        identity: Tells that from another of the same name, made later.
        letters: How many dead letters it replays.
    """

    verbs: tuple[GuardedVerb, ...]
    resources: tuple[Resource, ...]
    identity: str
    letters: int = 0


class Claimed(NamedTuple):
    """The registry's answer about a guarded request: whether it may be carried out, and by or for which approval."""

    allowed: bool
    approval: api.Approval


class Approvals:
    """Approvals as one replica follows, asks for and uses them."""

    def __init__(self, replica: "Replica") -> None:
        """Prepares it; `run` follows the policies."""
        self._replica = replica
        self._history = SideHistory(replica, APPROVALS, (HISTORIES, HISTORY))

    # --- what is known

    @property
    def state(self) -> ApprovalsState:
        """All policies and approvals, as this replica knows them."""
        return self._history.state

    @property
    def histories(self) -> Aggregates:
        """The history of approvals, as this replica follows it."""
        return self._history.aggregates

    @property
    def led_ms(self) -> int:
        """The registry's led time, by which approvals expire; only a registry's replica knows it.

        A new leader begins with the last recorded count, and at least with that of the last event on approvals.
        """
        return max(self._replica.waits.led_ms, self.state.led_ms)

    def owns(self, history: str) -> bool:
        """Whether a history, `<kind>/<id>` or `<kind>`, is that of approvals."""
        return self._history.owns(history)

    async def loaded(self) -> None:
        """Waits until the history was read once, or cannot be read."""
        await self._history.aggregates.loaded()

    def require_known(self) -> None:
        """Raises `Unavailable` before the policies were read, and `CorruptHistory` where they cannot be.

        A policy that an older release cannot read may guard anything, so that release destroys nothing.
        """
        if self._history.aggregates.corrupt is not None:
            raise self._history.aggregates.corrupt
        self._history.require_known("yet what needs an approval")

    # --- changing it

    async def execute(self, command: Command, caller: Caller, request_id: str = "") -> ApprovalsState:
        """Records a caller's command, at the registry's leader. Raises what `Aggregates.execute` does."""
        return await self._history.execute(command, caller, request_id)

    # --- destructive requests

    async def require(self, rpc: str, request: Message, destruction: Destruction, caller: Caller) -> None:
        """Lets a destructive request through that needs no approval, or uses up the one that it has.

        A handler calls it last of all, before it records anything: whatever would refuse the request comes first.
        A repeat with the same request id goes through again for a while.

        Raises:
            ApprovalRequired: a second person must approve it first; it names the approval that waits.
            Unauthenticated: nobody knows who asks.
            Unavailable: the policies are not known yet, or the registry does not answer.
            Exhausted: too many requests of the caller wait.
        """
        self.require_known()
        guarded = self._guarded(rpc, request, destruction, caller)
        policies = self.state.guarding(guarded)
        if not policies:
            return
        names = ", ".join(each.name for each in policies)
        if not caller.authenticated or not caller.principal:
            message = f"{guarded.command or rpc} needs a second person's approval, and it is unknown who asks"
            raise Unauthenticated(message, remedy="connect by mutual TLS, or with a token", metadata={"policy": names})
        request_id = caller.request_id or self._replica.host.ids.ulid()
        claimed = await (self.claim if self._replica.name == _OWNER else self._ask_registry)(guarded, request_id)
        if not claimed.allowed:
            raise _required(guarded, claimed.approval, names)

    async def claim(self, request: GuardedRequest, request_id: str) -> Claimed:
        """Uses up the approval of a request, or asks for one; at the registry's leader.

        Raises:
            NotLeader: another replica leads.
            Exhausted: too many requests of its caller wait.
        """
        self._replica.require_leader()
        self.require_known()
        lost, led_ms = self.lost(request), self.led_ms
        command = Claim(request, request_id, self._replica.host.ids.ulid(), led_ms, lost)
        caller = Caller(request.asked_by, request.tenant, request_id, "", authenticated=True)
        state = await self.execute(command, caller)
        if not state.guarding(request):
            return Claimed(True, api.Approval())
        used = state.used_by(request, request_id, led_ms)
        waiting = used or state.waiting(request, led_ms)
        if waiting is None:  # another command came between
            raise Unavailable("the approvals have changed meanwhile", remedy="try again")
        return Claimed(used is not None, approval_message(waiting, led_ms))

    def may_approve(self, principal: str, request: GuardedRequest) -> bool:
        """Whether somebody's approval of a request counts now: it may do the same itself, and is not revoked."""
        if principal == request.asked_by or principal in self._replica.identities.revoked.revocations:
            return False
        access = self._replica.access
        return not access.enforced or all(access.decide(principal, need).allowed for need in request.needs)

    def lost(self, request: GuardedRequest) -> Collection[str]:
        """Principals that approved such a request, and whose approvals do not count any more."""
        access, identities = self._replica.access, self._replica.identities
        access.require_known()
        identities.require_known()
        given = {each.decided_by for each in self.state.approvals.values() if each.decided_by}
        return frozenset(each for each in given if not self.may_approve(each, request))

    async def _ask_registry(self, request: GuardedRequest, request_id: str) -> Claimed:
        message = api.ClaimApprovalRequest(request=request_message(request), request_id=request_id)
        client = self._replica.client(_OWNER)
        try:
            answer = await client.unary(
                "ClaimApproval", message, api.ClaimApprovalResponse, timeout_seconds=APPROVAL_CLAIM_SECONDS
            )
        except DeadlineExceeded as error:
            text = "the registry did not say whether the request is approved"
            raise Unavailable(text, remedy="repeat it when the registry answers") from error
        except Unsupported as error:
            remedy = "upgrade every replica of the registry, then repeat it"
            raise Unavailable("the registry knows no approvals, and a policy asks for one", remedy=remedy) from error
        return Claimed(answer.allowed, answer.approval)

    def _guarded(self, rpc: str, request: Message, destruction: Destruction, caller: Caller) -> GuardedRequest:
        service = self._replica.name
        row = row_of(service, rpc)
        assert row is not None, "a method without a row is refused before"
        return GuardedRequest(
            destruction.verbs,
            destruction.resources,
            destruction.identity,
            request_digest(service, rpc, request),
            caller.principal,
            destruction.letters,
            tuple(needs_of(row, request, self._replica.access.lookup)),
            command_of(service, rpc, request),
            caller.tenant,
        )

    # --- its life

    async def run(self) -> None:
        """Follows the policies and approvals until cancelled."""
        await self._history.follow()


def request_digest(service: str, rpc: str, request: Message) -> str:
    """SHA-256 of a request without its etag, in hexadecimal; equal requests of one method have equal ones."""
    bare = type(request)()
    bare.CopyFrom(request)
    if _ETAG in bare.DESCRIPTOR.fields_by_name:
        bare.ClearField(_ETAG)
    return hashlib.sha256(f"{service}/{rpc}\n".encode() + bare.SerializeToString(deterministic=True)).hexdigest()


def approvals_of(state: ApprovalsState) -> Sequence[Approval]:
    """All approvals in the order in which they were asked for."""
    return sorted(state.approvals.values(), key=lambda each: (each.asked_ms, each.id))


def _required(request: GuardedRequest, approval: api.Approval, policies: str) -> ApprovalRequired:
    minutes = max(1, round(approval.left_ms / 60_000))
    what = request.command or ", ".join(each.value for each in request.verbs)
    remedy = (
        f"another principal who may do it runs: braid approve {approval.id}; "
        f"then repeat the same command within {minutes} min"
    )
    facts = {"approval": approval.id, "policy": policies, "digest": request.digest}
    return ApprovalRequired(
        f"{what} waits for a second person's approval, {approval.id}", remedy=remedy, metadata=facts
    )
